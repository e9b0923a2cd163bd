"""A model server on loopback that does what prompts say."""

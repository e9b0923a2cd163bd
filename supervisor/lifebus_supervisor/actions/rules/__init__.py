"""What a request for an action is, what its scope allows, and when it is the same as another one; pure."""

"""Extensions: folders whose handlers are told events and may ask for actions (docs/extensions.md)."""

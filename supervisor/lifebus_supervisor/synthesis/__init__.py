"""Events that no app-server sends: made of what a session's transcript shows, for extensions (docs/transcripts.md)."""

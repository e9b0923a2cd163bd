"""Transcripts of sessions: kept in the journal, filled from the signals of app-servers (docs/transcripts.md)."""

"""What transcripts need from outside."""

from typing import Protocol


class SessionDirectory(Protocol):
    """Who knows which sessions there are (fulfilled by `directory.KnownSessions`)."""

    async def knows(self, session_id: str) -> bool:
        """Return whether anything was ever heard of a session."""
        ...

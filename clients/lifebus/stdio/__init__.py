"""The request protocol as JSON lines on stdin and stdout, for programs: `lifebus dev stdio` (docs/stdio.md)."""

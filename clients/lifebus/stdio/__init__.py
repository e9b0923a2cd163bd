"""The request protocol as JSON lines on stdin and stdout, for programs that launch `lifebus stdio` (docs/stdio.md)."""

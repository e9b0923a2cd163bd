"""The request protocol as JSON lines on stdin and stdout, for whoever launches `lifebus stdio` (docs/stdio.md)."""

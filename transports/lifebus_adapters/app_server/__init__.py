"""The Codex app-server on its stdin and stdout: signals and lifecycle facts, read from the bytes that pass."""

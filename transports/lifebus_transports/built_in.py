"""The ids of the built-in adapters, for those who need not wait until every adapter, or any library, is imported."""

BUILT_IN = ("codex", "claude", "gemini", "opencode", "hermes", "openclaw")

"""Settings files as text: JSON, JSONC, JSON5 and YAML, edited without touching other bytes."""

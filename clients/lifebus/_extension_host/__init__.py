"""The child program that runs extensions: `python -m lifebus._extension_host` (docs/extensions.md)."""

"""Logging that costs a client nothing until it logs: importing structlog is a third of a command's start."""

from typing import Any


class LazyLogger:
    """A logger of structlog, which is imported at the first event."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        import structlog  # noqa: PLC0415  most clients never log anything

        return getattr(structlog.get_logger(self._name), level)

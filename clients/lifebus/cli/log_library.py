"""The library of our logs, loaded without what it would load to colour tracebacks, of which lifebus shows none."""

import sys
from importlib import import_module


def load_log_library() -> None:
    """Import structlog; it does without rich, which takes as long as a whole command."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented way to have an import fail
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]

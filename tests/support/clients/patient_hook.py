"""An installed hook that waits for its answer as long as a test does, instead of spooling a call that takes longer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.patience import PATIENCE_S

INSTALLED = Path(".local/share/lifebus/hook.py")
"""Where `hooks install` puts it, below a home."""


@contextmanager
def patient_hook(home: Path) -> Iterator[None]:
    """Have the hook that is installed below a home wait, for the length of the block."""
    hook = home / INSTALLED
    text = hook.read_text()
    # Its size differs, by which Python tells that the bytecode that it has kept is of another file.
    patient, found = re.subn(r"^_EXCHANGE_S = .*$", f"_EXCHANGE_S = {PATIENCE_S}  # patient", text, flags=re.MULTILINE)
    assert found == 1
    hook.write_text(patient)
    try:
        yield
    finally:
        hook.write_text(text)

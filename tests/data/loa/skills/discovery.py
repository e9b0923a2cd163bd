"""A phase: what the project is about.  Its source is busy the first time, which is 75, EX_TEMPFAIL."""

import os
import sys
from pathlib import Path

TEMPORARY = 75

busy = Path("busy")
if not busy.exists():
    busy.touch()
    sys.exit(TEMPORARY)
told = {name: os.environ[f"LIFEBUS_FLOW_{name}"] for name in ("STEP", "RETRY_COUNT", "MAX_RETRIES")}
Path("discovery.txt").write_text(f"{told['STEP']}: retry {told['RETRY_COUNT']} of {told['MAX_RETRIES']}\n")

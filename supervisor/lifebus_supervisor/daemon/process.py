"""What a broker sets for its whole process: descriptors, thread switches, memory, the garbage collector."""

import gc
import resource
import sys
from typing import Final

from lifebus_broker.process_memory import keep_little_memory

# How long a thread may keep the interpreter while the ledger's writer waits for it
_SWITCH_S: Final = 0.0005
_GC_THRESHOLD: Final = 20_000
# libzmq ends the process when it has no descriptor for a connection; 1,024, the usual limit, is soon reached
_DESCRIPTORS: Final = 65_536


def set_up_process() -> None:
    """Give the writer thread the interpreter soon, spare the collector what stays, have room for connections."""
    # The soft limit alone: raising the hard one needs privileges.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    # An acknowledgement waits for the writer thread, which the default of 5 ms keeps from running.
    sys.setswitchinterval(_SWITCH_S)
    keep_little_memory()
    # What was loaded until now lives as long as the process: frozen, no collection looks at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 50, 100)

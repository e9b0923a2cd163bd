"""``python -P -m lifebus.observer ORIGIN NUMBER ADAPTER RUNTIME_DIR PID STARTED``: started by the proxy alone.

NUMBER counts the observers of this run from 1; PID and STARTED say which process the app-server is.  Descriptor 3 is
the proxy's shared memory, 4 the pipe of records (lifebus.proxy.shared_memory), 5 the way back to the proxy
(lifebus.proxy.steering_socket).
"""

import os
import sys

_MEMORY, _RECORDS, _STEERING = 3, 4, 5
_NICENESS = 10
"""Observing has time; the harness does not."""


def main(arguments: list[str]) -> None:
    """Observe until the proxy has ended."""
    origin, number, adapter, runtime_dir, pid, started = arguments
    os.closerange(_STEERING + 1, os.sysconf("SC_OPEN_MAX"))  # or a pipe that the client gave its server never ends
    os.nice(_NICENESS)
    from pathlib import Path  # noqa: PLC0415  after the descriptors are closed and we are out of the way

    import anyio  # noqa: PLC0415

    from lifebus.observer.reader import observe  # noqa: PLC0415
    from lifebus.observer.recording import Recording  # noqa: PLC0415
    from lifebus.observer.sender import ObservedRun  # noqa: PLC0415
    from lifebus_transports.directories import default_runtime_dir  # noqa: PLC0415
    from lifebus_transports.messages.signals import ObservedProcess  # noqa: PLC0415
    from lifebus_transports.processes.identity import identify, started_as  # noqa: PLC0415

    # It may be gone by now, and is reported all the same: the proxy has asked the kernel while it was there.
    found = started_as(int(pid), started) or identify(int(pid))
    process = ObservedProcess(pid=found.pid, started=found.started) if found else None
    place = Path(runtime_dir).absolute() if runtime_dir else default_runtime_dir()
    os.chdir("/")  # or the directory that the client started in could not be unmounted
    recording = Recording(_MEMORY, _RECORDS, is_first=number == "1")
    anyio.run(observe, recording, ObservedRun(adapter, origin, process), place, _STEERING)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # nothing is left to write, and taking the interpreter down takes long on a busy machine

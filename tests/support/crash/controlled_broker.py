"""A broker, as `broker_process` starts it, whose disk does at each sync what a file tells: take its time, or fail.

The file is ``$HOME/disk``: empty, milliseconds to take, ``hold`` to take until it says something else, or ``fail``.
A sync that is held leaves a file ``held``, one that failed a file ``failed``.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import apsw

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from support.broker_process import main
    from support.crash.disks import Disk

    class ControlledDisk(Disk):
        """Looks into the file at each sync of the write-ahead log."""

        home = Path(os.environ["HOME"])

        def check(self, call: str, path: str) -> None:
            if call != "sync" or not path.endswith("-wal"):
                return
            order = self.order()
            if order == "fail":
                (self.home / "failed").touch()
                fault: Any = apsw.IOError("injected")
                fault.extendedresult = apsw.SQLITE_IOERR_FSYNC
                raise fault
            # The disk itself is slow here: a sync blocks the thread that asks for it, as a real one does.
            while order == "hold":
                (self.home / "held").touch()
                time.sleep(0.005)
                order = self.order()
            time.sleep(int(order or 0) / 1_000)

        def order(self) -> str:
            return (self.home / "disk").read_text()

    disk = ControlledDisk("controlled", makedefault=True)
    sys.exit(main(int(sys.argv[1])))

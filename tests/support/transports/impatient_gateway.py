"""A broker, as `broker_process` starts it, whose gateway is late, idle and at the end of a page after a few records."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from lifebus_transports.http.following import pages, stream
    from support.broker_process import main

    pages.ROWS = 16  # type: ignore[misc]
    stream.BEHIND = 40  # type: ignore[misc]
    stream.KEEP_ALIVE_S = 0.05  # type: ignore[misc]
    sys.exit(main(int(sys.argv[1])))

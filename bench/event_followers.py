"""Who follows the events of hooks, in a process of its own: of a broker, of the small server, of a file.

`python -m bench.event_followers lifebus RUNTIME_DIR | http PORT | file PATH` prints `ready`, and for each session
that it sees for the first time `got SESSION NANOSECONDS`, by the clock that all processes share.
"""

import asyncio
import http.client
import json
import subprocess
import sys
import time
from contextlib import suppress

import lifebus

_seen: set[str] = set()


def session_of(payload: bytes) -> str:
    """Return the session that a hook's payload names."""
    return str(json.loads(payload)["session_id"])


def _take(session: str | None) -> None:
    now = time.monotonic_ns()
    if session and session not in _seen:
        _seen.add(session)
        print(f"got {session} {now}", flush=True)


async def _follow_lifebus(runtime_dir: str) -> None:
    async with lifebus.connect("bench-follower", runtime_dir=runtime_dir, timeout=30) as bus:
        ledger = (await bus.status()).ledger
        subscription = bus.receipts(since=lifebus.Position(ledger.epoch, ledger.head))
        print("ready", flush=True)
        async for receipt in subscription:
            _take(receipt.harness_session_id)


def _follow_http(port: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    print("ready", flush=True)
    number = 0
    # It ends with the server: nobody follows what is counted afterwards.
    with suppress(OSError, http.client.HTTPException):
        while True:
            connection.request("GET", f"/{number}")
            for line in connection.getresponse().read().splitlines():
                number += 1
                _take(session_of(line))


def _follow_file(path: str) -> None:
    with subprocess.Popen(["tail", "-n", "+1", "-F", path], stdout=subprocess.PIPE) as tail:
        print("ready", flush=True)
        for line in tail.stdout or ():
            _take(session_of(line))


if __name__ == "__main__":
    kind, place = sys.argv[1:]
    if kind == "lifebus":
        asyncio.run(_follow_lifebus(place))
    else:
        (_follow_http if kind == "http" else _follow_file)(place)

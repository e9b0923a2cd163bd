"""What `lifebus app-server tee` costs: throughput and added latency beside `cat`, and the time to start.

The cases take turns, and of each the best round counts, because a noisy machine only ever adds.  Streams go from a
program through the case to a reader of 64 KiB reads; round trips go to an echoing `cat` and back, one at a time.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.lifebus_client import broker
from bench.peers.process import workspace
from bench.report import Aim
from bench.workload import percentile

CAT, PRESENT, ABSENT, HUNG = "cat", "tee, broker present", "tee, no broker", "tee, broker hung"
ZEROS, LINES = "zeros", "JSON lines"
SHARE, ADDED_US = 0.8, 1_000.0

_TEE = (sys.executable, "-m", "lifebus", "app-server", "tee", "--")
_READ = 65_536
_OBSERVERS_S = 4.0
"""How long observers may outlive what they observe: they still write into our directory."""

_MESSAGE = (
    b'{"method":"item/agentMessage/delta","params":{"threadId":"t1","turnId":"u1","itemId":"i1","delta":"%b"}}\n'
    % (b"x" * 200)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was measured: bytes a second by stream and case; seconds by case of round trips (in rounds) and starts."""

    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    trips: dict[str, list[list[float]]] = field(default_factory=dict)
    starts: dict[str, list[float]] = field(default_factory=dict)

    def rate(self, stream: str, case: str) -> float:
        """Return bytes a second in the best round."""
        return max(self.rates[stream, case])

    def share(self, stream: str, case: str) -> float:
        """Return the rate by that of `cat`."""
        return self.rate(stream, case) / self.rate(stream, CAT)

    def trip_us(self, case: str, share: float) -> float:
        """Return the microseconds of a round trip at a percentile, in the best round."""
        return 1e6 * min(percentile(times, share) for times in self.trips[case])


def collect(megabytes: int, trips: int, rounds: int, say: Callable[[str], None]) -> Costs:
    """Measure every case; return the figures of all rounds."""
    costs = Costs()
    with workspace() as folder, _environments(folder) as environments:
        file = folder / "lines"
        file.write_bytes(_MESSAGE * (megabytes * 1_048_576 // len(_MESSAGE)))
        streams = {ZEROS: f"head -c {file.stat().st_size} /dev/zero", LINES: f"exec cat {file}"}
        # Cases inside rounds: a slow minute of the machine hurts all of them.
        for turn in range(rounds):
            for case, environment in environments.items():
                say(f"round {turn + 1} of {rounds}: {case}")
                for stream, program in streams.items():
                    rate = _rate(case, program, environment, file.stat().st_size)
                    costs.rates.setdefault((stream, case), []).append(rate)
                costs.trips.setdefault(case, []).append(_trips(case, environment, trips))
        for _ in range(4 * rounds):
            for name, command in _STARTS.items():
                costs.starts.setdefault(name, []).append(_start(command, environments[ABSENT]))
    return costs


def aims(costs: Costs) -> list[Aim]:
    """Return the aims: throughput as a share of `cat`, and what one direction adds to a message."""
    found = [
        Aim(text=f"{stream} through {case}: × cat", limit=SHARE, measured=costs.share(stream, case))
        for stream in (ZEROS, LINES)
        for case in (PRESENT, ABSENT, HUNG)
    ]
    added = costs.trip_us(PRESENT, 0.99) - costs.trip_us(CAT, 0.99)
    text = "a message and its echo through tee, p99: added to cat"
    return [*found, Aim(text=text, limit=ADDED_US, measured=added, at_most=True, unit="µs")]


_STARTS = {
    "true": ("true",),
    "python -c pass": (sys.executable, "-c", "pass"),
    "lifebus app-server tee -- true": (*_TEE, "true"),
    "lifebus version": (sys.executable, "-m", "lifebus", "version"),
}


@contextmanager
def _environments(folder: Path) -> Iterator[dict[str, dict[str, str]]]:
    """Yield the environment of each case; the brokers of `PRESENT` and `HUNG` run meanwhile."""
    with broker() as present, broker() as hung:
        os.kill(hung.pid, signal.SIGSTOP)
        try:
            places = {CAT: folder, PRESENT: present.runtime_dir, ABSENT: folder / "nowhere", HUNG: hung.runtime_dir}
            state = {"LIFEBUS_STATE_DIR": str(folder / "state")}
            yield {case: {**os.environ, **state, "LIFEBUS_RUNTIME_DIR": str(place)} for case, place in places.items()}
        finally:
            # A stopped process ignores SIGTERM until it is continued.
            os.kill(hung.pid, signal.SIGCONT)
            time.sleep(_OBSERVERS_S)


def _rate(case: str, program: str, environment: dict[str, str], size: int) -> float:
    """Return the bytes a second of a program's output, from its first byte to its last."""
    command = ("sh", "-c", f"{program} | cat") if case == CAT else (*_TEE, "sh", "-c", program)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment) as process:
        if process.stdout is None:
            raise SystemExit("no pipe")
        room, came = bytearray(_READ), 0
        # The clock starts with the first chunk: start-up time is measured by itself.
        came = os.readv(process.stdout.fileno(), (room,))
        began = time.perf_counter()
        while length := os.readv(process.stdout.fileno(), (room,)):
            came += length
        seconds = time.perf_counter() - began
    if came != size:
        raise SystemExit(f"{case}: {came} of {size} bytes came")
    return came / seconds


def _trips(case: str, environment: dict[str, str], count: int) -> list[float]:
    """Return the seconds of each round trip of a message, after some to warm up."""
    command = ("sh", "-c", "cat | cat | cat") if case == CAT else (*_TEE, "cat")
    times: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        if process.stdin is None or process.stdout is None:
            raise SystemExit("no pipe")
        for number in range(count + 100):
            began = time.perf_counter()
            os.write(process.stdin.fileno(), _MESSAGE)
            came = 0
            while came < len(_MESSAGE):
                came += len(os.read(process.stdout.fileno(), _READ))
            if number >= 100:
                times.append(time.perf_counter() - began)
        process.stdin.close()
    return times


def _start(command: tuple[str, ...], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, check=True)
    return time.perf_counter() - began

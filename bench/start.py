"""What starts cost: commands and the installed hook beside a bare Python, and a broker until its first answer.

Run as ``python -m bench.start [ROUNDS] [PYTHON]``, calmest under ``chrt -f 10``.  The cases take turns, so that a noisy
machine hurts them alike; each is a whole process.  CPU is user and system time of the process.  The hook carries a
prompt, whose receipts are durable before it is answered; beside it stands one for which there is no broker.  `status`
has hooks of two harnesses to tell of.

PYTHON is the interpreter of another environment, such as that of a checkout before a change: its broker starts in turns
with this one, and the ratios of each pair are shown.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import zmq

import lifebus
from bench.hook_calls import HARNESS, HOOK, payload
from bench.measures.flood import one_message
from bench.workload import items
from lifebus_adapters.shared.launcher import launcher_files, launcher_path

BARE, BAREST = "python -c pass", "python -I -S -c pass"
COMMAND_AIM, HOOK_AIM = 2.5, 1.25
_HOOK_CASE, _AWAY_CASE = "hook, installed", "the same, no broker"
BROKER_ROUNDS = 9
SETTLED_S = 2.1
"""`lifebus status` keeps what it found out of files that have not changed for longer than two seconds."""

_INSTALL = ("hooks", "install", "codex", "claude", "--yes")
_LIFEBUS = (sys.executable, "-c", "from lifebus.cli import main; main()")


def timed(command: tuple[str, ...], environment: Mapping[str, str], stdin: str = os.devnull) -> tuple[float, float]:
    """Return the seconds of one process from spawn to exit, and those of its CPU."""
    streams = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0)]
    streams += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
    began = time.perf_counter()
    # Not subprocess: its own work would be a tenth of the figure.
    child = os.posix_spawn(command[0], command, environment, file_actions=streams)
    _, status, used = os.wait4(child, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{command} ended with status {status}")
    return seconds, used.ru_utime + used.ru_stime


def environment_of(base: Path) -> dict[str, str]:
    """Return the environment of a broker and of its commands."""
    directories = {"LIFEBUS_RUNTIME_DIR": str(base / "run"), "LIFEBUS_STATE_DIR": str(base / "state")}
    return {**directories, "HOME": str(base), "PATH": os.defpath}


@contextlib.contextmanager
def started(base: Path, python: str = sys.executable) -> Iterator[tuple["psutil.Process", float]]:
    """Start a broker; yield its process and the seconds until it has answered an emission that was waiting for it."""
    (base / "run").mkdir(mode=0o700, exist_ok=True)
    began = time.perf_counter()
    command = [python, "-P", "-m", "lifebus", "up", "--log-level", "error"]
    with subprocess.Popen(command, env=environment_of(base)) as process:
        try:
            with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
                dealer.setsockopt(zmq.LINGER, 0)
                dealer.setsockopt(zmq.RECONNECT_IVL, 1)
                dealer.connect(f"ipc://{base / 'run' / 'requests.ipc'}")
                dealer.send_multipart(one_message(0, items(1)))
                if not dealer.poll(60_000):
                    raise SystemExit("the broker did not answer")
            yield psutil.Process(process.pid), time.perf_counter() - began
        finally:
            process.terminate()


def installed_hook(base: Path) -> str:
    """Install the files that all hooks share; return the launcher's path."""
    data, sources = base / "data", Path(lifebus.__file__).parent
    data.mkdir()
    texts = {name: sources.joinpath(f"{name}.py").read_text() for name in ("hook", "wrapper")}
    for item in launcher_files(str(data), python=sys.executable, **texts):
        Path(item.path).write_text(item.contents)
        Path(item.path).chmod(item.mode)
    return launcher_path(str(data))


def take_turns(base: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Time every process in turns, with a broker up."""
    emission = ("emit", "session.started", "--adapter", "codex", "--session", "s1")
    hook = (installed_hook(base), HARNESS, HOOK)
    subprocess.run([*_LIFEBUS, *_INSTALL], env=environment_of(base), check=True, capture_output=True)
    time.sleep(SETTLED_S)
    prompt = base / "prompt"
    cases = {
        BAREST: (sys.executable, "-I", "-S", "-c", "pass"),
        _HOOK_CASE: hook,
        _AWAY_CASE: hook,
        BARE: (sys.executable, "-c", "pass"),
        "lifebus --help": (*_LIFEBUS, "--help"),
        "lifebus version": (*_LIFEBUS, "version"),
        "lifebus emit": (*_LIFEBUS, *emission),
        "lifebus emit --json": (*_LIFEBUS, *emission, "--json"),
        "lifebus emit --key": (*_LIFEBUS, *emission, "--key", "k"),
        "lifebus status": (*_LIFEBUS, "status"),
        "lifebus status --json": (*_LIFEBUS, "status", "--json"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for turn in range(rounds + 3):
        prompt.write_bytes(payload(f"s{turn}"))
        for name, command in cases.items():
            away = {"LIFEBUS_RUNTIME_DIR": str(base / "away")} if name == _AWAY_CASE else {}
            cost = timed(command, {**environment_of(base), **away}, str(prompt))
            if turn >= 3:  # the first turns fill caches
                found[name].append(cost)
    return found


def report(found: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Print the medians, each beside the bare Python that it is compared with, and the aims."""
    print(f"{'process':24}{'wall ms':>9}{'CPU ms':>9}{'× bare':>9}{'aim':>7}")
    for name, costs in found.items():
        wall, cpu = (statistics.median(values) for values in zip(*costs, strict=True))
        is_hook = name in {BAREST, _HOOK_CASE, _AWAY_CASE}
        bare = statistics.median(seconds for seconds, _ in found[BAREST if is_hook else BARE])
        aim = HOOK_AIM if is_hook else COMMAND_AIM
        print(f"{name:24}{wall * 1e3:9.1f}{cpu * 1e3:9.1f}{wall / bare:9.2f}{aim:7.2f}")


class BrokerStart(NamedTuple):
    """What a broker cost until its first answer: seconds, of them on a processor, and MiB of memory then."""

    wall: float
    cpu: float
    size: float


def start_broker(python: str) -> BrokerStart:
    """Start and stop the broker of an environment."""
    with tempfile.TemporaryDirectory(prefix="lb-") as name, started(Path(name), python) as (process, seconds):
        return BrokerStart(seconds, cpu_of(process), process.memory_info().rss / 1_048_576)


def cpu_of(process: "psutil.Process") -> float:
    """Return the seconds of CPU that a process has used, by its clock of Linux: other counts are in steps of 10 ms."""
    return time.clock_gettime((~process.pid << 3) | 2)  # clock_getcpuclockid(3)


def broker_line(ours: Sequence[BrokerStart], others: Sequence[BrokerStart]) -> str:
    """Return what the broker cost, and how much that is of the other one's, pair by pair."""
    wall, cpu, size = map(statistics.median, zip(*ours, strict=True))
    text = f"broker, first acknowledgement: {wall * 1e3:.0f} ms, CPU {cpu * 1e3:.0f} ms, then RSS {size:.1f} MiB"
    if not others:
        return text
    shares = [[one / other for one, other in zip(*pair, strict=True)] for pair in zip(ours, others, strict=True)]
    wall, cpu, size = map(statistics.median, zip(*shares, strict=True))
    return f"{text}; × the other: wall {wall:.2f}, CPU {cpu:.2f}, RSS {size:.2f}"


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    ours: list[BrokerStart] = []
    others: list[BrokerStart] = []
    for _ in range(BROKER_ROUNDS):
        ours.append(start_broker(sys.executable))
        others += [start_broker(python) for python in sys.argv[2:3]]
    with tempfile.TemporaryDirectory(prefix="lb-") as name, started(Path(name)):
        report(take_turns(Path(name), rounds))
    print(broker_line(ours, others))


if __name__ == "__main__":
    main()

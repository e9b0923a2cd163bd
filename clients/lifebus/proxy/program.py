"""`lifebus app-server tee` and `run`: start a program, copy its streams through, have them observed, end as it ends."""

import _thread
import os
import sys
from time import time

from lifebus.proxy.answers import AnswerFilter
from lifebus.proxy.child import ProxyChild, die_as, hold_signals, interrupt
from lifebus.proxy.observers import Observers
from lifebus.proxy.shared_memory import IN, OUT, SharedMemory
from lifebus.proxy.steered_pumps import InwardPump, OutwardPump
from lifebus.proxy.steering_socket import SteeringSocket

TYPE_CHECKING = False  # `typing` costs more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable

_TERMINAL = (
    "lifebus app-server run carries the JSON lines of an app-server; for a harness with a screen use "
    "`lifebus hooks install HARNESS --mode launcher_wrapper`\n"
)

_NAME_IT = "  name a program behind `--`, by its path or its name on the PATH"

_NOT_FOUND, _NOT_STARTED = 127, 126
"""Exit codes as a shell has them."""

_EOF_S = 0.05
"""How long the end of the program's output may take to be seen; later, somebody else holds its end of the pipe."""


class ProxyOptions:
    """The options before the `--`; `owned` is what `lifebus app-server run` adds to `lifebus app-server tee`.

    `grace` is how many seconds an owned program may take to end once its stdin is closed.
    """

    def __init__(self, *, owned: bool) -> None:
        self.owned = owned
        self.adapter = "codex"
        self.origin = ""
        self.runtime_dir = ""
        self.grace = 10.0


def read_options(words: list[str], options: ProxyOptions) -> list[str] | None:
    """Read the options before the `--` and return the command behind it; None where the parser has to explain."""
    names = {"--adapter": "adapter", "--origin": "origin", "--runtime-dir": "runtime_dir"}
    place = words.index("--") if "--" in words else -1
    pairs, command = words[:place], words[place + 1 :]
    if place < 0 or place % 2 or not command or any(name not in names for name in pairs[::2]):
        return None
    given = {names[name]: value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
    # Another adapter may be none at all: what knows them all takes longer to load.
    if given.get("adapter", options.adapter) != options.adapter:
        return None
    for name, value in given.items():
        setattr(options, name, value)
    return command


def run_proxy(command: list[str], options: ProxyOptions) -> int:
    """Run the command, copy its streams through, and end this process as it ends; return only if it cannot start."""
    if options.owned and os.isatty(0) and os.isatty(1):
        sys.stderr.write(_TERMINAL)
    held = hold_signals()  # before any thread starts: threads inherit the mask, so only `wait` gets signals
    memory = SharedMemory()
    steering, answers = SteeringSocket(), AnswerFilter()
    try:
        child = ProxyChild(command, owned=options.owned, grace=options.grace, held=held)
    except OSError as fault:
        sys.stderr.write(f"lifebus: {command[0]}: {fault.strerror}\n{_NAME_IT}\n")
        return _NOT_FOUND if isinstance(fault, FileNotFoundError) else _NOT_STARTED
    inward = InwardPump(0, child.stdin, memory.rings[IN], steering, answers)
    outward = OutwardPump(child.stdout, 1, memory.rings[OUT], answers)
    _start(inward.run, child.stdin_ended)
    thread, done = _start(outward.run)
    origin = options.origin or f"{options.adapter}-{int(time() * 1000):x}-{os.urandom(6).hex()}"
    server = [options.adapter, options.runtime_dir, str(child.pid), child.started]
    observers = Observers(memory, steering.observer, server, origin, held)
    observers.start()
    code = child.wait(observers.on_exit)
    outward.end_soon()
    # A grandchild may hold the program's end of the pipe: then no end of file comes, and the read is interrupted.
    if not done.acquire(timeout=_EOF_S):
        interrupt(thread)
        done.acquire()
    child.end_group()
    observers.ensure_last()
    memory.close(code)
    die_as(code)
    return code


def _start(work: "Callable[..., None]", *arguments: object) -> "tuple[int, _thread.LockType]":
    """Do the work in a thread; return its id, and a lock that is free once it is done."""
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            work(*arguments)
        finally:
            done.release()

    return _thread.start_new_thread(run, ()), done

"""The program behind the proxy: started, signalled, waited for, and ended where we own it."""

import os
import resource

TYPE_CHECKING = False  # `typing` costs more than all the rest
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # `signal` itself would import `enum`

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_AWAITED = (*_FORWARDED, signal.SIGCHLD, signal.SIGALRM)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals after which a program that we own has to end."""

_FROM_KERNEL = 128
"""The code of a signal that a terminal sent: to the whole foreground, the program included."""

_TERMINATE_S = 5.0
"""How long a program that we own may take after SIGTERM, before it is killed."""


def hold_signals() -> "set[signal.Signals | int]":
    """Have signals wait until they are asked for, and return which ones were held before."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, the kernel would discard the exit code
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return signal.pthread_sigmask(signal.SIG_BLOCK, _awaited())


def _awaited() -> "list[signal.Signals]":
    """Return the signals to wait for: not those that `nohup` or a shell has us ignore, and so the program too.

    A signal that is blocked is kept even while it is ignored.
    """
    return [number for number in _AWAITED if signal.getsignal(number) != signal.SIG_IGN]


class ProxyChild:
    """The running program.  `stdin` and `stdout` are our ends of its pipes.

    `started` is when it started in the kernel's own count, empty where the system does not say.

    `owned`: it has a process group of its own, and has to end on request; `grace` is how many seconds it may
    take to end by itself once its stdin is closed.

    Raises:
        OSError: there is no such program, or it cannot be started.
    """

    def __init__(self, command: list[str], *, owned: bool, grace: float, held: "set[signal.Signals | int]") -> None:
        self.owned = owned
        self._grace = grace
        self._term_sent = False
        theirs, self.stdin = os.pipe()
        self.stdout, writing = os.pipe()
        streams = [(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, writing, 1)]
        ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and the program would inherit that
        try:
            self.pid = os.posix_spawnp(
                command[0],
                command,
                os.environ,
                file_actions=streams,
                setpgroup=0 if owned else os.getpgrp(),
                setsigmask=held,
                setsigdef=ignored,
            )
        finally:
            os.close(theirs)
            os.close(writing)
        fields = stat_of(self.pid)  # while it cannot be gone: until it is waited for, its entry stays
        self.started = fields[19].decode() if len(fields) > 19 else ""  # noqa: PLR2004  the 20th behind the name

    def wait(self, on_other_exit: "Callable[[int], None]") -> int:
        """Forward signals until the program has ended, and return its exit code, negative for a signal.

        `on_other_exit` is called with the process id of each other child of ours that has ended meanwhile.
        """
        while True:
            number, shared = _next_signal()
            if number == signal.SIGCHLD:
                code = self._reap(on_other_exit)
                if code is not None:
                    return code
            elif number == signal.SIGALRM and self.owned:
                self._force_end()
            elif self.owned or not shared:
                self._send(number)
                if self.owned and number in _ENDING:
                    self._expect_end(_TERMINATE_S)

    def end_group(self) -> None:
        """Terminate what a program that we owned has left behind in its group."""
        if self.owned:
            self._send(signal.SIGTERM)

    def stdin_ended(self) -> None:
        """The client has closed its end: a program that we own has to end within the grace."""
        if self.owned:
            self._expect_end(self._grace)

    def _expect_end(self, seconds: float) -> None:
        # A deadline that runs already stays: a client that signals again and again must not put it off.
        if not any(signal.getitimer(signal.ITIMER_REAL)):
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _force_end(self) -> None:
        """The time is over: terminate the group, and after that kill it."""
        self._send(signal.SIGKILL if self._term_sent else signal.SIGTERM)
        self._term_sent = True
        signal.setitimer(signal.ITIMER_REAL, _TERMINATE_S)

    def _send(self, number: int) -> None:
        try:
            (os.killpg if self.owned else os.kill)(self.pid, number)
        except (ProcessLookupError, PermissionError):  # it has just ended
            return
        self._term_sent = self._term_sent or number in _ENDING

    def _reap(self, on_other_exit: "Callable[[int], None]") -> int | None:
        """Reap every child that has ended; return the program's exit code if it is among them."""
        code = None
        # One SIGCHLD may stand for several children: signals of one kind do not queue up.
        while code is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
            elif not pid:
                break
            else:
                on_other_exit(pid)
        return code


def stat_of(pid: int) -> list[bytes]:
    """Return what `/proc` says of a process, from its state on; nothing where there is none, or nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  pathlib costs start-up time
            text = file.read(4_096)
    except OSError:
        return []
    # The name stands in parentheses and may hold any of them, and spaces.
    return (text or b"").rpartition(b")")[2].split()


def _next_signal() -> tuple[int, bool]:
    """Return the next signal, and whether the program has got it from the terminal as well."""
    # macOS has no `sigwaitinfo`, and so does not say who sent a signal.
    if hasattr(signal, "sigwaitinfo"):
        found = signal.sigwaitinfo(_awaited())
        return found.si_signo, found.si_code == _FROM_KERNEL
    return signal.sigwait(_awaited()), os.isatty(0)


def interrupt(thread: int) -> None:
    """Interrupt the system call that a thread waits in; it is tried again at once."""
    signal.signal(signal.SIGURG, _do_nothing)
    signal.pthread_kill(thread, signal.SIGURG)


def _do_nothing(_number: int, _frame: object) -> None:
    """Signal handler: that there is one is what interrupts a system call."""


def die_as(code: int) -> None:
    """End this process as the program ended: with its exit code, or by its signal."""
    if code < 0:
        if -code not in {signal.SIGKILL, signal.SIGSTOP}:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core of ours would show nothing of the program
            signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (-code,))
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)

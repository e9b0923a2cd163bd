"""The launcher wrapper's runner: starts a harness, stays out of its way, reports its start and end.

Run as ``python -I -S wrapper.py LAUNCHER ADAPTER PROGRAM [ARGUMENT…]`` by the script that `lifebus hooks install
--mode launcher_wrapper` makes.  The harness has the terminal, the streams and the arguments; signals that reach only
the wrapper are passed on; the exit code, or the signal that ended the harness, is the wrapper's too.
"""

import os
import signal
import sys
import time

_PATIENCE_S = 1.0
"""How long the launcher may take; by itself it ends within 300 ms."""

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the harness itself as well, so that it must not get them twice."""


class _Harness:
    """The harness's process.  From `start` on signals wait until `wait` takes them.

    With a handler one could be lost: it may come when Python has looked for signals and has not called the system yet.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._awaited = [one for one in (*_PASSED_ON, *_FROM_TERMINAL) if signal.getsignal(one) is not signal.SIG_IGN]
        self._awaited.append(signal.SIGCHLD)

    def start(self, program: str, arguments: list[str]) -> None:
        """Start it with the signals as we were given them: some Python ignores, and that would be inherited.

        What `nohup` or a shell has us ignore stays so, for us and for it.

        Raises:
            OSError: there is no such program, or it cannot be started.
        """
        signal.signal(signal.SIGCHLD, _do_nothing)  # without a handler it may be discarded, though it is blocked
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        ignored = (signal.SIGPIPE, signal.SIGXFSZ)
        self._pid = os.posix_spawnp(program, [program, *arguments], os.environ, setsigmask=before, setsigdef=ignored)

    def wait(self) -> int:
        """Pass signals on until it has ended; return the exit code, negative for a signal."""
        while True:
            number = signal.sigwait(self._awaited)
            if number == signal.SIGCHLD:
                code = self._look()
                if code is not None:
                    return code
            elif not (number in _FROM_TERMINAL and _in_foreground()):
                os.kill(self._pid, number)  # there also when it has just ended: nobody has waited for it yet

    def _look(self) -> "int | None":
        """Return the exit code where it has ended; stop when it has stopped, as a shell expects of its job."""
        pid, status = self._changed()
        while pid:
            if not os.WIFSTOPPED(status) and not os.WIFCONTINUED(status):
                return os.waitstatus_to_exitcode(status)
            # It may have gone on or ended meanwhile; stopping ourselves then would hold the shell up for nothing.
            pid, after = self._changed()
            # Only in the foreground: a shell waits there for its job, and would never show its prompt again.
            if not pid and os.WIFSTOPPED(status) and _in_foreground():
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(self._pid, signal.SIGCONT)
            status = after
        return None

    def _changed(self) -> tuple[int, int]:
        return os.waitpid(self._pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG)


def _do_nothing(_number: int, _frame: object) -> None:
    """Signal handler: that there is one is what has the system keep a signal."""


def _in_foreground() -> bool:
    """Whether a terminal's signals go to us and the harness both."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # stdin is no terminal
        return False


def _report(launcher: str, adapter: str, hook: str, members: str) -> None:
    """Have the launcher report one call, and wait for it a moment; errors are ignored, the harness goes first."""
    payload = '{"hook_event_name":"' + hook + '",' + members + "}"
    ours, theirs = os.pipe()
    streams = [
        (os.POSIX_SPAWN_DUP2, ours, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    # Before the hook starts, which counts its time from then; it is far below what a pipe holds.
    os.write(theirs, payload.encode())
    os.close(theirs)
    try:
        # None of the signals blocked that wait for us: this one may be ended by them.
        pid = os.posix_spawn(launcher, [launcher, adapter, hook], os.environ, file_actions=streams, setsigmask=())
    finally:
        os.close(ours)
    until = time.monotonic() + _PATIENCE_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.002)  # waitpid takes no deadline, so it is asked again, for no longer than `_PATIENCE_S`


def _report_quietly(launcher: str, adapter: str, hook: str, members: str) -> None:
    try:
        _report(launcher, adapter, hook, members)
    except OSError:
        return


def main(arguments: list[str]) -> int:
    """Run the harness to its end, and return the exit code; of a signal it dies itself, if that can be."""
    launcher, adapter, program, *rest = arguments
    run = '"run_id":"run-' + format(int(time.time() * 1000), "x") + "-" + os.urandom(6).hex() + '"'
    _report_quietly(launcher, adapter, "wrapper_start", run)
    harness = _Harness()
    try:
        harness.start(program, rest)
        code = harness.wait()
    except OSError as fault:
        sys.stderr.write(f"lifebus-run-{adapter}: {program}: {fault.strerror}\n")
        code = 127 if isinstance(fault, FileNotFoundError) else 126
    _report_quietly(launcher, adapter, "wrapper_end", run + ',"exit_code":' + str(code))
    if code >= 0:
        return code
    # By the same signal: the shell reports how the harness died, and SIGKILL cannot be given a handler.
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (-code,))
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

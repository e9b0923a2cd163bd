"""One command and its end: started, kept in sight, ended when asked, and nothing of it left behind."""

import errno
import os
import resource
import select
import signal
import subprocess
import time
from functools import partial
from typing import Final

from lifebus_transports.shims import ending
from lifebus_transports.shims.end_file import forget_end, record_end
from lifebus_transports.shims.kernel import descendants, start_of
from lifebus_transports.shims.messages import Limit, ShimCommand, ShimEnd, StartFault
from lifebus_transports.shims.output import Output
from lifebus_transports.shims.owner_channel import OwnerChannel

LEFT_GRACE_S: Final = 0.5
"""How long, after SIGTERM, what a command leaves behind may take to end, and a command whose owner is gone; seconds."""

_STUCK_S: Final = 2.0
"""How long the end of a killed process is waited for; the kernel may hold one that waits for a disk."""

_ROUND_S: Final = 0.05
"""How often what is left is looked for again, in seconds: grandchildren end without telling us."""

_WAKEUP: Final = 4_096


class Command:
    """A command that runs, and its end.

    `adopts` says that descendants whose parents end become children of this process; `wakeup` is readable after each
    end of a child.  `_deadline` is when a command that was asked to end is killed, with all that is left of it.
    """

    def __init__(self, channel: OwnerChannel, wakeup: int, *, adopts: bool) -> None:
        self._channel = channel
        self._wakeup = wakeup
        self._adopts = adopts
        self._outputs: tuple[Output, ...] = ()
        self._pid = 0
        self._status: int | None = None
        self._deadline: float | None = None
        self._asked = False
        self._left = 0

    def run(self, command: ShimCommand) -> ShimEnd | StartFault:
        """Run a command to its end; return how it ended, or why it did not start."""
        fault = self._start(command)
        if fault is not None:
            return fault
        self._channel.send({"pid": self._pid, "start": start_of(self._pid)})
        if self._channel.has_received:
            self._listen()
        while self._status is None:
            self._wait(self._deadline)
            self._status = ending.reap(self._pid)
            if self._status is None and self._deadline is not None and time.monotonic() >= self._deadline:
                # It is not waited for yet, so that the number of its group is still its own.
                ending.signal_group(self._pid, signal.SIGKILL)
        self._end_what_is_left()
        # Before the locks of the output are free: whoever waits for them finds it there.
        if command["records_end"]:
            record_end(command["output"], self._status, asked=self._asked)
        return self._end()

    def _start(self, command: ShimCommand) -> StartFault | None:
        stage = "output"
        try:
            for name in (".out", ".err"):
                self._outputs += (Output(command["output"] + name, command["keep"]),)
            if command["records_end"]:
                forget_end(command["output"])
            # Behind the locks of the output: whoever comes after a killed owner finds them, or nothing begins any more.
            stage = "owner"
            if not self._channel.has_owner():
                raise ProcessLookupError(errno.ESRCH, "the owner is gone")
            stage = "cwd"
            os.chdir(command["cwd"])
            stage = "limits" if command["limits"] else "exec"
            self._pid = self._spawn(command)
        except (OSError, ValueError, subprocess.SubprocessError) as fault:
            for output in self._outputs:
                output.close()
                output.file.finish()
            # What a limit's function raises comes back as an error of `subprocess`; what exec raises as it is.
            stage = "exec" if stage == "limits" and not isinstance(fault, subprocess.SubprocessError) else stage
            return {"stage": stage, "number": (fault.errno or 0) if isinstance(fault, OSError) else 0}
        finally:
            for output in self._outputs:
                os.close(output.theirs)
            os.chdir("/")  # no directory of the project's is kept in use
        return None

    def _spawn(self, command: ShimCommand) -> int:
        limits = command["limits"]
        process = subprocess.Popen(  # noqa: S603  an argument list that the user has given
            command["argv"],
            stdin=subprocess.DEVNULL,
            stdout=self._outputs[0].theirs,
            stderr=self._outputs[1].theirs,
            env=command["environment"],
            start_new_session=True,
            # There is one thread, so that Python may run between fork and exec; without limits no fork is needed.
            preexec_fn=partial(_set_limits, limits) if limits else None,  # noqa: PLW1509
        )
        process.returncode = 0  # waited for by `ending.reap`; it must not do so itself
        return process.pid

    def _wait(self, until: float | None) -> None:
        """Wait until something happens, and take in what comes."""
        waiting = select.poll()
        waiting.register(self._wakeup, select.POLLIN)
        if self._channel.is_open:
            waiting.register(self._channel.descriptor, select.POLLIN)
        for output in self._outputs:
            if output.pipe >= 0:
                waiting.register(output.pipe, select.POLLIN)
        # Up to the next millisecond: one that is woken too early would turn idle rounds.
        left_ms = None if until is None else max(0, int((until - time.monotonic()) * 1_000) + 1)
        ready = {descriptor for descriptor, _ in waiting.poll(left_ms)}
        for output in self._outputs:
            if output.pipe in ready:
                output.read()
        if self._wakeup in ready:
            os.read(self._wakeup, _WAKEUP)
        if self._channel.descriptor in ready:
            self._listen()

    def _listen(self) -> None:
        for message in self._channel.receive():
            self._ask(message["end"] / 1_000)
        if not self._channel.is_open:  # the owner is gone
            self._ask(LEFT_GRACE_S)

    def _ask(self, grace_s: float) -> None:
        """Ask the command to end; it is killed after the grace.  Of several graces the one that ends first counts."""
        deadline = time.monotonic() + grace_s
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        if self._asked or self._status is not None:
            return
        self._asked = True
        ending.signal_group(self._pid, signal.SIGTERM)
        ending.signal_group(self._pid, signal.SIGCONT)  # one that is stopped would not see it
        ending.signal_each([one for one in descendants() if one.group != self._pid], signal.SIGTERM)

    def _end_what_is_left(self) -> None:
        """End what the command has left running, in its group or outside, and take in its last output."""
        if not self._asked and self._is_left():
            self._deadline = time.monotonic() + LEFT_GRACE_S
            self._left = self._signal_left(signal.SIGTERM)
        # SIGTERM came once: what is started behind it is what others clean up with.
        while self._is_left() and (now := time.monotonic()) < (self._deadline or 0):
            self._wait(min(self._deadline or 0, now + _ROUND_S))
        if self._is_left():
            until = time.monotonic() + _STUCK_S
            self._left = max(self._left, self._signal_left(signal.SIGKILL))
            while self._is_left() and time.monotonic() < until:
                self._wait(min(until, time.monotonic() + _ROUND_S))
                self._signal_left(signal.SIGKILL)  # what had been started meanwhile is only found now
        for output in self._outputs:
            while output.pipe >= 0 and output.read():
                pass

    def _signal_left(self, number: signal.Signals) -> int:
        """Send a signal to what is left; return to how many."""
        if not self._adopts:
            ending.signal_group(self._pid, number)
        found = descendants()
        ending.signal_each(found, number)
        return len(found)

    def _is_left(self) -> bool:
        return ending.has_children() if self._adopts else ending.signal_group(self._pid, 0)

    def _end(self) -> ShimEnd:
        for output in self._outputs:
            if output.pipe >= 0:  # somebody has it who does not descend from the command
                output.close()
            output.file.finish()
        return {
            "status": self._status or 0,
            "asked": self._asked,
            "sizes": [output.file.total for output in self._outputs],
            "tail": self._outputs[1].tail.decode("latin-1"),
            "left": self._left,
            "stuck": len(descendants()) if self._is_left() else 0,
            "output_fault": next((output.file.fault for output in self._outputs if output.file.fault), ""),
        }


def _set_limits(limits: list[Limit]) -> None:
    for limit in limits:
        number = getattr(resource, limit["name"], None)
        if number is None:  # this system has no such limit
            continue
        _, most = resource.getrlimit(number)
        if most == resource.RLIM_INFINITY:
            most = limit["hard"]
        resource.setrlimit(number, (min(limit["soft"], most), min(limit["hard"], most)))

"""The two directions where lifebus has a say: lines of ours go in between the client's, answers to them come out.

One thread does all the writing to the server, so that no line of ours can ever stand in one of the client's.  All that
the client has written goes first: where a person and the bus decide about the same, the person's answer is before.
"""

import select
from time import monotonic

from lifebus.proxy.answers import AnswerFilter
from lifebus.proxy.pump import Pump
from lifebus.proxy.shared_memory import RingBuffer
from lifebus.proxy.steering_socket import ANY_POSITION, BUSY, LATE, MOVED, SENT, SteeringCommand, SteeringSocket


class InwardPump(Pump):
    """Copies from the client to the server, and sends lines of ours where the client has nothing to say."""

    def __init__(
        self, source: int, target: int, ring: RingBuffer, steering: SteeringSocket, answers: AnswerFilter
    ) -> None:
        super().__init__(source, target, ring)
        self._steering = steering
        self._answers = answers
        self._command: SteeringCommand | None = None
        self._client = select.poll()
        self._client.register(source, select.POLLIN)
        self._both = select.poll()
        self._both.register(source, select.POLLIN)
        self._both.register(steering.descriptor, select.POLLIN)

    def _copy(self) -> bool:
        while not self._client_is_next():
            self._steer()
        return super()._copy()

    def _client_is_next(self) -> bool:
        """Wait for something to do; return whether the client has something to say, or has ended."""
        if self._command is None:
            return any(descriptor == self._source for descriptor, _ in self._both.poll())
        # A line that the client has begun is finished first.
        wait_ms = 0 if self._ring.begins_line else max(0, self._command.deadline_ms - _now_ms())
        return bool(self._client.poll(wait_ms))

    def _steer(self) -> None:
        """Take a command, or do the one that was taken: the client has been looked at in between."""
        command, self._command = self._command, None
        if command is None:
            self._command = self._steering.receive()
        else:
            outcome = self._send(command)
            self._steering.reply(command.number, outcome, self._ring.passed)

    def _send(self, command: SteeringCommand) -> int:
        if not self._ring.begins_line or _now_ms() > command.deadline_ms:
            return LATE
        # What the client has said since may be the answer to the same question.
        if command.position not in {ANY_POSITION, self._ring.passed}:
            return MOVED
        # Awaited before it is sent: the other thread may read the answer at once.
        if command.request_id and not self._answers.expect(command.request_id):
            return BUSY
        if not self._ring.put(command.line):
            self._answers.forget(command.request_id)
            return BUSY
        self._write(memoryview(command.line))
        return SENT


class OutwardPump(Pump):
    """Copies from the server to the client, but for the answers to our own requests."""

    def __init__(self, source: int, target: int, ring: RingBuffer, answers: AnswerFilter) -> None:
        super().__init__(source, target, ring)
        self._answers = answers

    def _pass_on(self, data: memoryview, *, begins_line: bool) -> None:
        if self._answers.is_idle:
            self._write(data)
        elif passed := self._answers.feed(bytes(data), begins_line=begins_line):
            self._write(memoryview(passed))

    def _finish(self) -> None:
        if held := self._answers.flush():
            self._write(memoryview(held))


def _now_ms() -> int:
    return int(monotonic() * 1000)

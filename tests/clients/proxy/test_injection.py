"""Lines of ours come between the client's lines, after all that the client has written, and nowhere else."""

import os
import select
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.observer.recording import Chunk, Recording
from lifebus.proxy.answers import AnswerFilter
from lifebus.proxy.shared_memory import IN, OUT, SharedMemory
from lifebus.proxy.steered_pumps import InwardPump, OutwardPump
from lifebus.proxy.steering_socket import (
    ANY_POSITION,
    BUSY,
    LATE,
    MAX_LINE_BYTES,
    MOVED,
    REPLY,
    SENT,
    SteeringCommand,
    SteeringSocket,
    read_command,
    write_command,
)
from support.patience import PATIENCE_S

OURS = b'{"id":0,"result":{"decision":"accept"}}\n'
_REST_S = 0.05


def in_ms(seconds: float) -> int:
    return int((time.monotonic() + seconds) * 1000)


class Wires:
    """A proxy without processes: its two pumps between pipes that a test holds."""

    def __init__(self) -> None:
        self.memory, self.steering, self.answers = SharedMemory(), SteeringSocket(), AnswerFilter()
        self.recording = Recording(self.memory.file, self.memory.records)
        source, self.client = os.pipe()
        self.server, target = os.pipe()
        out_source, self.server_out = os.pipe()
        self.client_in, out_target = os.pipe()
        rings = self.memory.rings
        self._pumps = [
            InwardPump(source, target, rings[IN], self.steering, self.answers),
            OutwardPump(out_source, out_target, rings[OUT], self.answers),
        ]
        self._number = 0
        self._threads = [threading.Thread(target=pump.run) for pump in self._pumps]

    def start(self) -> None:
        for thread in self._threads:
            if not thread.ident:
                thread.start()

    def command(
        self, line: bytes = OURS, *, position: int = ANY_POSITION, seconds: float = PATIENCE_S, request_id: str = ""
    ) -> int:
        """Ask for a line; return the command's number."""
        self._number += 1
        command = SteeringCommand(self._number, position, in_ms(seconds), request_id, line)
        os.write(self.steering.observer, write_command(command))
        return self._number

    def reply(self) -> tuple[int, int, int]:
        ready, _, _ = select.select([self.steering.observer], [], [], PATIENCE_S)
        assert ready
        number, outcome, position = REPLY.unpack(os.read(self.steering.observer, 100))
        return number, outcome, position

    def read(self, size: int) -> bytes:
        """Read what the server gets."""
        return read_all(self.server, size)

    def chunks(self) -> list[Chunk]:
        return self.recording.read() or []

    def close(self) -> None:
        """End both directions, and give every descriptor back."""
        for end in (self.client, self.server_out):
            os.close(end)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        self.memory.close(0)
        ends = (self.steering.descriptor, self.steering.observer, self.memory.file, self.memory.records)
        for end in (self.server, self.client_in, *ends):
            os.close(end)


def read_all(descriptor: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
        assert ready, found
        piece = os.read(descriptor, size - len(found))
        assert piece, found
        found += piece
    return found


@contextmanager
def wires(*, started: bool = True) -> Generator[Wires]:
    found = Wires()
    if started:
        found.start()
    try:
        yield found
    finally:
        found.start()
        found.close()


CLIENT = b'{"id":1,"method":"initialize"}\n{"method":"initialized"}\n\n{"id":2,"method":"x","params":{}}\n'


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(CLIENT)), st.integers(0, 3))
def test_a_line_of_ours_waits_for_the_end_of_the_clients_line_at_every_place(at: int, more: int) -> None:
    """The client stops at every place; ours comes where its line ends, and all that is the client's stays in order."""
    with wires() as found:
        os.write(found.client, CLIENT[:at])
        got = found.read(at)
        number = found.command()
        begins = CLIENT[:at].endswith(b"\n") or not at
        if begins:
            assert found.reply()[:2] == (number, SENT)
            os.write(found.client, CLIENT[at:])
            assert found.read(len(CLIENT) - at + len(OURS)) == OURS + CLIENT[at:]
            return
        rest = CLIENT[at:]
        end = rest.index(b"\n") + 1
        for place in range(0, end, max(1, end // (more + 1))):
            os.write(found.client, rest[place : min(end, place + max(1, end // (more + 1)))])
        assert found.reply()[:2] == (number, SENT)
        os.write(found.client, rest[end:])
        assert got + found.read(len(CLIENT) - at + len(OURS)) == CLIENT[: at + end] + OURS + rest[end:]


@pytest.mark.parametrize("lines", [1, 1_500])
def test_what_the_client_has_written_goes_first_and_a_decision_from_before_it_is_not_sent(lines: int) -> None:
    """Both are there before the proxy looks: the person's answer wins."""
    persons = b'{"id":0,"result":{"decision":"decline"}}\n' * lines
    with wires(started=False) as found:
        assert os.write(found.client, persons) == len(persons)
        number = found.command(position=0)
        found.start()
        assert found.reply() == (number, MOVED, len(persons))
        assert found.read(len(persons)) == persons


def test_a_line_that_depends_on_nothing_goes_behind_what_the_client_has_written() -> None:
    with wires(started=False) as found:
        os.write(found.client, CLIENT * 100)
        found.command()
        found.start()
        assert found.read(len(CLIENT) * 100 + len(OURS)) == CLIENT * 100 + OURS


def test_what_was_decided_at_the_clients_last_byte_is_sent_and_the_observer_sees_it_as_ours() -> None:
    with wires() as found:
        os.write(found.client, CLIENT)
        found.read(len(CLIENT))
        found.command(position=len(CLIENT))
        assert found.reply() == (1, SENT, len(CLIENT) + len(OURS))
        assert found.read(len(OURS)) == OURS
        assert [(one.data, one.ours, one.begins_line) for one in found.chunks()] == [
            (CLIENT, False, True),
            (OURS, True, True),
        ]


def test_a_command_behind_half_a_line_is_late_when_its_time_is_over_and_delays_nothing() -> None:
    with wires() as found:
        os.write(found.client, b'{"half')
        found.read(6)
        found.command(seconds=_REST_S)
        assert found.reply()[:2] == (1, LATE)
        os.write(found.client, b'"}\n')
        assert found.read(3) == b'"}\n'


def test_a_command_that_waited_too_long_is_not_sent() -> None:
    with wires() as found:
        found.command(seconds=-1)
        assert found.reply()[:2] == (1, LATE)


def test_an_answer_to_us_goes_to_the_observer_and_not_to_the_client_whose_own_stay() -> None:
    with wires() as found:
        line = b'{"id":"lifebus:7:1","method":"turn/steer","params":{}}\n'
        os.write(found.server_out, b'{"id":1,"res')
        assert read_all(found.client_in, 12) == b'{"id":1,"res'
        found.command(line, request_id="lifebus:7:1")
        assert found.read(len(line)) == line
        answer, after = b'{"id":"lifebus:7:1","result":{"turnId":"t"}}\n', b'{"method":"turn/started"}\n'
        for piece in (b'ult":{}}\n' + answer[:9], answer[9:] + after[:5], after[5:]):
            os.write(found.server_out, piece)
        expected = b'ult":{}}\n' + after
        assert read_all(found.client_in, len(expected)) == expected
        assert found.answers.is_idle
        seen = b"".join(one.data for one in found.chunks() if one.direction == "out")
        assert seen == b'{"id":1,"result":{}}\n' + answer + after


def test_too_many_unanswered_requests_are_refused_and_a_dead_observer_delays_nothing() -> None:
    with wires() as found:
        while found.answers.expect(f"lifebus:0:{os.urandom(4).hex()}"):
            pass
        found.command(b'{"id":"lifebus:1:1","method":"turn/steer"}\n', request_id="lifebus:1:1")
        assert found.reply()[:2] == (1, BUSY)
        os.close(found.memory.records)
        found.memory.records = os.dup(0)
        os.write(found.client, CLIENT)
        assert found.read(len(CLIENT)) == CLIENT


@given(st.binary(max_size=60))
def test_no_datagram_breaks_the_way(data: bytes) -> None:
    command = read_command(data)
    assert command is None or command.line.endswith(b"\n")


@pytest.mark.parametrize("line", [b"", b"no end", b"two\nlines\n", b"x" * MAX_LINE_BYTES + b"\n"])
def test_what_is_not_one_line_is_no_command(line: bytes) -> None:
    assert read_command(write_command(SteeringCommand(1, -1, 0, "", line))) is None


def test_the_longest_line_passes() -> None:
    line = b"x" * (MAX_LINE_BYTES - 1) + b"\n"
    with wires() as found:
        found.command(line)
        assert found.read(len(line)) == line
        assert found.reply()[:2] == (1, SENT)
        assert b"".join(one.data for one in found.chunks()) == line

"""`lifebus top` on a terminal: keys in, screens out, until it is quit."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from lifebus.cli.bus.serve import cancel_on_signal
from lifebus.top.facts import TopFacts
from lifebus.top.feeds import TopFeed, now_ms
from lifebus.top.keyboard import KeyDecoder
from lifebus.top.layout import screen_lines
from lifebus.top.navigation import GiveAnswer, Order, Quit, ShowSession, TopChoice, press
from lifebus.top.screen import LiveScreen
from lifebus_contract import LifebusError
from lifebus_transports.processes.ignored import not_ignored

if TYPE_CHECKING:
    from lifebus.client import Bus

_TICK_S: Final = 1.0
"""After so long the screen is looked at again, although nothing came: ages grow."""
_ESCAPE_S: Final = 0.15
"""How long the rest of an escape sequence is waited for."""
_BY_SIGNAL: Final = 128
"""What a shell adds to the number of the signal that ended a command."""


class TopProgram:
    """One run of `lifebus top`: its facts, what is looked at, and what moves between them."""

    def __init__(self, take_screen: Callable[[], AbstractContextManager[LiveScreen]]) -> None:
        self._take_screen = take_screen
        self._facts, self._choice = TopFacts(), TopChoice()
        self._feed: TopFeed | None = None
        self._changed = anyio.Event()
        self._code = 0

    async def run(self, bus: "Bus") -> int:
        """Show until the user quits or a signal comes; return the exit code."""
        self._feed = feed = TopFeed(bus, self._facts, self._note_change)
        # Without a broker there is an ordinary message: the terminal is taken once there is something to show.
        await feed.fill()
        send, receive = anyio.create_memory_object_stream[Order](1)
        with self._take_screen() as screen, send, receive:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_on_signal, tasks.cancel_scope, self._ended_by)
                tasks.start_soon(self._follow_terminal, screen)
                tasks.start_soon(self._obey, bus, feed, receive)
                tasks.start_soon(self._draw, screen)
                tasks.start_soon(feed.run)
                await self._read_keys(screen, send)
                tasks.cancel_scope.cancel()
        return self._code

    def tell(self, away: bool) -> None:
        """Note that the broker is gone, or that there is one again."""
        if self._feed is not None:
            self._feed.broker_changed(away)

    def _note_change(self) -> None:
        self._changed.set()

    def _ended_by(self, number: int) -> None:
        self._code = _BY_SIGNAL + number

    async def _draw(self, screen: LiveScreen) -> None:
        """Show the newest state, and then nothing for a while: what came meanwhile is one screen."""
        while True:
            size = screen.size
            lines = screen_lines(self._facts, self._choice, size, now_ms())
            await anyio.sleep(await screen.draw(lines, size[0]))
            with anyio.move_on_after(_TICK_S):
                await self._changed.wait()
            self._changed = anyio.Event()

    async def _read_keys(self, screen: LiveScreen, orders: "MemoryObjectSendStream[Order]") -> None:
        """Do what is typed, until that is to quit or the terminal is gone."""
        keys = KeyDecoder()
        while True:
            data: bytes | None = None
            with anyio.move_on_after(_ESCAPE_S if keys.is_waiting else None):
                data = await screen.read()
            if data == b"":
                return
            for key in keys.flush() if data is None else keys.feed(data):
                if self._press(screen, key, orders):
                    return

    def _press(self, screen: LiveScreen, key: str, orders: "MemoryObjectSendStream[Order]") -> bool:
        """Do what a key says; return whether it ends the program."""
        if key == "redraw":
            screen.forget()
        order = press(self._choice, self._facts, key)
        self._note_change()
        if isinstance(order, Quit):
            return True
        if order is not None:
            try:
                orders.send_nowait(order)
            except anyio.WouldBlock:
                self._choice.note = "still busy with what was asked before"
        return False

    async def _obey(self, bus: "Bus", feed: TopFeed, orders: "MemoryObjectReceiveStream[Order]") -> None:
        async for order in orders:
            match order:
                case ShowSession(pair):
                    await feed.show_session(pair)
                case GiveAnswer():
                    self._choice.note = await _answer(bus, order)
                case Quit():
                    return
            self._note_change()

    async def _follow_terminal(self, screen: LiveScreen) -> None:
        """Follow the terminal's size, and leave it while the program is stopped by Ctrl-Z."""
        numbers = (signal.SIGWINCH, signal.SIGCONT, *not_ignored(signal.SIGTSTP))
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    screen.leave()
                    os.kill(os.getpid(), signal.SIGSTOP)
                    screen.enter()
                elif number == signal.SIGCONT:
                    # Whoever stopped it by another signal, such as the shell, has written on the screen.
                    screen.enter()
                self._note_change()


async def _answer(bus: "Bus", order: GiveAnswer) -> str:
    """Answer a question, and return what became of that."""
    try:
        await bus.inbox.answer(order.question_id, order.action, channel="top")
    except LifebusError as fault:
        return f"not answered: {fault.detail.partition(chr(10))[0]}"
    return f"answered: {order.action.value}"

"""An app-server that asks and is steered, as the real one does it on the wire; each line that it reads goes to a file.

Run as ``python steered_app_server.py FILE [PREFIX]``; with a prefix the names of turns and of all threads but the first
begin with it, as those of another server process do.

What a turn does is the first word of what it is told: ``ask`` asks for an approval and ends as that is decided,
``input`` asks for something else and ends when it is answered, ``say`` answers with the rest of the text, ``fail``
fails, ``take MS NAME`` says NAME when so much time is over; every other one runs until it is interrupted, or until the
client has it end with ``finish`` (a notification of the test's, with the thread and what it says last).  A turn is
steered while it runs, and never says anything about ``silence``.

What became of a turn that takes time stands in FILE.turns: ``begin NAME TURN``, ``ending NAME TURN`` before it says so,
``end NAME TURN`` behind that, or ``interrupted NAME TURN``.
"""

import json
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOCK = threading.RLock()


@dataclass
class Thread:
    """A thread, its turn, what that is to say when it ends by itself, and the requests that nobody has answered."""

    name: str
    turn: str | None = None
    takes: str = ""
    pending: dict[int, str] = field(default_factory=dict[int, str])


class Server:
    """Threads, and the turns that were begun in all of them."""

    def __init__(self, kept: Path, prefix: str) -> None:
        self._kept, self._prefix = kept, prefix
        self._kept.touch()
        self._threads: dict[str, Thread] = {}
        self._turns = self._asked = 0

    def run(self) -> None:
        for line in sys.stdin.buffer:
            with self._kept.open("ab") as file:
                file.write(line)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with LOCK:
                if "method" in message:
                    self._take(message)
                else:
                    self._answered(message)

    def _take(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), str(message["method"])
        params: dict[str, Any] = message.get("params") or {}
        thread = self._threads.get(params.get("threadId", ""), Thread(""))
        match method:
            case "initialize":
                say(id=number, result={})
            case "thread/start":
                self._open(number, params)
            case "turn/start":
                self._begin(number, thread, text_of(params))
            case "turn/steer":
                steer(number, thread, params)
            case "turn/interrupt":
                if thread.turn == params["turnId"]:  # for one that is over the real one never answers
                    say(id=number, result={})
                    self._note("interrupted", thread)
                    end(thread, "interrupted")
            case "finish":
                message_item(thread, params["text"])
                end(thread, "completed")
            case _:
                pass

    def _open(self, number: object, params: dict[str, Any]) -> None:
        name = f"{self._prefix if self._threads else ''}t{len(self._threads) + 1}"
        self._threads[name] = Thread(name)
        record = {"id": name, "cwd": params.get("cwd") or "/srv/shop", "ephemeral": params.get("ephemeral", False)}
        say(id=number, result={"thread": record})
        notify("thread/started", thread=record)

    def _begin(self, number: object, thread: Thread, text: str) -> None:
        if not thread.name:
            say(id=number, error={"code": -32600, "message": "thread not found: it was unloaded"})
            return
        self._turns += 1
        thread.turn, thread.takes = f"{self._prefix}u{self._turns}", ""
        say(id=number, result={"turn": {"id": thread.turn, "status": "inProgress"}})
        notify("turn/started", threadId=thread.name, turn={"id": thread.turn})
        match text.split(" ", 1)[0]:
            case "ask":
                self._ask(thread, "item/commandExecution/requestApproval", command="touch made")
            case "input":
                self._ask(thread, "item/tool/requestUserInput", questions=[])
            case "say":
                message_item(thread, text.removeprefix("say "))
                end(thread, "completed")
            case "take":
                _, ms, thread.takes = text.split(" ", 2)
                self._note("begin", thread)
                threading.Timer(int(ms) / 1_000, self._end_by_itself, (thread, thread.turn)).start()
            case "fail":
                info = {"codexErrorInfo": "serverOverloaded", "message": "the model is busy"}
                end(thread, "failed", error=info)
            case _:
                pass

    def _end_by_itself(self, thread: Thread, turn: str) -> None:
        with LOCK:
            if thread.turn != turn:
                return
            self._note("ending", thread)
            try:
                message_item(thread, thread.takes)
                end(thread, "completed")
            except BrokenPipeError:  # nobody is there to be told, and the end of stdin comes next
                return
            self._note("end", thread, turn)

    def _note(self, what: str, thread: Thread, turn: str | None = None) -> None:
        """Write down what became of a turn that was to take some time."""
        if thread.takes:
            with Path(f"{self._kept}.turns").open("a") as file:
                file.write(f"{what} {thread.takes} {turn or thread.turn}\n")

    def _ask(self, thread: Thread, method: str, **more: Any) -> None:
        item = f"i{self._asked}"
        thread.pending[self._asked] = item
        params = {"threadId": thread.name, "turnId": thread.turn, "itemId": item, **more}
        say(id=self._asked, method=method, params=params)
        self._asked += 1

    def _answered(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        for thread in self._threads.values():
            if number not in thread.pending:
                continue
            item = thread.pending.pop(number)
            notify("serverRequest/resolved", threadId=thread.name, requestId=number)
            decision = message.get("result", {}).get("decision", "refused")
            done = {"id": item, "status": decision}
            notify("item/completed", threadId=thread.name, turnId=thread.turn, item=done)
            end(thread, "interrupted" if decision == "cancel" else "completed")


def steer(number: object, thread: Thread, params: dict[str, Any]) -> None:
    if text_of(params) == "silence":
        return
    if thread.turn is None or params["expectedTurnId"] != thread.turn:
        say(id=number, error={"code": -32600, "message": "no active turn to steer"})
        return
    say(id=number, result={"turnId": thread.turn})


def message_item(thread: Thread, text: str) -> None:
    item = {"id": f"m-{thread.turn}", "type": "agentMessage", "text": text}
    notify("item/completed", threadId=thread.name, turnId=thread.turn, item=item)


def end(thread: Thread, status: str, **more: Any) -> None:
    turn, thread.turn = thread.turn, None
    notify("turn/completed", threadId=thread.name, turn={"id": turn, "status": status, **more})
    for number in thread.pending:
        notify("serverRequest/resolved", threadId=thread.name, requestId=number)
    thread.pending.clear()


def text_of(params: dict[str, Any]) -> str:
    return str(params["input"][0]["text"])


def notify(method: str, **params: Any) -> None:
    say(method=method, params=params)


def say(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    Server(Path(sys.argv[1]), (*sys.argv[2:], "")[0]).run()

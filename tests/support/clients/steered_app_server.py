"""An app-server that asks and is steered, as the real one does it on the wire; each line that it reads goes to a file.

Run as ``python steered_app_server.py FILE``.  What a turn does is the first word of what it is told: ``ask`` asks for
an approval and ends as that is decided, ``input`` asks for something else and ends when it is answered, ``say`` answers
with the rest of the text, ``fail`` fails; every other one runs until it is interrupted, or until the client has it end
with ``finish`` (a notification of the test's, with the thread and what it says last).  A turn is steered while it runs,
and never says anything about ``silence``.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Thread:
    """A thread, its turn, and the requests in it that nobody has answered, each with its item."""

    name: str
    turn: str | None = None
    pending: dict[int, str] = field(default_factory=dict[int, str])


class Server:
    """Threads, and the turns that were begun in all of them."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
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
                    end(thread, "interrupted")
            case "finish":
                message_item(thread, params["text"])
                end(thread, "completed")
            case _:
                pass

    def _open(self, number: object, params: dict[str, Any]) -> None:
        name = f"t{len(self._threads) + 1}"
        self._threads[name] = Thread(name)
        record = {"id": name, "cwd": params.get("cwd") or "/srv/shop", "ephemeral": params.get("ephemeral", False)}
        say(id=number, result={"thread": record})
        notify("thread/started", thread=record)

    def _begin(self, number: object, thread: Thread, text: str) -> None:
        if not thread.name:
            say(id=number, error={"code": -32600, "message": "thread not found: it was unloaded"})
            return
        self._turns += 1
        thread.turn = f"u{self._turns}"
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
            case "fail":
                info = {"codexErrorInfo": "serverOverloaded", "message": "the model is busy"}
                end(thread, "failed", error=info)
            case _:
                pass

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
    Server(Path(sys.argv[1])).run()

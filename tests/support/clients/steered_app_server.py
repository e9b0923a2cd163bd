"""An app-server that asks and is steered, as the real one does it on the wire; each line that it reads goes to a file.

Run as ``python steered_app_server.py FILE``.  A turn that begins with ``ask`` asks for an approval; a turn is steered
while it runs, and never says anything about ``silence``.
"""

import json
import sys
from pathlib import Path
from typing import Any


class Server:
    """One thread, its turns, and the requests that nobody has answered."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._kept.touch()
        self._turn: str | None = None
        self._turns = self._asked = 0
        self._pending: dict[int, str] = {}

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
            elif message.get("id") in self._pending:
                self._answered(message)

    def _take(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), str(message["method"])
        params: dict[str, Any] = message.get("params") or {}
        match method:
            case "initialize":
                say(id=number, result={})
            case "thread/start":
                say(id=number, result={"thread": {"id": "t1"}})
                notify("thread/started", thread={"id": "t1"})
            case "turn/start":
                self._begin(number, text_of(params))
            case "turn/steer":
                self._steer(number, params)
            case "turn/interrupt":
                say(id=number, result={})
                self._end("interrupted")
            case _:
                pass

    def _begin(self, number: object, text: str) -> None:
        self._turns += 1
        self._turn = f"u{self._turns}"
        say(id=number, result={"turn": {"id": self._turn, "status": "inProgress"}})
        notify("turn/started", threadId="t1", turn={"id": self._turn})
        if text.startswith("ask"):
            item = f"i{self._asked}"
            self._pending[self._asked] = item
            params = {"threadId": "t1", "turnId": self._turn, "itemId": item, "command": "touch made"}
            say(id=self._asked, method="item/commandExecution/requestApproval", params=params)
            self._asked += 1

    def _steer(self, number: object, params: dict[str, Any]) -> None:
        if text_of(params) == "silence":
            return
        if params["expectedTurnId"] != self._turn:
            say(id=number, error={"code": -32600, "message": "no active turn to steer"})
            return
        say(id=number, result={"turnId": self._turn})

    def _answered(self, message: dict[str, Any]) -> None:
        item = self._pending.pop(message["id"])
        notify("serverRequest/resolved", threadId="t1", requestId=message["id"])
        decision = message["result"]["decision"]
        notify("item/completed", threadId="t1", turnId=self._turn, item={"id": item, "status": decision})
        self._end("interrupted" if decision == "cancel" else "completed")

    def _end(self, status: str) -> None:
        turn, self._turn = self._turn, None
        notify("turn/completed", threadId="t1", turn={"id": turn, "status": status})
        for number in self._pending:
            notify("serverRequest/resolved", threadId="t1", requestId=number)
        self._pending.clear()


def text_of(params: dict[str, Any]) -> str:
    return str(params["input"][0]["text"])


def notify(method: str, **params: Any) -> None:
    say(method=method, params=params)


def say(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    Server(Path(sys.argv[1])).run()

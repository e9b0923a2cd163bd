"""A complete peer of `lifebus dev stdio`, with the standard library alone: it emits, consumes under a name, and serves.

    python stdio_peer.py notes.jsonl

It keeps every receipt in a file, each exactly once, and delivers a text into every new frame.  It may be started before
the broker, and killed at any moment: what it had not acknowledged comes again, and what the file holds is skipped.
"""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

NAME = "notes"
VERSION = "lifeloop.v0.2"
COMMAND = ("lifebus", "dev", "stdio")
Document = dict[str, Any]


class Notes:
    """The file: one receipt or gap a line, under the cursor that it came with."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        lines = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]  # only the last one can be torn
        os.ftruncate(self.file, sum(map(len, whole)))
        self.cursors = {json.loads(line)["cursor"] for line in whole}

    def keep(self, items: list[Document]) -> None:
        """Write what is new; when this returns, it is on the disk."""
        for item in items:
            if item["cursor"] not in self.cursors:
                kept = {key: item[key] for key in ("cursor", "receipt", "gap") if key in item}
                os.write(self.file, json.dumps(kept).encode() + b"\n")
                self.cursors.add(item["cursor"])
        os.fsync(self.file)


class Peer:
    """The bus at the other end of two pipes, and what was asked there and is not answered yet."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        bus = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  fixed words
        if bus.stdin is None or bus.stdout is None:
            raise OSError("no pipes")  # what was asked for above; type checkers do not know
        self.stdin, self.stdout = bus.stdin, bus.stdout
        self.asked: dict[int, tuple[str, Document]] = {}
        self.number = 0
        self.lock = threading.Lock()  # who asks again later does so in a thread

    def say(self, line: Document) -> None:
        """Write a line; who calls this has the lock."""
        self.stdin.write(json.dumps(line).encode() + b"\n")
        self.stdin.flush()

    def ask(self, verb: str, body: Document) -> None:
        """Ask a question under the next number."""
        with self.lock:
            self.number += 1
            self.asked[self.number] = (verb, body)
            self.say({"id": self.number, "verb": verb, "body": body})

    def read(self) -> None:
        """Take lines as they come, as many as there are at once, until the bus ends."""
        rest = b""
        while data := os.read(self.stdout.fileno(), 65_536):
            *lines, rest = (rest + data).split(b"\n")
            self.take([json.loads(line) for line in lines])

    def take(self, lines: list[Document]) -> None:
        """Answer dispatches, keep what subscriptions brought, and acknowledge it."""
        items: dict[int, list[Document]] = {}
        for line in lines:
            match line:
                case {"id": int(number)}:
                    self.answered(*self.asked.pop(number), line.get("refused"))
                case {"dispatch": int(number), "envelope": envelope}:
                    self.respond(number, envelope["request"]["event_id"])
                case {"subscription": int(number), "receipt": _} | {"subscription": int(number), "gap": _}:
                    items.setdefault(number, []).append(line)
                case {"dispatch": _, "refused": refused}:  # too late; the next one may be in time
                    print(refused["detail"], file=sys.stderr)
                case {"refused": refused}:  # another one consumes or serves under our name now
                    raise SystemExit(refused["detail"])
                case _:  # what a later version adds
                    pass
        for number, mine in items.items():
            self.notes.keep(mine)
            # Behind the write, and one question for all: each ack is one of the 64 that may be under way.
            self.ask("ack", {"subscription": number, "cursors": [item["cursor"] for item in mine]})

    def answered(self, verb: str, body: Document, refused: Document | None) -> None:
        """Say what was done; what could not be done now is asked again, and what never can ends the program."""
        if refused is None:
            print(verb, flush=True)
        elif refused["retry_class"] == "safe_retry":  # no broker yet, for instance; the same body, and so the same key
            later = threading.Timer(1.0, self.ask, (verb, body))
            later.daemon = True
            later.start()
        else:
            raise SystemExit(f"{verb}: {refused['detail']}")

    def respond(self, number: int, event_id: str) -> None:
        """Answer a dispatch with a text for the frame that opens."""
        body = f"Be brief in {event_id}."
        payload: Document = {"schema_version": VERSION, "payload_id": f"pay_{event_id}", "client_id": NAME}
        payload |= {"payload_kind": "note", "format": "text", "content_encoding": "utf8"}
        payload |= {"body": body, "byte_size": len(body.encode())}
        payload["acceptable_placements"] = [{"placement": "pre_prompt_frame", "requirement": "preferred"}]
        response = {"schema_version": VERSION, "status": "delivered", "client_payloads": [payload]}
        with self.lock:
            self.say({"id": number, "verb": "response", "body": {"response": response}})


def started(session: str) -> Document:
    """Return an emission; asked again with the same key, it is recorded once."""
    names = {key: f"{prefix}{uuid.uuid4().hex}" for key, prefix in (("event_id", "evt_"), ("invocation_id", "inv_"))}
    request = {"schema_version": VERSION, "event": "session.started", "adapter_id": "codex", "adapter_version": "0.1.0"}
    request |= {"integration_mode": "native_hook", "harness_session_id": session, "idempotency_key": uuid.uuid4().hex}
    return {"request": request | names}


def main(path: Path) -> None:
    peer = Peer(Notes(path))
    peer.ask("serve", {"client_id": NAME, "events": ["frame.opening"], "deadline_ms": 2_000})
    peer.ask("subscribe", {"name": NAME, "since": "start"})
    peer.ask("emit", {"client_id": NAME, "emissions": [started(NAME)]})
    peer.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

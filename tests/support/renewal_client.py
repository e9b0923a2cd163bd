"""A client of renewals as a program of its own: it keeps a log, knows its ids again, and can kill the broker.

    renewal_client.py DIRECTORY STEP

DIRECTORY is the client's own.  `book.jsonl` in it has one line for every event.  A file ``kill-STEP-MOMENT`` makes
it kill its parent, the broker, once: at the moment ``asked`` before anything was done, ``done`` before the answer.
The token is written into the log as its length and first letters only.
"""

import contextlib
import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

MARK = "cont-geheim-"
THREAD = "thread-1"


class ClientLog:
    """What the client has done so far, on the disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / "book.jsonl"

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def note(self, **line: object) -> None:
        """Add a line; one write, so that nobody's lines are mixed."""
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def prepare(self, prepare_id: str) -> str:
        """Return the token of an id: the same one for the same id."""
        place = self.directory / f"token-{prepare_id}"
        if not place.exists():
            unfinished = place.with_suffix(f".{os.getpid()}")
            unfinished.write_text(MARK + secrets.token_hex(16))
            with contextlib.suppress(FileExistsError):
                place.hardlink_to(unfinished)
            unfinished.unlink()
        self.note(prepared=prepare_id)
        return place.read_text()

    def use(self, payload_id: str, claim_id: str, token: str) -> str | None:
        """Use a token once; return the thread, or None for a token that is wrong or used under another id."""
        right = (self.directory / f"token-{payload_id}").read_text() == token
        used = {line["used"]: line["claim"] for line in self.lines if "used" in line}
        if not right or used.get(payload_id, claim_id) != claim_id:
            self.note(refused=payload_id, claim=claim_id)
            return None
        if payload_id not in used:
            self.note(used=payload_id, claim=claim_id)
        return THREAD

    def die_at(self, step: str, moment: str) -> None:
        """Kill the broker if that was asked for, once."""
        order = self.directory / f"kill-{step}-{moment}"
        if order.exists():
            order.unlink()
            self.note(killed=step, moment=moment)
            os.kill(os.getppid(), signal.SIGKILL)


def in_arguments(token: str) -> bool:
    """Whether a text stands in the arguments or variables of any process that we may look at."""
    for place in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
        with contextlib.suppress(OSError):
            if token.encode() in place.read_bytes():
                return True
    return False


def answer(log: ClientLog, step: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one step."""
    if step == "recommend":
        over = any("used" in line for line in log.lines)
        return {"boundary": {"action": "keep" if over else "renew"}}
    if step == "prepare":
        return {"answer": {"token": log.prepare(question["prepare_id"]), "thread": THREAD}}
    if in_arguments(question["token"]):
        log.note(refused=question["payload_id"], claim="anybody can read it")
    return {"answer": {"thread": log.use(question["payload_id"], question["claim_id"], question["token"])}}


def main(directory: str, step: str) -> int:
    """Answer the question on stdin."""
    log, question = ClientLog(Path(directory)), json.load(sys.stdin)
    log.note(asked=step, session=question["session"])
    log.die_at(step, "asked")
    said = answer(log, step, question)
    log.die_at(step, "done")
    sys.stdout.write(json.dumps(said))
    sys.stderr.write(f"{step} done\n")
    return 0


def configuration(directory: Path) -> str:
    """Return the configuration of a broker whose Codex sessions this program renews."""
    commands = "".join(
        f"{step} = {json.dumps([sys.executable, '-I', '-S', __file__, str(directory), step])}\n"
        for step in ("recommend", "prepare", "consume")
    )
    return (
        f'[[renewals]]\nprofile = "codex-renewal"\nadapter = "codex"\nclient_id = "book"\n{commands}'
        '[renewals.answers]\naction = "boundary.action"\ntoken = "answer.token"\nthread = "answer.thread"\n'
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

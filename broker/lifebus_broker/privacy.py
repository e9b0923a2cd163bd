"""What receipts may show of where a session works (docs/sessions.md).  Pure."""

from typing import Final, Literal

from msgspec import Struct, structs

from lifebus_broker.state.telemetry_keys import CWD, GIT_BRANCH, TITLE
from lifebus_contract import Emission

CwdPrivacy = Literal["full", "name", "none"]
"""Whether a directory is recorded with its path, by its name alone, or not at all."""

TitlePrivacy = Literal["keep", "none"]
"""Whether titles of sessions are recorded."""

MAX_TITLE: Final = 120
"""Most characters that are recorded of a title; a longer one ends in a sign."""

_EVIDENCE: Final = frozenset({CWD, GIT_BRANCH, TITLE})


class Privacy(Struct, frozen=True, kw_only=True):
    """What is recorded of the directory, the branch and the title that a harness says.

    `home` is the user's own directory, whose name is that of the account: by name it is ``~``.
    """

    cwd: CwdPrivacy = "name"
    title: TitlePrivacy = "keep"
    home: str = ""

    def apply(self, emission: Emission) -> Emission:
        """Return the emission with what may be recorded; the same one where nothing of this is said."""
        facts = emission.telemetry
        if _EVIDENCE.isdisjoint(facts):
            return emission
        kept = dict(facts)
        for key in _EVIDENCE & facts.keys():
            said = facts[key]
            if isinstance(said, str):
                kept[key] = self.recorded(key, said)
        # A null would say that the harness knows no directory.
        kept = {key: value for key, value in kept.items() if value is not None or key not in _EVIDENCE}
        return emission if kept == facts else structs.replace(emission, telemetry=kept)

    def recorded(self, key: str, said: str) -> str | None:
        """Return what is recorded of one of the three facts, None where nothing is."""
        if key == TITLE:
            return None if self.title == "none" else _bounded(said)
        if self.cwd == "none" or not said:
            return None
        return _name_of(said, self.home) if key == CWD and self.cwd == "name" else said


def _name_of(cwd: str, home: str) -> str:
    """Return the last part of a path; a name stays as it is."""
    path = cwd.rstrip("/")
    if home and path == home.rstrip("/"):
        return "~"
    return path.rpartition("/")[2] or "/"


def _bounded(title: str) -> str | None:
    """Return a title in one line of bounded length, None where nothing of it is left."""
    line = " ".join("".join(one if one.isprintable() else " " for one in title).split())
    return (line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "…") or None

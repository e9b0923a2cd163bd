"""One `[[renewals]]` of the configuration: which client renews which adapter's sessions, and how it is asked.  Pure."""

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, structs

from lifebus_contract.fields import Identifier
from lifebus_transports.adapter_names import adapter_id_of

TOKEN_ARGUMENT: Final = "{token}"  # noqa: S105  a placeholder
"""The argument, or the part of one, in whose place the token is put where a profile says so."""

MAX_TOKEN_BYTES: Final = 65_536
"""Largest token that any profile may allow, in UTF-8 bytes."""

_OWN: Final = "lifebus."
_PATH: Final = re.compile(r"[^.\s]+(?:\.[^.\s]+){0,15}")
_Argv = Annotated[tuple[str, ...], Meta(min_length=1, max_length=64)]
_Milliseconds = Annotated[int, Meta(ge=100, le=600_000)]
_DottedPath = Annotated[str, Meta(max_length=256)]


class AnswerPaths(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the client's answers have what is needed: keys with dots between them.

    `expires_at` is optional: seconds since 1970 in the answer to `prepare`, beside the profile's own `ttl_s`.
    """

    action: _DottedPath = "action"
    renew: Identifier = "renew"
    """The value of `action` that means that the session is to be renewed."""
    token: _DottedPath = "token"  # noqa: S105  a path
    thread: _DottedPath = "thread"
    expires_at: _DottedPath = ""

    def __post_init__(self) -> None:
        for name in ("action", "token", "thread", "expires_at"):
            path = getattr(self, name)
            if not _PATH.fullmatch(path) and (path or name != "expires_at"):
                raise ValueError(f"`{name}` is a path such as `answer.{name}`")


class RenewalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An enabled renewal profile (docs/renewal.md, "Configuration").

    `recommend`, `prepare` and `consume` are argument lists; each gets one JSON object on stdin and writes one on
    stdout.  With ``hand_over = "argument"`` the token stands in the argument list of `consume`, where everybody who
    may run `ps` can read it.
    """

    profile: Identifier
    adapter: Identifier
    client_id: Identifier
    recommend: _Argv
    prepare: _Argv
    consume: _Argv
    answers: AnswerPaths = AnswerPaths()
    recommend_ms: _Milliseconds = 10_000
    prepare_ms: _Milliseconds = 30_000
    consume_ms: _Milliseconds = 30_000
    environment: tuple[str, ...] = ()
    """Further variables that the commands get; a star stands for any ending."""
    run_in: Literal["root", "session"] = "root"
    """Where the commands run: in `/`, or in the directory of the session, which may hold anything."""
    hand_over: Literal["stdin", "argument"] = "stdin"
    ttl_s: Annotated[int, Meta(ge=60, le=30 * 86_400)] = 86_400
    """How long a token is stored, in seconds."""
    max_bytes: Annotated[int, Meta(ge=1, le=MAX_TOKEN_BYTES)] = 16_384
    """The largest token, in UTF-8 bytes."""

    def __post_init__(self) -> None:
        if not f"{self.profile}{self.adapter}{self.client_id}".isprintable():
            raise ValueError("names must not hold control characters")
        # Frozen for everybody else; only here are the settings still being built.
        structs.force_setattr(self, "adapter", adapter_id_of(self.adapter))
        if self.client_id.startswith(_OWN):
            raise ValueError(f"`client_id` must not begin with `{_OWN}`")
        for name in ("recommend", "prepare", "consume"):
            _check_command(name, getattr(self, name))
        placed = any(TOKEN_ARGUMENT in part for part in self.consume[1:])
        if placed is not (self.hand_over == "argument"):
            rule = "needs" if self.hand_over == "argument" else "must not hold"
            raise ValueError(f'`consume` {rule} `{TOKEN_ARGUMENT}` with `hand_over = "{self.hand_over}"`')

    def __str__(self) -> str:
        return f"{self.profile}({self.adapter},{self.client_id})"


def _check_command(name: str, argv: tuple[str, ...]) -> None:
    """Refuse what cannot be run from anywhere.

    Raises:
        ValueError: says why.
    """
    program = argv[0]
    if not program or any("\0" in part for part in argv):
        raise ValueError(f"`{name}` has an empty program or a NUL character")
    # commands run in `/` or in the session's directory: a relative path would mean another file there
    if "/" in program and not program.startswith("/"):
        raise ValueError(f"`{name}`: a program is an absolute path or found in PATH, not `{program[:64]}`")
    if name != "consume" and any(TOKEN_ARGUMENT in part for part in argv):
        raise ValueError(f"`{name}` gets no `{TOKEN_ARGUMENT}`; only `consume` does")
    if TOKEN_ARGUMENT in program:
        raise ValueError(f"`{name}`: `{TOKEN_ARGUMENT}` cannot be the program")

"""Names that commands had before: understood for one release, and a line on stderr says the present one.  Pure."""

TYPE_CHECKING = False  # imported by every command
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOVED: "Mapping[tuple[str, ...], tuple[str, ...]]" = {
    ("save",): ("ledger", "save"),
    ("boot",): ("ledger", "boot"),
    ("snapshots",): ("ledger", "snapshots"),
    ("compactions",): ("ledger", "caches"),
    ("run",): ("app-server", "run"),
    ("tee",): ("app-server", "tee"),
    ("signals",): ("app-server", "signals"),
    ("validate",): ("contract", "validate"),
    ("schema",): ("contract", "schema"),
    ("negotiate",): ("contract", "negotiate"),
    ("manifest",): ("contract", "manifest"),
    ("events",): ("contract", "events"),
    ("conform",): ("contract", "conform"),
    ("continuation",): ("renewal", "continuation"),
    ("invoke",): ("dev", "invoke"),
    ("stdio",): ("dev", "stdio"),
    ("tick",): ("dev", "tick"),
    ("transcript", "ls"): ("transcript", "list"),
    ("checkpoint", "ls"): ("checkpoint", "list"),
    ("checkpoint", "get"): ("checkpoint", "show"),
    ("flow", "ls"): ("flow", "list"),
    ("inbox", "ls"): ("inbox", "list"),
    ("jobs", "ls"): ("jobs", "list"),
    ("extensions", "ls"): ("extensions", "list"),
    ("clients", "evict"): ("clients", "remove"),
    ("ledger", "info"): ("ledger", "show"),
    ("ledger", "snapshots", "ls"): ("ledger", "snapshots", "list"),
    ("ledger", "caches", "ls"): ("ledger", "caches", "list"),
    ("ledger", "caches", "delete"): ("ledger", "caches", "remove"),
    ("renewal", "continuation", "get"): ("renewal", "continuation", "show"),
    ("renewal", "continuation", "drop"): ("renewal", "continuation", "remove"),
}
"""The present name of each command by its old one."""

MOVED_FLAGS: "Mapping[tuple[str, ...], Mapping[str, str]]" = {
    ("serve",): {"--client-id": "--client"},
    ("dev", "invoke"): {"--client-id": "--client"},
    ("contract", "events"): {"--harness": "--adapter"},
    ("inject",): {"--name": "--client"},
}
"""The present name of each flag by its old one, for each command; these are said to nobody."""

FOR_PROGRAMS: "frozenset[tuple[str, ...]]" = frozenset(
    {("app-server", "run"), ("app-server", "tee"), ("dev", "stdio"), ("dev", "invoke")}
)
"""Commands that programs start, by command lines that were recorded: only a person at a terminal reads the line."""


def present_words(words: "Sequence[str]") -> "tuple[list[str], str | None]":
    """Return a command line with present names, and what to say of it: None where nothing was called by an old name."""
    now = list(words)
    said, meant = 0, 0  # how many words the name takes: as it was written, as it is now
    while (found := _moved(now)) is not None:
        old, new = found
        now[: len(old)] = new
        said += max(0, len(old) - meant)
        meant = max(len(old), meant) - len(old) + len(new)
    _rename_flags(now)
    if not meant:
        return now, None
    before, present = " ".join(words[:said]), " ".join(now[:meant])
    return now, f"`lifebus {before}` is called `lifebus {present}` now; the old name goes with the next release"


def _rename_flags(words: list[str]) -> None:
    """Put present names in the place of old flags, before the `--` behind which another program's words stand."""
    end = words.index("--") if "--" in words else len(words)
    for command, flags in MOVED_FLAGS.items():
        if tuple(words[: len(command)]) == command:
            for number, word in enumerate(words[:end]):
                name, sign, value = word.partition("=")
                words[number] = flags.get(name, name) + sign + value


def _moved(words: "Sequence[str]") -> "tuple[tuple[str, ...], tuple[str, ...]] | None":
    for length in range(1, _LONGEST + 1):
        old = tuple(words[:length])
        if old in MOVED:
            return old, MOVED[old]
    return None


_LONGEST = max(map(len, MOVED))

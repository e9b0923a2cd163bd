"""Command lines of plain words, read without the parser: loading that takes longer than the command itself."""

TYPE_CHECKING = False  # `typing` costs as much as a quick command
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def read_plain_words(
    words: "Sequence[str]", *, values: "Collection[str]" = (), switches: "Collection[str]" = (), names: int = 0
) -> "dict[str, str] | None":
    """Return the values of flags by flag; None where the words are not plain, and the parser has to read them.

    Plain are `names` words that are no flags, found under "0", "1" and so on, then flags of `values`, each followed
    by its value or written as ``--flag=value``, and of `switches`, whose value here is empty; each at most once.
    """
    found: dict[str, str] = {}
    rest = list(words)
    for number in range(names):
        if not rest or not _is_value(rest[0]):
            return None
        found[str(number)] = rest.pop(0)
    while rest:
        flag, sign, value = rest.pop(0).partition("=")
        if flag in found:
            return None
        if flag in switches and not sign:
            found[flag] = ""
            continue
        if flag not in values:
            return None
        if not sign:
            value = rest.pop(0) if rest else ""
        if not _is_value(value):
            return None
        found[flag] = value
    return found


def _is_value(text: str) -> bool:
    return text != "" and not text.startswith("-")

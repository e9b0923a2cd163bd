"""YAML with positions: what a document says, and where its nodes begin and end in the text.  Pure.

What cannot be spliced with certainty is refused: several documents, an end marker, and anchors, aliases, merge keys and
double keys where we would touch them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar, cast

import yaml
from msgspec import Struct

from lifebus_admin.installer.refusals import SettingsConflict, SettingsUnreadable

MAX_YAML: Final = 256 * 1024
"""Characters of the largest YAML file that is read; positions cost seconds for so many."""

_T = TypeVar("_T")
# The C loader gives values; only the Python one gives exact positions.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_END_MARKER: Final = re.compile(r"^\.\.\.(?:\s|$)", re.MULTILINE)
_NULL: Final = "tag:yaml.org,2002:null"
_MERGE: Final = "tag:yaml.org,2002:merge"
# A tag of our own: an alias must not look like what it points at.
_ALIAS: Final = "tag:lifebus,alias"


class YamlEntry(Struct):
    """A member (with its key) or an element of a container, which begins at `start`: at the key's or its own text."""

    key: Any
    start: int
    node: Any


class _PositionLoader(yaml.SafeLoader):
    """Composes nodes and records those with anchors; an alias stays a leaf, so that each position is in the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.shared: set[int] = set()

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            # Not resolved: a shared node would have the position of its anchor.
            self.get_event()  # type: ignore[no-untyped-call]
            node = cast("Any", yaml.ScalarNode)(_ALIAS, event.anchor, event.start_mark, event.end_mark)
            self.shared.add(id(node))
            return node
        node = super().compose_node(parent, index)
        if cast("Any", event).anchor is not None:
            self.shared.add(id(node))
        return node


def load(text: str, name: str) -> Any:
    """Return what the text says.

    Raises:
        SettingsUnreadable: it is not YAML of one document, or beyond the limits.
    """
    return _read(text, name, _loaded)


def compose(text: str, name: str) -> tuple[Any, set[int]]:
    """Return the root node (None where the text is blank), and the ids of nodes that are shared.

    Raises:
        SettingsUnreadable: it is not YAML of one document, or beyond the limits.
    """
    return _read(text, name, _composed)


def _loaded(text: str) -> Any:
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  a safe one, in C where that is there


def _composed(text: str) -> tuple[Any, set[int]]:
    loader = _PositionLoader(text)
    return cast("Any", loader).get_single_node(), loader.shared


def _read(text: str, name: str, reading: Callable[[str], _T]) -> _T:
    # Checked first: the parser's time grows with the text, and it cannot be stopped.
    if len(text) > MAX_YAML:
        raise SettingsUnreadable(name, f"it has {len(text)} characters, more than {MAX_YAML}")
    # What is appended after an end marker would be another document.
    marker = _END_MARKER.search(text)
    if marker is not None:
        line = text.count("\n", 0, marker.start()) + 1
        raise SettingsUnreadable(name, "it has a document end marker", line=line, column=1)
    try:
        return reading(text)
    except yaml.MarkedYAMLError as fault:
        mark: Any = fault.problem_mark or fault.context_mark
        why = str(fault.problem or fault.context)
        if mark is None:
            raise SettingsUnreadable(name, why) from None
        raise SettingsUnreadable(name, why, line=mark.line + 1, column=mark.column + 1) from None
    except (yaml.YAMLError, ValueError, OverflowError) as fault:
        raise SettingsUnreadable(name, str(fault).splitlines()[0]) from None
    except RecursionError:
        raise SettingsUnreadable(name, "it is nested too deeply") from None


def kind_of(node: Any) -> str:
    """Return ``flow`` or ``block`` for a container and ``scalar`` for anything else."""
    if not isinstance(node, yaml.CollectionNode):
        return "scalar"
    return "flow" if node.flow_style else "block"


def is_nothing(node: Any) -> bool:
    """Whether a node is the nothing after a colon, which means null."""
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL and node.value == ""


def children(node: Any) -> list[YamlEntry]:
    """Return the members or elements of a container in their order."""
    if isinstance(node, yaml.MappingNode):
        pairs = cast("Iterable[tuple[Any, Any]]", node.value)
        return [YamlEntry(key.value, key.start_mark.index, value) for key, value in pairs]
    if isinstance(node, yaml.SequenceNode):
        return [YamlEntry(None, child.start_mark.index, child) for child in cast("Iterable[Any]", node.value)]
    return []


def content_end(node: Any) -> int:
    """Return where the last sign of a node's text ends; a block scalar's is the beginning of the next line."""
    if kind_of(node) != "block":
        return int(node.end_mark.index)
    # PyYAML ends a block behind the comments and blank lines that follow it.
    last = children(node)[-1]
    return max(content_end(last.node), last.start)


def require_plain(root: Any, paths: Iterable[tuple[str, ...]], shared: set[int], name: str) -> None:
    """Refuse anchors, aliases, merge keys and double keys on the paths and below them.

    Raises:
        SettingsConflict: there is one.
    """
    for path in paths:
        for node, depth in _walked(root, path):
            fault = _fault(node, path[depth] if depth < len(path) else None, shared)
            if fault:
                raise SettingsConflict(name, f"{'.'.join(path[:depth]) or 'the whole'} {fault}")


def _fault(node: Any, touched: str | None, shared: set[int]) -> str | None:
    """Return why a node cannot be spliced; `touched` is the key below which we work, None for all."""
    if id(node) in shared:
        return "has an anchor or an alias"
    if not isinstance(node, yaml.MappingNode):
        return None
    keys = [(key.tag, str(key.value)) for key, _ in cast("Iterable[tuple[Any, Any]]", node.value)]
    if any(tag == _MERGE for tag, _ in keys):
        return "has a merge key"
    double = [key for tag, key in keys if keys.count((tag, key)) > 1 and touched in {None, key}]
    return f"has the key {double[0]} twice" if double else None


def _walked(root: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, int]]:
    """Yield the nodes on the path with their depth, then everything below its end."""
    node = root
    for depth, key in enumerate(path):
        yield node, depth
        node = next((child.node for child in children(node) if child.key == key), None)
        if node is None:
            return
    pending = [node]
    while pending:
        node = pending.pop()
        yield node, len(path)
        pending += [child.node for child in children(node)]

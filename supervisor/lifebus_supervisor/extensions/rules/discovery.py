"""Which folders are extensions, and in which order they are loaded; over an injected listing.  Pure."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from lifebus_contract.extensions import LoadError, LoadErrorCode, ModuleName, OriginType
from lifebus_supervisor.extensions.rules.manifest import ENTRYPOINT, JSON_NAME, TOML_NAME

MAX_EXTENSIONS: Final = 64
"""Most extensions of one set."""

PRECEDENCE: Final = {origin: rank for rank, origin in enumerate(OriginType)}
"""The rank of each kind of root; the lowest is the strongest."""

_MARKS: Final = frozenset({TOML_NAME, JSON_NAME, ENTRYPOINT})
NOT_IN_REPO: Final = frozenset({"lib", "runtime"})
"""Names of folders that are no extensions in roots of the kind `repo_local`."""


class Root(Struct, frozen=True):
    """A folder that is, or holds, extensions; its path is absolute."""

    origin: OriginType
    path: str


class Entry(Struct, frozen=True):
    """A name in a folder; a link is neither a file nor a folder."""

    name: str
    is_folder: bool
    is_file: bool


class EntriesOf(Protocol):
    """Says what lies in a folder."""

    def __call__(self, path: str) -> Sequence[Entry] | None:
        """Return its entries, None where there is no such folder."""
        ...


class Candidate(Struct, frozen=True, kw_only=True):
    """A folder that is an extension.  `shadows` are weaker folders of the same name, which are not loaded."""

    module_name: str
    path: str
    origin: OriginType
    shadows: tuple[str, ...] = ()


class Discovered(Struct, frozen=True):
    """What was found, in the order of loading, and what cannot be loaded whatever it holds."""

    candidates: tuple[Candidate, ...]
    errors: tuple[LoadError, ...] = ()


def ordered_roots(roots: Iterable[Root]) -> list[Root]:
    """Return each root once, the strongest first, then by path."""
    return sorted(set(roots), key=lambda root: (PRECEDENCE[root.origin], root.path))


def discover(roots: Iterable[Root], listing: EntriesOf) -> Discovered:
    """Return the extensions of some roots.

    A root may be an extension itself and may hold extensions, one level deep.  A folder that several roots reach is
    found once, by the strongest.  Of two folders of one name the stronger root's is loaded; within one kind of root
    the second is an error, because nothing says which was meant.
    """
    found: dict[str, Candidate] = {}
    for root in ordered_roots(roots):
        for candidate in _in_root(root, listing):
            found.setdefault(candidate.path, candidate)
    inorder = sorted(found.values(), key=lambda one: (PRECEDENCE[one.origin], one.module_name, one.path))
    return _distinct(inorder)


def _in_root(root: Root, listing: EntriesOf) -> Iterable[Candidate]:
    entries = listing(root.path)
    if entries is None:
        return
    if (candidate := _candidate(root, root.path, entries)) is not None:
        yield candidate
    for entry in entries:
        if not entry.is_folder or entry.name.startswith("."):
            continue
        if root.origin is OriginType.REPO_LOCAL and entry.name in NOT_IN_REPO:
            continue
        path = f"{root.path.rstrip('/')}/{entry.name}"
        if (candidate := _candidate(root, path, listing(path) or ())) is not None:
            yield candidate


def _candidate(root: Root, path: str, entries: Sequence[Entry]) -> Candidate | None:
    if not any(entry.is_file and entry.name in _MARKS for entry in entries):
        return None
    return Candidate(module_name=PurePosixPath(path).name, path=path, origin=root.origin)


def _distinct(inorder: Sequence[Candidate]) -> Discovered:
    kept: dict[str, Candidate] = {}
    errors: list[LoadError] = []
    for one in inorder:
        first = kept.get(one.module_name)
        if not _is_name(one.module_name):
            errors.append(_error(one, LoadErrorCode.UNSAFE_PATH, "its folder's name is too long or cannot be printed"))
        elif first is None and len(kept) >= MAX_EXTENSIONS:
            errors.append(_error(one, LoadErrorCode.UNSAFE_PATH, f"there are more than {MAX_EXTENSIONS} extensions"))
        elif first is None:
            kept[one.module_name] = one
        elif first.origin is one.origin:
            why = f"{first.path} has the same name and comes from a root of the same kind"
            errors.append(_error(one, LoadErrorCode.MODULE_NAME_CONFLICT, why))
        else:
            kept[one.module_name] = msgspec.structs.replace(first, shadows=(*first.shadows, one.path))
    return Discovered(tuple(kept.values()), tuple(errors))


def _is_name(name: str) -> bool:
    try:
        msgspec.convert(name, ModuleName)
    except msgspec.ValidationError:
        return False
    return name.isprintable()


def _error(one: Candidate, code: LoadErrorCode, why: str) -> LoadError:
    # A name that was no UTF-8 on the disk cannot be written down as it is.
    name, path = (text.encode(errors="backslashreplace").decode() for text in (one.module_name, one.path))
    return LoadError(extension=name[:128], code=code, message=f"{path[:512]}: {why}")

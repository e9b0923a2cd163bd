"""A disk under the ordinary file calls: it forgets what was not synced, or errs at the Nth call.

The calls are done for real in a real directory; what a power cut may leave is kept beside it.  A file's content is
durable once the file was synced, its name once its directory was: as POSIX has it, and no file system promises less.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

_SECTOR = 512


@dataclass(eq=False)
class _File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""

    def left(self, chance: random.Random) -> bytes:
        """What a cut may leave: all, what was synced, or the first sectors of what was written."""
        torn = bytes(self.content[: chance.randrange(0, len(self.content) + 1, _SECTOR)])
        return chance.choice([bytes(self.content), self.synced, torn]) if self.content != self.synced else self.synced


@dataclass
class _Directory:
    """The names in a directory: as they are, and as they were after each change since it was synced."""

    names: dict[str, _File] = field(default_factory=dict[str, _File])
    states: list[dict[str, _File]] = field(default_factory=list[dict[str, _File]])

    def change(self, name: str, file: _File | None) -> None:
        if file is None:
            self.names.pop(name, None)
        else:
            self.names[name] = file
        self.states.append(dict(self.names))

    def sync(self) -> None:
        self.states = [dict(self.names)]


class FileDisk:
    """The calls on files below `root`, up to the `cut_at`th; `fault` is the error number of every call from there on.

    Without `fault` it is the power that goes.  `once` lets later calls succeed again.  One that `lies` syncs nothing.
    """

    def __init__(
        self, root: Path, cut_at: int, fault: int | None = None, *, once: bool = False, lies: bool = False
    ) -> None:
        self.root, self.fault, self.lies = root, fault, lies
        self.calls: list[str] = []
        self._cut_at, self._once = cut_at, once
        self._open: dict[int, Path] = {}
        self._directories: dict[Path, _Directory] = {}
        self._after: dict[str, Callable[..., None]]
        self._after = {"open": self._opened, "write": self._wrote, "fsync": self._synced, "rename": self._renamed}
        self._after |= {"replace": self._renamed, "unlink": self._unlinked, "mkdir": self._made}
        for directory in (root, *(path for path in root.rglob("*") if path.is_dir())):
            files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
            names = {name: _File(bytearray(content), content) for name, content in files.items()}
            self._directories[directory] = _Directory(names, [dict(names)])

    @property
    def is_cut(self) -> bool:
        """Whether a call has been refused."""
        return len(self.calls) >= self._cut_at

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Have the calls of this process go through this disk inside the block."""
        names = ("open", "write", "fsync", "close", "rename", "replace", "unlink", "mkdir")
        real = {name: getattr(os, name) for name in names}

        def through(name: str) -> Any:
            return lambda *values, **options: self._call(real[name], name, *values, **options)

        with patch.multiple(os, **{name: through(name) for name in names}):
            yield

    def leave(self, chance: random.Random, directory: Path) -> None:
        """Write what a machine may find when the power is back into another directory."""
        for path, known in self._directories.items():
            place = directory / path.relative_to(self.root)
            place.mkdir(parents=True)
            for name, file in chance.choice(known.states).items():
                (place / name).write_bytes(file.left(chance))

    def _call(self, real: Any, name: str, *values: Any, **options: Any) -> Any:
        if not self._is_mine(values[0]):
            return real(*values, **options)
        if name == "close":  # never fails here, so that nothing stays open
            self._open.pop(values[0])
            return real(*values, **options)
        self._step(name)
        result = real(*values, **options)
        self._after[name](result, *values)
        return result

    def _is_mine(self, what: Any) -> bool:
        if isinstance(what, int):
            return what in self._open
        return Path(what) == self.root or self.root in Path(what).parents

    def _step(self, name: str) -> None:
        self.calls.append(name)
        count = len(self.calls)
        if count == self._cut_at or (count > self._cut_at and not self._once):
            raise OSError(self.fault or 5, os.strerror(self.fault or 5))

    def _names_of(self, path: Path) -> dict[str, _File]:
        return self._directories[path.parent].names

    def _set(self, path: Path, file: _File | None) -> None:
        self._directories[path.parent].change(path.name, file)

    def _opened(self, descriptor: int, name: Any, flags: int, *_: Any) -> None:
        path = self._open[descriptor] = Path(name)
        if flags & os.O_CREAT and path.name not in self._names_of(path):
            self._set(path, _File())
        elif flags & os.O_TRUNC:
            self._names_of(path)[path.name].content.clear()

    def _wrote(self, count: int, descriptor: int, data: Any) -> None:
        path = self._open[descriptor]
        self._names_of(path)[path.name].content += bytes(data)[:count]

    def _synced(self, _: None, descriptor: int) -> None:
        path = self._open[descriptor]
        if self.lies:
            return
        if path in self._directories:
            self._directories[path].sync()
        else:
            file = self._names_of(path)[path.name]
            file.synced = bytes(file.content)

    def _renamed(self, _: None, old: Any, new: Any) -> None:
        file = self._names_of(Path(old))[Path(old).name]
        self._set(Path(new), file)
        self._set(Path(old), None)
        states = self._directories[Path(new).parent].states
        if Path(old).parent == Path(new).parent and len(states) > 1:
            del states[-2]  # both names change in one step

    def _unlinked(self, _: None, path: Any) -> None:
        self._set(Path(path), None)

    def _made(self, _: None, path: Any, *__: Any) -> None:
        self._directories[Path(path)] = _Directory({}, [{}])

"""The table of verbs, of which families are read when one of their verbs is looked up.  Pure."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

from lifebus_transports.messages.verb_types import Verb


class VerbTable(Mapping[str, Verb]):
    """Verbs by name.  `families` has, by the modules whose `TABLE` holds them, the names of those that are read late.

    To know which verbs there are reads nothing.
    """

    def __init__(self, verbs: Iterable[Verb], families: Mapping[str, Iterable[str]]) -> None:
        self._read = {verb.name: verb for verb in verbs}
        self._modules = {name: module for module, names in families.items() for name in names}
        self._names = (*self._read, *self._modules)

    def __getitem__(self, name: str) -> Verb:
        if name not in self._read:
            self._read |= {verb.name: verb for verb in import_module(self._modules[name]).TABLE}
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._read or name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

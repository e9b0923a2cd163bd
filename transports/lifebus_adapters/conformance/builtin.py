"""The built-in adapters as the suite takes them."""

from lifebus_adapters import ADAPTERS
from lifebus_adapters.conformance.examples import load_examples
from lifebus_adapters.conformance.subject import Subject
from lifebus_adapters.harness import HarnessAdapter
from lifebus_adapters.shared.manifests import builtin_examples


def builtin_subject(adapter_id: str) -> Subject:
    """Return a built-in adapter with the examples that ship with it.

    Raises:
        KeyError: there is no such adapter.
    """
    adapter = ADAPTERS[adapter_id]
    hooks = frozenset(adapter.hooks.rules) | adapter.hooks.silent if isinstance(adapter, HarnessAdapter) else None
    return Subject(adapter=adapter, examples=load_examples(builtin_examples(adapter_id)), hooks=hooks)

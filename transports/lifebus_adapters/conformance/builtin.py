"""The built-in adapters as the suite takes them."""

from lifebus_adapters import ADAPTERS
from lifebus_adapters.conformance.examples import load_examples
from lifebus_adapters.conformance.subject import Subject


def builtin_subject(adapter_id: str) -> Subject:
    """Return a built-in adapter with the examples that ship with it.

    Raises:
        KeyError: there is no such adapter.
    """
    harness = ADAPTERS[adapter_id]
    return Subject(adapter=harness, examples=load_examples(harness.examples), hooks=harness.hooks.known)

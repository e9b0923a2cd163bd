"""The table of verbs and its handlers: each verb has exactly one, and each says what a caller must know."""

import msgspec
import pytest

from lifebus_contract.fields import Document
from lifebus_supervisor.api.table import Handler, bind
from lifebus_transports.messages.verb_types import CallPool, Verb
from lifebus_transports.messages.verbs import VERBS


def nothing(*_: object) -> None:
    """Serve nothing."""


WHOLE: dict[str, Handler] = dict.fromkeys(VERBS, nothing)


def test_each_verb_gets_its_handler() -> None:
    bound = bind([WHOLE])
    assert {name: (bound[name].verb, bound[name].handle) for name in VERBS} == {
        name: (verb, nothing) for name, verb in VERBS.items()
    }


def test_a_verb_without_a_handler_is_named() -> None:
    with pytest.raises(ValueError, match="no handler for emit, ping"):
        bind([{name: handler for name, handler in WHOLE.items() if name not in {"emit", "ping"}}])


@pytest.mark.parametrize("second", [{"ping": nothing}, {"teleport": nothing}], ids=["served twice", "no verb"])
def test_a_handler_too_many_is_refused(second: dict[str, Handler]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(second))}`"):
        bind([WHOLE, second])


def test_pools_of_one_name_are_one_pool() -> None:
    pools = {verb.pool for verb in VERBS.values() if verb.pool is not None}
    assert len({pool.name for pool in pools}) == len(pools)
    assert CallPool("reads", None) in pools


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_verb_says_what_it_does_and_names_only_keys_that_its_body_has(verb: Verb) -> None:
    keys = {field.encode_name for field in msgspec.structs.fields(verb.body)}
    assert issubclass(verb.body, Document)
    assert verb.summary.endswith(".")
    assert {verb.wait_key, *(verb.embedded or ())[:1]} - {None} <= keys

"""Which hook answers bear deliveries, and which of them did not reach their harness (docs/contract.md 5.7)."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from lifebus_adapters.adapter import HookCall
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_contract import Emission
from lifebus_supervisor.corrections.corrector import LostAnswer

_MAX_CALLS: Final = 1_024
"""Most answers that wait for being sent; the server has fewer calls in hand."""

_NOT_SENT: Final = "the answer was not ready in time, or nobody took it"
_SPOOLED: Final = "the hook kept the call for later, because it got no answer"


class Promises:
    """The answers with deliveries that are not sent yet; `on_lost` is called with those that reach nobody."""

    def __init__(self, on_lost: Callable[[LostAnswer], None] | None) -> None:
        self._on_lost = on_lost
        self._unsent: OrderedDict[str, LostAnswer] = OrderedDict()

    def note(self, call: HookCall, emissions: Sequence[Emission], results: Sequence[EmissionResult]) -> None:
        """Take what was recorded of a call.

        A hook that got a whole answer does not spool its call: one from the spool that was recorded before it came
        shows that its answer was lost, by a broker that ended in between, for one.
        """
        if self._on_lost is None:
            return
        if call.spooled_at_epoch_s is not None:
            lost = _answer_of([one for one in zip(emissions, results, strict=True) if one[1].replayed], _SPOOLED)
            if lost is not None:
                self._on_lost(lost)
        elif any(result.deliveries for result in results):
            promised = _answer_of(list(zip(emissions, results, strict=True)), _NOT_SENT)
            if promised is not None:
                self._unsent[call.call_id] = promised
                if len(self._unsent) > _MAX_CALLS:
                    self._unsent.popitem(last=False)

    def settle(self, call: HookCall, *, taken: bool) -> None:
        """Take whether the answer to a call was taken."""
        answer = self._unsent.pop(call.call_id, None)
        if answer is not None and not taken and self._on_lost is not None:
            self._on_lost(answer)


def _answer_of(recorded: Sequence[tuple[Emission, EmissionResult]], evidence: str) -> LostAnswer | None:
    """Return the answer to a call by its first receipt, None where nothing was recorded."""
    positions = [one.position for _, result in recorded for one in result.stored]
    if not positions:
        return None
    request = recorded[0][0].request
    return LostAnswer(
        adapter_id=request.adapter_id,
        session=request.harness_session_id,
        # Two entries in a harness's settings may report one moment under one key: only the call's own receipts count.
        invocation_id=request.invocation_id,
        position=min(positions),
        evidence=evidence,
    )

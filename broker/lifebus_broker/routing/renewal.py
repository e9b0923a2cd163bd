"""Whether a renewal may go on, by an adapter's claims and what its session lost since.  Pure.

The four conditions and their failure classes are those of docs/contract.md 7.1: no reset path is
`capability_unsupported`, only an operator's `operator_required`, one that became weaker `capability_degraded` as every
loss is (docs/contract.md 4.6); that a continuation was lost or rejected (`payload_rejected`) shows only when it is
delivered.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from lifebus_broker.claims import RENEWAL, count_claim, explain_lack
from lifebus_broker.ports import Refusal
from lifebus_broker.routing.negotiation import failure_of
from lifebus_contract import SUPPORT_STRENGTH, FailureClass, NegotiationOutcome, RegisteredAdapter, SupportState

ResetPath = Literal["native", "wrapper_mediated"]
"""The ways to a reset that need no operator, the best first."""

_PATHS: Final[tuple[ResetPath, ...]] = ("native", "wrapper_mediated")
_CONTINUATION: Final = (f"{RENEWAL}continuation.observation", f"{RENEWAL}continuation.payload_delivery")
_MANUAL: Final = f"{RENEWAL}reset.manual"
_AUTOMATIC: Final = frozenset({SupportState.NATIVE, SupportState.SYNTHESIZED})
_Support = Mapping[str, SupportState]


class Posture(Struct, frozen=True, kw_only=True):
    """Whether a session can be renewed: by the reset path to take, or not, by the refusal."""

    path: ResetPath | None = None
    refusal: Refusal | None = None


def posture_of(registered: RegisteredAdapter, losses: _Support) -> Posture:
    """Return the reset path that a session has now, or the refusal with the failure class of its condition.

    `losses` holds the present support of capabilities that are weaker than claimed.
    """
    names = [_reset(path) for path in _PATHS] + [_MANUAL, *_CONTINUATION]
    counted = {name: count_claim(registered, name) for name in names}
    # The weaker of claim and present support: a report cannot add what the broker does not count.
    current = {
        name: min(claim, losses.get(name, claim), key=SUPPORT_STRENGTH.__getitem__) for name, claim in counted.items()
    }
    failure = failure_of(_outcome(current), _outcome(counted))
    if failure is None:
        return Posture(path=_path_of(current))
    if failure is FailureClass.CAPABILITY_DEGRADED:  # it was possible: what changed since is the reason
        weaker = [f"{name} is {current[name]}, was {counted[name]}" for name in names if current[name] != counted[name]]
        return _refused("renewal_capability_degraded", "; ".join(weaker))
    return _never_possible(registered, counted)


def _never_possible(registered: RegisteredAdapter, counted: _Support) -> Posture:
    """Refuse what the adapter never claimed in full; partial support was accepted by nobody."""
    # Name the first thing that is lacking: without a reset path, continuations do not matter.
    missing = [*_CONTINUATION] if _path_of(counted) is not None else [_reset(path) for path in _PATHS]
    lacking = [name for name in missing if counted[name] not in _AUTOMATIC]
    detail = "; ".join(f"{name} is {counted[name]}{_because(registered, name)}" for name in lacking)
    found = {counted[name] for name in lacking}
    if SupportState.PARTIAL in found:
        return _refused("renewal_capability_degraded", detail)
    operator = counted[_MANUAL] is not SupportState.UNAVAILABLE and missing[0] == _reset("native")
    if operator or SupportState.MANUAL in found:
        return _refused("renewal_operator_required", f"{detail}; an operator can")
    return _refused("renewal_capability_unsupported", detail)


def _reset(path: ResetPath) -> str:
    return f"{RENEWAL}reset.{path}"


def _path_of(support: _Support) -> ResetPath | None:
    return next((path for path in _PATHS if support[_reset(path)] in _AUTOMATIC), None)


def _outcome(support: _Support) -> NegotiationOutcome:
    """Return whether such support makes a renewal possible at all; why not is found by `_never_possible`."""
    possible = _path_of(support) is not None and _continues(support)
    return NegotiationOutcome.SATISFIED if possible else NegotiationOutcome.UNSUPPORTED


def _continues(support: _Support) -> bool:
    return all(support[name] in _AUTOMATIC for name in _CONTINUATION)


def _because(registered: RegisteredAdapter, capability: str) -> str:
    lack = explain_lack(registered, capability)
    return "" if lack is None else f" ({lack})"


def _refused(code: str, detail: str) -> Posture:
    return Posture(refusal=Refusal.of(code, detail[:1024]))

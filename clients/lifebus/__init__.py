"""lifebus for its users: connect, emit, serve, follow.

    import lifebus

    async with lifebus.connect() as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        async for receipt in bus.receipts(session=("codex", "s1"), since="start"):
            ...

Names are loaded when they are first used, so that `lifebus version` and hooks do not load sockets.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer to load than all that `lifebus app-server tee` needs
if TYPE_CHECKING:
    from typing import Any

    from lifebus._internal.arrival import run
    from lifebus._internal.following.gaps import GapFound
    from lifebus._internal.view import Gap, Position
    from lifebus.client import Bus, Emitted, connect
    from lifebus.consumer import Deliveries, Delivery
    from lifebus.requests import make_payload, make_request, new_id
    from lifebus.signals import SignalReceived, Signals
    from lifebus.state import State
    from lifebus.subscription import Subscription
    from lifebus.workspace import Workspace
    from lifebus_contract import (
        CallbackRequest,
        CallbackResponse,
        CapabilityRequest,
        DispatchEnvelope,
        Emission,
        FrameClass,
        FrameContext,
        LifebusError,
        LifecycleEvent,
        Negotiation,
        PayloadEnvelope,
        PayloadReceipt,
        PressureLevel,
        Receipt,
        ReceiptStatus,
        RequirementLevel,
    )
    from lifebus_contract.consumers import ConsumerSettings
    from lifebus_contract.facts.selections import tells_of_canary, tells_of_failure, tells_of_wait
    from lifebus_contract.jobs import NewJob
    from lifebus_contract.questions import AnswerAction, Question, QuestionAnswer, QuestionInfo
    from lifebus_contract.views import SessionHead

__all__ = [
    "AnswerAction",
    "Bus",
    "CallbackRequest",
    "CallbackResponse",
    "CapabilityRequest",
    "ConsumerSettings",
    "Deliveries",
    "Delivery",
    "DispatchEnvelope",
    "Emission",
    "Emitted",
    "FrameClass",
    "FrameContext",
    "Gap",
    "GapFound",
    "LifebusError",
    "LifecycleEvent",
    "Negotiation",
    "NewJob",
    "PayloadEnvelope",
    "PayloadReceipt",
    "Position",
    "PressureLevel",
    "Question",
    "QuestionAnswer",
    "QuestionInfo",
    "Receipt",
    "ReceiptStatus",
    "RequirementLevel",
    "SessionHead",
    "SignalReceived",
    "Signals",
    "State",
    "Subscription",
    "Workspace",
    "connect",
    "make_payload",
    "make_request",
    "new_id",
    "run",
    "tells_of_canary",
    "tells_of_failure",
    "tells_of_wait",
]

_HOME = {
    "AnswerAction": "lifebus_contract.questions",
    "Bus": "lifebus.client",
    "Position": "lifebus._internal.view",
    "ConsumerSettings": "lifebus_contract.consumers",
    "Deliveries": "lifebus.consumer",
    "Delivery": "lifebus.consumer",
    "Emitted": "lifebus.client",
    "Gap": "lifebus._internal.view",
    "GapFound": "lifebus._internal.following.gaps",
    "NewJob": "lifebus_contract.jobs",
    "Question": "lifebus_contract.questions",
    "QuestionAnswer": "lifebus_contract.questions",
    "QuestionInfo": "lifebus_contract.questions",
    "SessionHead": "lifebus_contract.views",
    "SignalReceived": "lifebus.signals",
    "Signals": "lifebus.signals",
    "State": "lifebus.state",
    "Subscription": "lifebus.subscription",
    "Workspace": "lifebus.workspace",
    "connect": "lifebus.client",
    "make_payload": "lifebus.requests",
    "make_request": "lifebus.requests",
    "new_id": "lifebus.requests",
    "run": "lifebus._internal.arrival",
    "tells_of_canary": "lifebus_contract.facts.selections",
    "tells_of_failure": "lifebus_contract.facts.selections",
    "tells_of_wait": "lifebus_contract.facts.selections",
}
_CONTRACT = "lifebus_contract"  # the home of every other name: the types that users touch


def __getattr__(name: str) -> "Any":
    # A submodule, not a name: `lifebus.blocking` works without an import of its own.
    if name == "blocking":
        return import_module("lifebus.blocking")
    if name not in __all__:
        raise AttributeError(f"module `lifebus` has no attribute `{name}`")
    found = getattr(import_module(_HOME.get(name, _CONTRACT)), name)
    globals()[name] = found  # found at once from now on: programs say `lifebus.make_request` for each emission
    return found

"""The callback clients of the demonstration: one delivers a payload, one wishes too much, one demands too much."""

from collections.abc import Callable
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from lifebus.client import connect
from lifebus.requests import make_payload
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    ReceiptStatus,
    RequirementLevel,
    SupportState,
)

PAYLOAD_TEXT = "Remember: the tests run with `make test`."
"""What the delivering client has to say to the harness."""


class DemoClient(Struct, frozen=True, kw_only=True):
    """A callback client: what it wants to hear of whom, what it asks for, and whether it delivers."""

    client_id: str
    adapter: str
    event: LifecycleEvent
    requirements: tuple[CapabilityRequest, ...] = ()
    delivers: bool = False
    story: str


CLIENTS = (
    DemoClient(
        client_id="demo.notes",
        adapter="codex",
        event=LifecycleEvent.SESSION_STARTING,
        delivers=True,
        story="delivers a payload as a Codex session starts",
    ),
    DemoClient(
        client_id="demo.wishes",
        adapter="claude",
        event=LifecycleEvent.FRAME_OPENED,
        requirements=(CapabilityRequest(capability="placement:pre_frame_leading", level=RequirementLevel.PREFERRED),),
        story="wishes to speak before the prompt; Claude Code cannot: degraded",
    ),
    DemoClient(
        client_id="demo.demands",
        adapter="gemini",
        event=LifecycleEvent.SESSION_STARTED,
        requirements=(
            CapabilityRequest(
                capability="context_pressure", level=RequirementLevel.REQUIRED, support=SupportState.NATIVE
            ),
        ),
        story="demands native context pressure of Gemini CLI: refused",
    ),
)
"""The clients, with what each shows."""


async def serve_client(
    client: DemoClient,
    runtime_dir: Path,
    note_dispatch: Callable[[str], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Be the client until cancelled; started once the broker has registered it."""

    async def handle(envelope: DispatchEnvelope) -> CallbackResponse:
        note_dispatch(client.client_id)
        if client.delivers:
            return CallbackResponse.ok(ReceiptStatus.DELIVERED, _payload(client, envelope))
        return CallbackResponse.ok(ReceiptStatus.OBSERVED)

    async with connect(client.client_id, runtime_dir=runtime_dir) as bus:
        await bus.serve(
            [client.event],
            handle,
            adapters=[client.adapter],
            requirements=client.requirements,
            on_ready=task_status.started,
        )


def _payload(client: DemoClient, envelope: DispatchEnvelope) -> PayloadEnvelope:
    return make_payload(
        client.client_id,
        PAYLOAD_TEXT,
        payload_kind="demo.note",
        placements=((PlacementClass.DEVELOPER_EQUIVALENT_FRAME, RequirementLevel.REQUIRED),),
        format="text",
        metadata={"for": envelope.request.event_id},
    )

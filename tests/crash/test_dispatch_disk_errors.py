"""A disk that fails while the receipt of a client that was asked is written: the broker ends, whoever waits for it."""

from contextlib import suppress
from functools import partial

import anyio

import lifebus
from lifebus_supervisor.daemon.halt import EXIT_IO
from support.broker_process import broker_process
from support.paths import TESTS
from support.patience import PATIENCE_S
from support.running import short_directory

FAILING = TESTS / "support" / "crash" / "failing_broker.py"


async def answer(_: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
    """Deliver nothing."""
    return lifebus.CallbackResponse.ok(lifebus.ReceiptStatus.OBSERVED)


async def test_a_broker_whose_disk_fails_below_the_receipt_of_a_client_that_was_asked_ends_with_74() -> None:
    registered = anyio.Event()
    with short_directory() as home:
        async with (
            broker_process(home, program=FAILING, FAIL_AT="1", ARMED_BY="asked") as broker,
            lifebus.connect("asked", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as asked,
            lifebus.connect("hook", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(asked.serve, ["session.started"], answer, on_ready=registered.set))
            await registered.wait()

            async def emit() -> None:
                with suppress(lifebus.LifebusError):
                    await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))

            tasks.start_soon(emit)
            assert await broker.ended() == EXIT_IO
            tasks.cancel_scope.cancel()

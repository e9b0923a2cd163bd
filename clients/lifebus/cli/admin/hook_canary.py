"""`lifebus hooks test`: a canary through every installed hook, and whether it became a receipt."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from lifebus.cli.arguments import ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.terminal import put_table

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_admin.harnesses.canary import Trial, TrialOutcome
    from lifebus_admin.harnesses.target import HostEnvironment, Target
    from lifebus_contract import Receipt


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one canary; `arrived` is None where there was nothing to run, and `note` says why."""

    harness: str
    mode: str
    hook: str
    arrived: bool | None
    exit_code: int | None = None
    seconds: float | None = None
    note: str = ""


def send_canaries(place: "HostEnvironment", targets: "Sequence[Target]", connection: ConnectionOptions) -> list[Canary]:
    """Run every installed hook with a canary, wait for the receipts, and return what became of each.

    Raises:
        LifebusError: no broker answers.
        InstallRefused: a harness's settings cannot be read.
    """
    from lifebus.requests import new_id  # noqa: PLC0415
    from lifebus_admin.harnesses.canary import trials_of  # noqa: PLC0415

    trials = {new_id("canary_"): trial for target in targets for trial in trials_of(place, target)}
    # The hooks must reach the broker that is asked here, not the one of the user's environment.
    environ = dict(os.environ)
    if connection.runtime_dir is not None:
        environ["LIFEBUS_RUNTIME_DIR"] = str(connection.runtime_dir)

    async def sent(bus: "Bus") -> list[Canary]:
        # Taken before the first canary: its receipt may come before we follow.
        head = (await bus.status()).ledger.head
        outcomes = await _run(trials, environ)
        expected = {name for name, outcome in outcomes.items() if outcome.exit_code is not None}
        arrived = await _arrived(bus, head, expected, connection.seconds)
        return [_canary(trial, outcomes.get(name), arrived=name in arrived) for name, trial in trials.items()]

    return on_bus(connection, sent)


async def _run(trials: "dict[str, Trial]", environ: dict[str, str]) -> "dict[str, TrialOutcome]":
    import anyio.to_thread  # noqa: PLC0415

    from lifebus_admin.harnesses.canary import run_trial  # noqa: PLC0415

    return {
        # One at a time, so that a busy machine does not look like a lost canary.
        name: await anyio.to_thread.run_sync(run_trial, trial, name, environ)
        for name, trial in trials.items()
        if trial.argv is not None
    }


async def _arrived(bus: "Bus", head: int, expected: set[str], patience: float) -> set[str]:
    """Return which canaries have become receipts, as soon as all have, or patience is at its end."""
    import anyio  # noqa: PLC0415

    from lifebus._internal.view import Gap  # noqa: PLC0415

    found: set[str] = set()
    if not expected:
        return found
    receipts = bus.receipts(since=head, where=_is_canary, gaps="yield")
    with anyio.move_on_after(patience):
        async for item in receipts:
            if not isinstance(item, Gap):
                found.add(str(item.telemetry_summary["canary"]))
            if expected <= found:
                break
    # The time is over here: an unshielded `aclose` would be cancelled at once.
    with anyio.CancelScope(shield=True):
        await receipts.aclose()
    return found


def _is_canary(receipt: "Receipt") -> bool:
    return receipt.event.value == "supervisor.tick" and "canary" in receipt.telemetry_summary


def _canary(trial: "Trial", outcome: "TrialOutcome | None", *, arrived: bool) -> Canary:
    target = trial.target
    # The exit code is reported even when the canary arrived: harnesses act on it.
    note = trial.reason or ""
    if outcome is not None and outcome.exit_code is None:
        note = "it did not end, or could not be started"
    elif outcome is not None and outcome.exit_code:
        note = "harnesses may read this exit code as a refusal"
    return Canary(
        harness=target.adapter_id,
        mode=target.mode.value,
        hook=trial.hook,
        arrived=None if outcome is None else arrived and outcome.exit_code == 0,
        exit_code=None if outcome is None else outcome.exit_code,
        seconds=None if outcome is None else round(outcome.seconds, 3),
        note=note,
    )


def show_canaries(canaries: Sequence[Canary]) -> None:
    """Print a table."""
    words = {True: "arrived", False: "LOST", None: "not tried"}
    put_table(
        ("harness", "mode", "hook", "canary", "exit", "ms", "note"),
        [
            (
                one.harness,
                one.mode,
                one.hook,
                words[one.arrived],
                "" if one.exit_code is None else str(one.exit_code),
                "" if one.seconds is None else f"{one.seconds * 1000:.0f}",
                one.note,
            )
            for one in canaries
        ],
        color_of={"arrived": "green", "LOST": "red", "not tried": "yellow"},
    )

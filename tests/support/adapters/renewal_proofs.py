"""Proofs of what the v1 manifests claim about renewal: each runs hooks, broker, store and the steps of a client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lifebus_adapters import ADAPTERS
from lifebus_contract import CapabilityRequest, LifecycleEvent, RequirementLevel, SupportState
from support.adapters.calls import call, hooks_of, ids
from support.adapters.hook_bus import hook_bus
from support.adapters.proofs import START, STOP
from support.command_line import Shell
from support.running import short_directory
from support.supervisor.scripted import CONFIGURED, PROFILE, SECRET, Renewing, ScriptedClient, renewing


@asynccontextmanager
async def _renewing(adapter_id: str, client: ScriptedClient | None = None) -> AsyncIterator[Renewing]:
    assert adapter_id == PROFILE.adapter
    with short_directory() as directory:
        async with renewing(directory, client) as on:
            yield on


CLEARED = {**START, "session_id": "s2", "source": "clear"}


async def no_hook_resets(adapter_id: str) -> None:
    """No hook stands for a reset that the harness offers, and none of our answers orders one."""
    assert not any("reset" in name.lower() or "renew" in name.lower() for name in hooks_of(adapter_id).rules)
    async with hook_bus() as bus:
        answers = [await bus.hook(adapter_id, hook, call_id=str(hook)[-9:-2]) for hook in (STOP, CLEARED)]
    assert [(answer.stdout, answer.exit_code) for _, answer in answers] == [(b"", 0)] * 2


async def a_turns_end_prepares_and_a_start_completes(adapter_id: str) -> None:
    """The two hooks around a new start are enough: one prepares, the other completes."""
    async with _renewing(adapter_id) as on:
        prepared, used = await on.stop("s1"), await on.start("s2")
        kinds = [one.payload_receipts[0].payload_kind for one in (prepared, used)]
        assert kinds == ["renewal.reset_prepare", "renewal.continuation"]
        assert prepared.telemetry_summary["client_reset_path"] == "wrapper_mediated"


async def an_operator_prepares_by_hand(adapter_id: str) -> None:
    """A token that an operator puts is given to the next session start."""
    with short_directory() as directory:
        (directory / "config.toml").write_text(CONFIGURED.replace("codex", adapter_id))
        shell = Shell(directory, LIFEBUS_CONFIG=str(directory / "config.toml"))
        assert shell.call("renewal", "continuation", "put", "t-1", "--cwd", "/work", stdin=SECRET.encode()).code == 0
        async with renewing(directory) as on:
            await on.start("s2", "/work")
            assert [(one["step"], one["token"]) for one in on.client.asked] == [("consume", SECRET)]


async def a_hook_tells_of_the_start_after_a_reset(adapter_id: str) -> None:
    """After a reset the harness calls its own hook, with the new session and where it runs."""
    async with hook_bus() as bus:
        recorded, _ = await bus.hook(adapter_id, CLEARED)
    started = next(one for one in recorded if one.event is LifecycleEvent.SESSION_STARTED)
    assert (started.harness_session_id, started.telemetry_summary["source"]) == ("s2", "clear")
    (emission, _) = ADAPTERS[adapter_id].read(call(adapter_id, CLEARED), ids()).emissions
    assert emission.request.metadata["cwd"] == "/home/dev/project"


async def a_token_comes_back_byte_for_byte(adapter_id: str) -> None:
    """What the client prepared is what it gets back, whatever is in it."""
    for token in (SECRET, "\u20ac \x01\n\"'\\", "x" * 16_384):
        client = ScriptedClient()
        client.answers["prepare"] = {"token": token, "thread": "t-1"}
        async with _renewing(adapter_id, client) as on:
            await on.stop("s1")
            await on.start("s2")
        assert client.asked[-1]["token"] == token


async def without_the_profile_nothing_is_renewed(adapter_id: str) -> None:
    """The claim is scoped: where the profile is not enabled it counts as unavailable, and no client is asked."""
    request = CapabilityRequest(capability="renewal.reset.wrapper_mediated", level=RequirementLevel.REQUIRED)
    async with hook_bus() as bus:
        router = bus.bus.router
        closed = router.negotiation([request], bus.bus.registry.require(adapter_id), None)
        recorded, _ = await bus.hook(adapter_id, STOP)
    assert closed is not None
    assert closed.outcomes[0].current is SupportState.UNAVAILABLE
    assert "profile" in closed.outcomes[0].reason
    assert {one.client_id for one in recorded} == {"lifebus.hook"}
    async with _renewing(adapter_id) as on:
        opened = on.bus.bus.router.negotiation([request], on.bus.bus.registry.require(adapter_id), None)
    assert opened is not None
    assert opened.outcome == "satisfied"

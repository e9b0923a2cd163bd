"""Extensions of a running broker: told what is durable, loaded as a whole or not at all, trusted by their contents."""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import lifebus
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    ActionOutcome,
    ActionRequest,
    ActionScope,
    ActionStatus,
    ExtensionInfo,
    LoadErrorCode,
    RuntimeEvent,
)
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.extensions import loading
from lifebus_supervisor.extensions.passes import Reach
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.broker_process import until
from support.extensions.scene import write_extension
from support.integration.observing import EVENT, Observer, signal
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered

LISTENER = """
    from lifebus.extensions import Event, Receipt, Signal, on, request_action

    @on("lifecycle.session.started")
    async def started(event: Event[Receipt]):
        return request_action("seen", {"session": event.payload.harness_session_id, "about": event.correlation_id})

    @on("app_server.item.agent_message.delta")
    async def said(event: Event[Signal]):
        return request_action("said", {"thread": event.payload.context.thread_id, "about": event.correlation_id})

    @on("extensions.events_lost")
    async def lost(event):
        return request_action("lost", event.payload)
    """

MANIFEST = """
    name = "listener"
    [capabilities]
    events = ["*"]
    actions = ["*"]
    """


class Seen:
    """An executor that writes down what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], ActionScope]] = []

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        self.asked.append((request.action_type, request.payload, scope))
        return ActionOutcome(status=ActionStatus.PERFORMED)


def settings(*roots: Path, mode: TrustMode = TrustMode.WARN) -> ExtensionSettings:
    return ExtensionSettings(roots=tuple(map(str, roots)), trust_mode=mode)


async def loaded(daemon: Daemon) -> Sequence[ExtensionInfo]:
    """Return what is loaded once the start is over."""
    await until(lambda: sessions_of(daemon).extensions.current.version != "bootstrap")
    return sessions_of(daemon).extensions.current.modules


def modules_of(daemon: Daemon) -> list[str]:
    return [one.module_name for one in sessions_of(daemon).extensions.current.modules]


async def test_handlers_are_told_receipts_and_signals_once_they_are_durable(tmp_path: Path) -> None:
    write_extension(tmp_path, "listener", LISTENER, manifest=MANIFEST)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        (info,) = await loaded(daemon)
        assert info.trust.status.value == "accepted"
        seen = Seen()
        sessions_of(daemon).extensions.around = Reach(executor=seen)
        emitted = await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        await Observer(bus).observe(signal("t7", session={"id": "t7", "title": None, "projectId": "p1"}))
        await until(lambda: len(seen.asked) == 2)
        by_type = {kind: (payload, scope) for kind, payload, scope in seen.asked}
        receipt_id = emitted.receipts[0].receipt_id
        assert by_type["seen"] == (
            {"session": "s1", "about": receipt_id},
            ActionScope(source_session_id="s1"),
        )
        assert by_type["said"] == (
            {"thread": "t7", "about": "codex/t7/1"},
            ActionScope(project_id="p1", source_session_id="t7"),
        )


async def test_the_events_of_one_session_come_in_their_order(tmp_path: Path) -> None:
    write_extension(tmp_path, "listener", LISTENER, manifest=MANIFEST)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)
        seen = Seen()
        sessions_of(daemon).extensions.around = Reach(executor=seen)
        for thread in ("a", "b"):
            await Observer(bus, thread).observe(*(signal(thread) for _ in range(40)))
        await until(lambda: len(seen.asked) == 80)
        for thread in ("a", "b"):
            about = [payload["about"] for _, payload, _ in seen.asked if payload["thread"] == thread]
            assert about == [f"codex/{thread}/{number}" for number in range(1, 41)]


async def test_sessions_that_are_deleted_or_the_systems_are_kept_from_extensions(tmp_path: Path) -> None:
    write_extension(tmp_path, "listener", LISTENER, manifest=MANIFEST)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)
        seen = Seen()
        sessions_of(daemon).extensions.around = Reach(executor=seen)
        marks = sessions_of(daemon).transcripts.store.marks
        await marks.mark_deleted("gone", 1)
        await marks.mark_system("own", 1)
        observer = Observer(bus)
        for thread in ("gone", "own", "seen", ""):
            await observer.observe(signal(thread))
        for session in ("gone", "own", "seen"):
            await bus.emit(lifebus.make_request("session.started", "codex", session=session))
        await until(lambda: len(seen.asked) == 3)
        assert sorted(str(one.get("thread", one.get("session"))) for _, one, _ in seen.asked) == [
            "None",
            "seen",
            "seen",
        ]


async def test_what_does_not_fit_is_told_and_nobody_who_emits_waits(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("lifebus_supervisor.extensions.event_queue.MAX_WAITING", 8)
    write_extension(tmp_path, "listener", LISTENER, manifest=MANIFEST)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)
        seen, gate = Seen(), anyio.Event()

        class Slow(Seen):
            async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
                await gate.wait()
                return await seen.execute(request, scope, requested_by=requested_by)

        sessions_of(daemon).extensions.around = Reach(executor=Slow())
        requests = [lifebus.make_request("session.started", "codex", session=f"s{number}") for number in range(40)]
        assert len(await bus.emit(requests)) == 40
        await until(lambda: sessions_of(daemon).extensions.events.lost > 0)
        lost = sessions_of(daemon).extensions.events.lost
        gate.set()
        await until(lambda: any(kind == "lost" for kind, _, _ in seen.asked))
        await until(lambda: sessions_of(daemon).extensions.events.is_idle)
        told = [payload["count"] for kind, payload, _ in seen.asked if kind == "lost"]
        assert sum(told) == lost
        assert len([kind for kind, _, _ in seen.asked if kind == "seen"]) == 40 - lost
        assert (await bus.extensions.list()).lost_events == lost


async def test_a_start_leaves_bad_extensions_out_and_a_reload_takes_all_or_none(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", LISTENER)
    write_extension(tmp_path, "ends", "import os; os._exit(3)")
    write_extension(tmp_path, "newer", LISTENER, manifest='name = "from the future"\n[runtime]\napi = ">=2"')
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "extension.toml").write_text('name = "empty"')
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        assert [one.module_name for one in await loaded(daemon)] == ["good"]
        listed = await bus.extensions.list()
        assert sorted((one.extension, one.code.value) for one in listed.errors) == [
            ("empty", "missing_entrypoint"),
            ("ends", "import_failed"),
            ("from the future", "incompatible_runtime"),
        ]
        before = listed.snapshot_version
        refused = await bus.extensions.reload(by="anna")
        assert (refused.status, refused.code, refused.snapshot_version) == ("error", "reload_failed", before)
        assert len(refused.errors) == refused.failed_count == 3
        for name in ("ends", "newer", "empty"):
            os.rename(tmp_path / name, tmp_path / f".{name}")  # noqa: PTH104
        write_extension(tmp_path, "second", LISTENER)
        done = await bus.extensions.reload(by="anna")
        assert (done.status, done.code, done.loaded_count) == ("ok", None, 2)
        assert done.snapshot_version != before
        assert modules_of(daemon) == ["good", "second"]
        copies = daemon.settings.runtime_dir / "extensions"
        await until(lambda: [one.name for one in copies.iterdir()] == [done.snapshot_version])
        records = await bus.extensions.audit()
        assert [(one.action, one.result, one.actor_id) for one in records] == [
            ("start", "success", "broker"),
            ("reload", "failed", "anna"),
            ("reload", "success", "anna"),
        ]
        assert records[2].snapshot_before == before
        assert records[2].snapshot_after == done.snapshot_version
        assert records[1].snapshot_after is None
        assert "incompatible_runtime" in (records[1].error_summary or "")


async def test_of_many_reloads_at_once_one_is_done(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", LISTENER)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)
        codes: list[str | None] = []

        async def reload() -> None:
            codes.append((await bus.extensions.reload()).code)

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(reload)
        assert sorted(code or "" for code in codes) == ["", *["reload_in_progress"] * 5]


async def test_a_pass_ends_with_the_set_that_it_began_with(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", LISTENER + "# one")
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)
        old, gate, begun = sessions_of(daemon).extensions.current, anyio.Event(), anyio.Event()

        class Slow:
            async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
                begun.set()
                await gate.wait()
                return ActionOutcome(status=ActionStatus.PERFORMED)

        sessions_of(daemon).extensions.around = Reach(executor=Slow())
        results: list[object] = []

        async def emit() -> None:
            event = RuntimeEvent(type="extensions.events_lost", payload={"count": 1}, emitted_at="t")
            results.extend(await sessions_of(daemon).extensions.emit(event))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(emit)
            await begun.wait()
            assert (await bus.extensions.reload()).status == "ok"
            assert sessions_of(daemon).extensions.current is not old
            gate.set()
        assert [getattr(one, "status", None) for one in results] == [ActionStatus.PERFORMED]


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of one broker after the other."""
    with short_directory() as path:
        yield path


async def test_enforced_trust_loads_only_contents_that_somebody_has_looked_at(tmp_path: Path, home: Path) -> None:
    roots = tmp_path / "agents"
    folder = write_extension(roots, "listener", LISTENER, manifest=MANIFEST, helper="A = 1")
    undeclared = write_extension(roots, "silent", LISTENER)
    enforced = settings(roots, mode=TrustMode.ENFORCED)
    async with running_bus(whole=True, directory=home, extensions=enforced) as daemon, connected(daemon) as bus:
        assert await loaded(daemon) == ()
        codes = {one.extension: one.code for one in sessions_of(daemon).extensions.current.errors}
        assert codes == dict.fromkeys(("listener", "silent"), LoadErrorCode.TRUST_DENIED)
        with pytest.raises(StateConflict, match="have the hash"):
            await bus.extensions.trust("listener", expected_hash="sha256:" + "0" * 64)
        answer = await bus.extensions.trust("listener")
        assert (answer.path, answer.files) == (str(folder), ("events.py", "extension.toml", "helper.py"))
        with pytest.raises(InvalidRequest):
            await bus.extensions.trust("nobody")
        os.rename(undeclared, roots / ".silent")  # noqa: PTH104
        assert (await bus.extensions.reload()).status == "ok"
        (folder / "helper.py").write_text("A = 2")
        assert (await bus.extensions.reload()).errors[0].code is LoadErrorCode.TRUST_DENIED
        assert modules_of(daemon) == ["listener"]
        (folder / "helper.py").write_text("A = 1")
    async with running_bus(whole=True, directory=home, extensions=enforced) as daemon:
        (info,) = await loaded(daemon)
        assert (info.trust.status.value, info.trust.content_hash) == ("accepted", answer.content_hash)


async def test_a_handler_for_an_event_that_is_not_declared_is_denied_where_trust_is_enforced(tmp_path: Path) -> None:
    write_extension(tmp_path, "listener", LISTENER, manifest='name = "n"\n[capabilities]\nevents = []')
    async with (
        running_bus(whole=True, extensions=settings(tmp_path, mode=TrustMode.ENFORCED)) as daemon,
        connected(daemon) as bus,
    ):
        await loaded(daemon)
        await bus.extensions.trust("listener")
        answer = await bus.extensions.reload()
        assert [one.code for one in answer.errors] == [LoadErrorCode.TRUST_DENIED]
        assert "lifecycle.session.started" in answer.errors[0].message
        assert modules_of(daemon) == []


async def test_two_extensions_of_one_agent_are_a_conflict_and_the_second_has_no_handlers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_extension(tmp_path, name, LISTENER, manifest=f'name = "{name}"\nagent_id = "same"')
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon:
        assert [one.module_name for one in await loaded(daemon)] == ["a"]
        assert [one.code for one in sessions_of(daemon).extensions.current.errors] == [LoadErrorCode.AGENT_ID_CONFLICT]
        names = {
            one.handler.module_name
            for found in sessions_of(daemon).extensions.current.handlers.values()
            for one in found
        }
        assert names == {"a"}


async def test_what_others_may_write_or_a_link_leads_to_is_not_loaded(tmp_path: Path) -> None:
    writable = write_extension(tmp_path, "writable", LISTENER)
    (writable / "events.py").chmod(0o666)
    open_folder = write_extension(tmp_path, "open_folder", LISTENER)
    open_folder.chmod(0o777)
    linked = write_extension(tmp_path, "linked", LISTENER)
    (linked / "more.py").symlink_to(linked / "events.py")
    large = write_extension(tmp_path, "large", LISTENER)
    with (large / "data").open("wb") as file:
        file.truncate(17 * 1_048_576)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon:
        assert await loaded(daemon) == ()
        found = {one.extension: one.code for one in sessions_of(daemon).extensions.current.errors}
        assert found == dict.fromkeys(("writable", "open_folder", "linked", "large"), LoadErrorCode.UNSAFE_PATH)


async def test_a_name_that_is_no_text_leaves_its_extension_out_and_nothing_else(tmp_path: Path) -> None:
    write_extension(tmp_path, "good", LISTENER)
    file_named = write_extension(tmp_path, "file_named", LISTENER)
    (file_named / os.fsdecode(b"\xff")).write_text("")
    write_extension(tmp_path, "renamed", LISTENER).rename(tmp_path / os.fsdecode(b"\xff"))
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        assert [one.module_name for one in await loaded(daemon)] == ["good"]
        listed = await bus.extensions.list()
        assert {one.extension: one.code for one in listed.errors} == dict.fromkeys(
            ("file_named", "\\udcff"), LoadErrorCode.UNSAFE_PATH
        )
        with pytest.raises(InvalidRequest, match="no text"):
            await bus.extensions.trust("file_named")
        with anyio.fail_after(PATIENCE_S):  # the start is written down behind what it has loaded
            records = await until_answered(bus.extensions.audit, len)
        assert [one.action for one in records] == ["start"]


async def test_a_full_disk_leaves_extensions_out_and_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_extension(tmp_path, "good", LISTENER)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(loading, "copy_contents", full)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        assert await loaded(daemon) == ()
        (error,) = (await bus.extensions.list()).errors
        assert (error.extension, error.code) == ("good", LoadErrorCode.HOST_FAILED)
        assert "No space left on device" in error.message
        assert (await bus.extensions.reload()).code == "reload_failed"
        monkeypatch.undo()
        assert (await bus.extensions.reload()).loaded_count == 1


async def test_without_a_root_nothing_runs(tmp_path: Path) -> None:
    async with running_bus(whole=True, extensions=settings(tmp_path / "missing")) as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        listed = await bus.extensions.list()
        assert (listed.snapshot_version, listed.loaded_at) == ("bootstrap", "1970-01-01T00:00:00.000Z")
        assert sessions_of(daemon).extensions.events.passes == 0
        assert msgspec.to_builtins(listed)["modules"] == ()


async def test_a_handlers_process_that_dies_is_told_and_comes_back_in_the_broker(tmp_path: Path) -> None:
    code = """
        import os
        from lifebus.extensions import on

        @on("extensions.events_lost")
        async def dies(event):
            if event.payload["count"] == 1:
                os._exit(1)
            return {"kind": "handler_result", "details": event.payload}
        """
    write_extension(tmp_path, "m", code)
    async with running_bus(whole=True, extensions=settings(tmp_path)) as daemon, connected(daemon) as bus:
        await loaded(daemon)

        async def emit(count: int) -> object:
            event = RuntimeEvent(type="extensions.events_lost", payload={"count": count}, emitted_at="t")
            (result,) = await sessions_of(daemon).extensions.emit(event)
            return result

        assert getattr(await emit(1), "code", None) == "host_ended"
        assert getattr(await emit(2), "details", None) == {"count": 2}
        assert (await bus.extensions.list()).host_restarts == 1


def test_the_event_of_the_helpers_is_the_one_that_is_listened_to() -> None:
    assert EVENT == "app_server.item.agent_message.delta"

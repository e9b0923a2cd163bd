"""Checkpoints on the bus: the digest of each is on record once, its body nowhere, whoever was killed in between."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.checkpoints.receipts import session_of_step
from lifebus.checkpoints.reporting import Checkpoints
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.emissions import Emit, EmitAnswer
from support.clients.checkpoints import artifact, document, text
from support.running import connected, running_bus

SESSION = ("codex", "s1")
BODY = text(summary="a body that no ledger holds", more="unmistakable words")


def rows(daemon: Daemon) -> list[dict[str, Any]]:
    """The receipts in the ledger's file, by plain SQL."""
    path = daemon.settings.state_dir / "ledger.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [json.loads(raw) for (raw,) in connection.execute("SELECT receipt FROM rows ORDER BY position")]


async def test_the_digest_is_on_record_once_and_the_body_nowhere(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        checkpoints = Checkpoints(bus, tmp_path / "state")
        saved = await checkpoints.save(BODY, kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION)
        again = await checkpoints.save(BODY, kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION)
        assert (saved.is_new, again.is_new, saved.fault, again.fault) == (True, False, None, None)
        assert saved.info == again.info
        (receipt,) = rows(daemon)
        files = [path.read_bytes() for path in daemon.settings.state_dir.rglob("*") if path.is_file()]
    assert (receipt["event"], receipt["status"], receipt["client_id"]) == ("supervisor.tick", "observed", "loa")
    assert (receipt["adapter_id"], receipt["harness_session_id"]) == SESSION
    assert receipt["payload_receipts"] == [
        {
            "byte_size": len(BODY),
            "content_digest": saved.info.digest,
            "payload_id": saved.info.checkpoint_id,
            "payload_kind": "loa.checkpoint",
            "placement": "receipt_only",
            "status": "observed",
        }
    ]
    facts = receipt["telemetry_summary"]
    assert (facts["checkpoint_name"], facts["checkpoint_run"]) == ("implementation", saved.info.run_id)
    assert files
    assert not any(b"unmistakable" in one for one in files)


async def test_all_that_a_client_asks_is_answered(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").write_bytes(b"x")
    async with running_bus() as daemon, connected(daemon) as bus:
        assert isinstance(bus.checkpoints, Checkpoints)
        checkpoints = Checkpoints(bus, tmp_path / "state")
        place: Any = {"kind": LOA_CHECKPOINT, "root": tmp_path / "root"}
        await checkpoints.save(document(artifacts=[artifact("file", b"x")]), session=SESSION, **place)
        found = await checkpoints.get("implementation", **place)
        assert found is not None
        assert found.document["artifacts"][0]["path"] == "file"
        assert await checkpoints.get("none", **place) is None
        assert [one.name for one in await checkpoints.list(**place)] == ["implementation"]
        assert await checkpoints.list(name="none", **place) == []
        assert await checkpoints.verify(found, **place) == ()
        assert await checkpoints.export(found, **place) == ".loa-checkpoint/implementation.yaml"
        (tmp_path / "root" / "file").unlink()
        assert [one.path for one in await checkpoints.verify(found, **place)] == ["file"]
        with pytest.raises(lifebus.LifebusError) as refused:
            await checkpoints.save(document(version=2), **place)
        assert refused.value.code == "against_contract"


async def test_what_was_saved_without_a_broker_is_recorded_with_the_next_one(tmp_path: Path) -> None:
    with ProjectCheckpoints(LOA_CHECKPOINT, tmp_path, state_dir=tmp_path / "state") as project:
        early = [project.save(document(summary=str(number)), session=SESSION)[0] for number in range(70)]
    async with running_bus() as daemon, connected(daemon) as bus:
        late = await Checkpoints(bus, tmp_path / "state").save(
            BODY, kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION
        )
        recorded = [one["payload_receipts"][0]["payload_id"] for one in rows(daemon)]
    assert recorded == [one.checkpoint_id for one in [*early, late.info]]


class _Dying:
    """A bus whose client is killed after the broker has recorded, and before it knows."""

    def __init__(self, bus: lifebus.Bus) -> None:
        self.manifests = bus.manifests
        self._bus = bus

    async def record(self, body: Emit) -> EmitAnswer:
        await self._bus.record(body)
        raise KeyboardInterrupt


async def test_a_client_that_dies_before_it_knows_has_it_recorded_once_all_the_same(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(KeyboardInterrupt):
            await Checkpoints(_Dying(bus), tmp_path / "state").save(
                BODY, kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION
            )
        checkpoints = Checkpoints(bus, tmp_path / "state")
        assert await checkpoints.record_waiting(kind=LOA_CHECKPOINT, root=tmp_path) == {}
        assert len(rows(daemon)) == 1
        with ProjectCheckpoints(LOA_CHECKPOINT, tmp_path, state_dir=tmp_path / "state") as project:
            assert project.store.unrecorded() == []


async def test_an_adapter_that_the_broker_does_not_know_keeps_nothing_from_being_saved(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        checkpoints = Checkpoints(bus, tmp_path / "state")
        saved = await checkpoints.save(BODY, kind=LOA_CHECKPOINT, root=tmp_path, session=("nobody", "s1"))
        assert saved.fault is not None
        assert saved.fault.code == "unknown_adapter"
        later = await checkpoints.save(document(), kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION)
        assert later.fault is None
        assert len(rows(daemon)) == 1
        assert list(await checkpoints.record_waiting(kind=LOA_CHECKPOINT, root=tmp_path)) == [saved.info.checkpoint_id]


async def test_many_savers_of_one_project_leave_a_receipt_each(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        checkpoints = Checkpoints(bus, tmp_path / "state")

        async def save(number: int) -> None:
            saved = await checkpoints.save(
                document(summary=str(number)), kind=LOA_CHECKPOINT, root=tmp_path, session=SESSION
            )
            assert saved.fault is None

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(save, number)
        recorded = [one["payload_receipts"][0]["payload_id"] for one in rows(daemon)]
    assert len(recorded) == len(set(recorded)) == 12


async def test_a_checkpoint_of_no_session_is_on_record_too(tmp_path: Path) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        saved = await Checkpoints(bus, tmp_path / "state").save(BODY, kind=LOA_CHECKPOINT, root=tmp_path)
        assert saved.fault is None
        (receipt,) = rows(daemon)
    assert (receipt["adapter_id"], receipt["harness_session_id"], receipt["sequence"]) == ("flow", None, None)
    assert receipt["payload_receipts"][0]["payload_id"] == saved.info.checkpoint_id


def test_a_step_of_a_flow_has_the_session_of_its_run() -> None:
    assert session_of_step({"LIFEBUS_FLOW_RUN": "run-1"}) == ("flow", "run-1")
    assert session_of_step({"LIFEBUS_FLOW_RUN": ""}) is None
    assert session_of_step({}) is None

"""Checkpoints of a program that is connected to a broker: each saved first, then recorded on the bus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import anyio.to_thread
from msgspec import Struct

from lifebus.checkpoints.kinds import CheckpointKind
from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.checkpoints.receipts import emission_of
from lifebus.checkpoints.records import Checkpoint, CheckpointInfo
from lifebus.checkpoints.store import CheckpointStore
from lifebus.checkpoints.verification import Difference
from lifebus_contract import AdapterManifest, AdapterUnavailable, LifebusError
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_transports.messages.emissions import Emit, EmitAnswer

_AT_ONCE: Final = 64


class ReceiptBus(Protocol):
    """What is needed of a bus."""

    async def record(self, body: Emit) -> EmitAnswer:
        """Record emissions under the body's own client id."""
        ...

    async def manifests(self) -> list[AdapterManifest]:
        """Return the manifests of the running broker."""
        ...


class SavedCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint that is durable.  `is_new` is false if it had been saved before.

    `fault` says why its receipt is not recorded yet; it is then recorded when another checkpoint is saved later.
    """

    info: CheckpointInfo
    is_new: bool
    fault: LifebusError | None = None


class Checkpoints:
    """Saves and finds checkpoints.  A bus has one as `bus.checkpoints`.

    Each call names the `kind`, such as `lifebus.loa.checkpoint.LOA_CHECKPOINT`, and the project's directory as `root`.
    Checkpoints are kept in the user's state directory; the broker gets only the id, size and digest.
    """

    def __init__(self, bus: ReceiptBus, state_dir: Path | None = None) -> None:
        self._bus = bus
        self._state_dir = state_dir

    async def save(
        self,
        document: bytes | str | Mapping[str, Any],
        *,
        kind: CheckpointKind,
        root: Path | str = ".",
        session: tuple[str, str] | None = None,
    ) -> SavedCheckpoint:
        """Save a checkpoint and record its digest.  First the files that it names are checked.

        The receipt belongs to `session`, (adapter_id, session id); by default it belongs to no session.

        Raises:
            InvalidRequest: it breaks its schema, or a file is not as it says (`artifact_mismatch`).
            LifebusError: it cannot be stored.  It is no error if the broker cannot record it: see `SavedCheckpoint`.
        """

        def save_body() -> tuple[CheckpointInfo, bool]:
            with self._project(kind, root) as project:
                return project.save(document, session=session)

        info, is_new = await anyio.to_thread.run_sync(save_body)
        try:
            fault = (await self.record_waiting(kind=kind, root=root)).get(info.checkpoint_id)
        except LifebusError as unreached:
            fault = unreached
        return SavedCheckpoint(info=info, is_new=is_new, fault=fault)

    async def record_waiting(self, *, kind: CheckpointKind, root: Path | str = ".") -> dict[str, LifebusError]:
        """Record the digests of checkpoints that were saved while no broker ran.

        Returns, by id, why some could not be recorded; the next call tries them again.

        Raises:
            LifebusError: the store cannot be read, or no answer came.
        """

        def find() -> tuple[CheckpointStore, list[CheckpointInfo]]:
            with self._project(kind, root) as project:
                return project.store, [one for one in project.store.unrecorded() if one.kind == kind.payload_kind]

        store, waiting = await anyio.to_thread.run_sync(find)
        faults: dict[str, LifebusError] = {}
        manifests = {one.adapter_id: one for one in await self._bus.manifests()} if waiting else {}
        for start in range(0, len(waiting), _AT_ONCE):
            faults |= await self._record(kind, waiting[start : start + _AT_ONCE], manifests, store)
        return faults

    async def get(
        self, which: str, *, kind: CheckpointKind, root: Path | str = ".", run_id: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint with an id, or the newest of a name (and of a run), or None if there is none.

        `which` is the id or the name.

        Raises:
            LifebusError: `checkpoint_damaged`, or the store cannot be read.
        """

        def find() -> Checkpoint | None:
            with self._project(kind, root) as project:
                return project.get(which, run_id=run_id)

        return await anyio.to_thread.run_sync(find)

    async def list(
        self, *, kind: CheckpointKind, root: Path | str = ".", name: str | None = None, last: int | None = None
    ) -> "list[CheckpointInfo]":
        """Return what is known of each checkpoint that is not damaged, the oldest first.

        `name` selects those of one name, and `last` that many of the newest.

        Raises:
            LifebusError: the store cannot be read.
        """

        def find() -> list[CheckpointInfo]:
            with self._project(kind, root) as project:
                return project.list(name=name, last=last)[0]

        return await anyio.to_thread.run_sync(find)

    async def verify(
        self, checkpoint: Checkpoint, *, kind: CheckpointKind, root: Path | str = "."
    ) -> tuple[Difference, ...]:
        """Return the files of a checkpoint that have changed; if there are none, it is safe to continue from it.

        Raises:
            InvalidRequest: it is no checkpoint of this kind.
        """

        def compare() -> tuple[Difference, ...]:
            with self._project(kind, root) as project:
                return project.verify(checkpoint)

        return await anyio.to_thread.run_sync(compare)

    async def export(self, checkpoint: Checkpoint, *, kind: CheckpointKind, root: Path | str = ".") -> str:
        """Write a checkpoint into the project as its kind does; return the path, relative to the root.

        Raises:
            LifebusError: its name cannot be that of a file, or the file cannot be written.
        """

        def write() -> str:
            with self._project(kind, root) as project:
                return project.export(checkpoint)

        return await anyio.to_thread.run_sync(write)

    def _project(self, kind: CheckpointKind, root: Path | str) -> ProjectCheckpoints:
        return ProjectCheckpoints(kind, root, state_dir=self._state_dir)

    async def _record(
        self,
        kind: CheckpointKind,
        infos: Sequence[CheckpointInfo],
        manifests: Mapping[str, AdapterManifest],
        store: CheckpointStore,
    ) -> dict[str, LifebusError]:
        """Record a batch, and note what is on record; return why some are not."""
        faults: dict[str, LifebusError] = {
            one.checkpoint_id: _unknown(one) for one in infos if _adapter_of(one) not in manifests
        }
        known = [one for one in infos if one.checkpoint_id not in faults]
        if not known:
            return faults
        emissions = tuple(emission_of(one, kind.client_id, manifests[_adapter_of(one)]) for one in known)
        answer = await self._bus.record(Emit(client_id=kind.client_id, emissions=emissions))
        for info, result in zip(known, answer.results, strict=True):
            # What was recorded and is pruned since was on record.
            if result.refusal is None or result.refusal.code == "history_pruned":
                await anyio.to_thread.run_sync(store.mark_recorded, info.checkpoint_id)
            else:
                faults[info.checkpoint_id] = result.refusal.error()
        return faults


def _adapter_of(info: CheckpointInfo) -> str:
    return FLOW_ADAPTER if info.session is None else info.session[0]


def _unknown(info: CheckpointInfo) -> LifebusError:
    return AdapterUnavailable(f"the broker knows no adapter `{_adapter_of(info)[:64]}`", code="unknown_adapter")

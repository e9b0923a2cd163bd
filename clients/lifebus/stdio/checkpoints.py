"""The checkpoints of the project that `lifebus dev stdio` was started for (docs/checkpoints.md)."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio.to_thread
import msgspec

from lifebus.checkpoints.known_kinds import find_kind
from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.checkpoints.receipts import session_of_step
from lifebus.checkpoints.records import Checkpoint, CheckpointInfo
from lifebus.checkpoints.reporting import Checkpoints
from lifebus.stdio.bodies import CheckpointBody, ExportCheckpoint, FindCheckpoint, ListCheckpoints, SaveCheckpoint
from lifebus.stdio.lazy_bus import LazyBus
from lifebus.stdio.writer import LineWriter
from lifebus_contract import AdapterManifest, InvalidRequest, validate
from lifebus_transports.framing.json_lines import LineRequest, encode_local_answer
from lifebus_transports.messages.emissions import Emit, EmitAnswer


class RootCheckpoints:
    """Serves the verbs of checkpoints.  Without a root each is refused with `no_root`; a broker is not needed."""

    def __init__(self, root: Path | None, bus: LazyBus, lines: LineWriter) -> None:
        self._root = root
        self._checkpoints = Checkpoints(_LazyRecorder(bus))
        self._lines = lines

    def handlers(self) -> dict[str, Callable[[LineRequest], Awaitable[None]]]:
        """Return what serves each verb of checkpoints."""
        return {
            "checkpoint_save": self._save,
            "checkpoint_get": self._get,
            "checkpoint_list": self._list,
            "checkpoint_export": self._export,
        }

    async def _save(self, request: LineRequest) -> None:
        body = validate(request.body, SaveCheckpoint)
        session = body.session or session_of_step(os.environ)
        saved = await self._checkpoints.save(
            body.checkpoint, kind=find_kind(body.kind), root=self._project_root, session=session
        )
        why_not = None if saved.fault is None else saved.fault.detail
        await self._put(
            request, {"info": saved.info, "is_new": saved.is_new, "recorded": why_not is None, "why_not": why_not}
        )

    async def _get(self, request: LineRequest) -> None:
        body = validate(request.body, FindCheckpoint)
        with await self._opened(body) as project:
            found = await anyio.to_thread.run_sync(partial(project.get, body.which, run_id=body.run_id))
            answer: dict[str, object] = {"checkpoint": None, "info": None}
            if found is not None:
                # In one line; numbers and texts stay as they were written.
                answer = {"checkpoint": msgspec.json.format(found.body, indent=-1), "info": found.info}
            if body.verify:
                differences = await anyio.to_thread.run_sync(project.verify, found) if found is not None else ()
                answer["differences"] = differences
        await self._put(request, answer)

    async def _list(self, request: LineRequest) -> None:
        body = validate(request.body, ListCheckpoints)

        def find(project: ProjectCheckpoints) -> tuple[list[CheckpointInfo], list[str]]:
            return project.list(name=body.name, last=body.last)

        with await self._opened(body) as project:
            infos, damaged = await anyio.to_thread.run_sync(find, project)
        await self._put(request, {"checkpoints": infos, "damaged": damaged})

    async def _export(self, request: LineRequest) -> None:
        body = validate(request.body, ExportCheckpoint)

        def export(project: ProjectCheckpoints) -> str | None:
            found: Checkpoint | None = project.get(body.which)
            return None if found is None else project.export(found)

        with await self._opened(body) as project:
            await self._put(request, {"path": await anyio.to_thread.run_sync(export, project)})

    async def _opened(self, body: CheckpointBody) -> ProjectCheckpoints:
        return await anyio.to_thread.run_sync(ProjectCheckpoints, find_kind(body.kind), self._project_root)

    async def _put(self, request: LineRequest, answer: dict[str, object]) -> None:
        await self._lines.put(encode_local_answer(request.id, answer))

    @property
    def _project_root(self) -> Path:
        if self._root is None:
            detail = "no root was given; start it as `lifebus dev stdio --root DIRECTORY`"
            raise InvalidRequest(detail, code="no_root")
        return self._root


class _LazyRecorder:
    """The bus, as soon as a broker is there."""

    def __init__(self, bus: LazyBus) -> None:
        self._bus = bus

    async def record(self, body: Emit) -> EmitAnswer:
        """Record emissions; refused with `no_broker` where there is none."""
        return await (await self._bus.connected()).record(body)

    async def manifests(self) -> list[AdapterManifest]:
        """Return the broker's manifests; refused with `no_broker` where there is none."""
        return await (await self._bus.connected()).manifests()

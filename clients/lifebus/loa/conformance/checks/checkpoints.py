"""Checkpoints: kept as they were given, checked against their schema, found by id and by phase."""

from datetime import datetime
from typing import Any, Final, cast

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.process import is_refused
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import Fault, Persist, Persisted, Restore, Restored
from lifebus_contract.fields import Metadata

_WRITE: Final = CheckList(Level.REQUIRED, "Checkpoint write implemented")
_READ: Final = CheckList(Level.REQUIRED, "Checkpoint read implemented")
_SURVIVAL: Final = CheckList(Level.TESTING, "Checkpoint survives runtime restart")
_TIMES: Final = frozenset({"created_at", "timestamp"})
_WORDS: Final = 500


def checkpoint(scene: Scene, phase: str, **changes: Any) -> dict[str, Any]:
    """Return a checkpoint with every field of the schema; its artifact is there."""
    artifact = scene.project.root / "artifact.txt"
    artifact.write_text("hello\n")
    return {
        "version": 1,
        "execution_id": scene.new_name("execution"),
        "phase": phase,
        "created_at": "2026-02-03T04:05:06Z",
        "exit_code": 0,
        "duration_ms": 1_234,
        "summary": "Done, and “quoted” – with ünïcode.",
        "decisions": [{"description": "d", "reasoning": "because", "timestamp": "2026-02-03T04:05:05+00:00"}],
        "artifacts": [
            {
                "path": artifact.name,
                "size_bytes": 6,
                "checksum": "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
                "description": "a greeting",
            }
        ],
        "errors": [{"message": "m", "phase": phase, "recoverable": True}],
        **changes,
    }


async def persist(scene: Scene, document: dict[str, Any]) -> str:
    """Keep a checkpoint and return its id."""
    found = await scene.ask("persist", Persist(checkpoint=document), Persisted)
    if not found.checkpoint_id:
        raise CheckFailed("the checkpoint has no id")
    return found.checkpoint_id


def _same(given: Any, found: Any, name: str = "") -> bool:
    """Whether everything that was given is found; times are equal as times, and more fields may be there."""
    if isinstance(given, dict) and isinstance(found, dict):
        given, found = cast("Metadata", given), cast("Metadata", found)
        return all(key in found and _same(value, found[key], key) for key, value in given.items())
    if isinstance(given, list) and isinstance(found, list):
        given, found = cast("list[object]", given), cast("list[object]", found)
        return len(given) == len(found) and all(map(_same, given, found))
    if name in _TIMES and isinstance(given, str) and isinstance(found, str):
        return datetime.fromisoformat(given) == datetime.fromisoformat(found)
    return bool(given == found)


async def _finds(scene: Scene, wanted: Restore, given: dict[str, Any]) -> None:
    found = (await scene.ask("restore", wanted, Restored)).checkpoint
    if found is None:
        raise CheckFailed("the checkpoint is not found")
    if not _same(given, found):
        raise CheckFailed(f"what was restored is not what was kept: {found}"[:500])


async def _is_invalid(scene: Scene, document: dict[str, Any]) -> bool:
    return await is_refused(scene.do("persist", Persist(checkpoint=document)), Fault.INVALID)


@_WRITE.check("checkpoint.write")
async def _write(scene: Scene) -> str:
    await persist(scene, checkpoint(scene, "write"))
    await persist(scene, checkpoint(scene, "write", decisions=[], artifacts=[], errors=[], exit_code=2))
    return "a full checkpoint, and one with empty lists, were kept"


@_WRITE.check("checkpoint.schema", "checkpoint.write")
async def _schema(scene: Scene) -> str:
    wrong: list[dict[str, Any]] = [
        {"version": 2},
        {"exit_code": 3},
        {"duration_ms": "long"},
        {"created_at": "yesterday"},
        {"decisions": [{"description": "d"}]},
        {"errors": [{"message": "m", "phase": "p", "recoverable": "maybe"}]},
    ]
    for changes in wrong:
        if not await _is_invalid(scene, checkpoint(scene, "schema", **changes)):
            raise CheckFailed(f"a checkpoint with {changes} is not refused as `invalid`")
    whole = checkpoint(scene, "schema")
    for name in whole:
        if not await _is_invalid(scene, {key: value for key, value in whole.items() if key != name}):
            raise CheckFailed(f"a checkpoint without `{name}` is not refused as `invalid`")
    return f"{len(wrong) + len(whole)} checkpoints against the schema were refused"


@_WRITE.check("checkpoint.words", "checkpoint.write")
async def _words(scene: Scene) -> str:
    await persist(scene, checkpoint(scene, "words", summary=" ".join(["word"] * _WORDS)))
    if not await _is_invalid(scene, checkpoint(scene, "words", summary=" ".join(["word"] * (_WORDS + 1)))):
        raise CheckFailed(f"a summary of {_WORDS + 1} words is not refused as `invalid`")
    return f"a summary of {_WORDS} words was kept, one of {_WORDS + 1} refused"


@_READ.check("checkpoint.by_id", "checkpoint.write")
async def _by_id(scene: Scene) -> str:
    older, newer = checkpoint(scene, "by-id"), checkpoint(scene, "by-id", summary="another")
    first, second = await persist(scene, older), await persist(scene, newer)
    await _finds(scene, Restore(checkpoint_id=first), older)
    await _finds(scene, Restore(checkpoint_id=second), newer)
    return "two checkpoints of one phase were found by their ids, as they were given"


@_READ.check("checkpoint.by_phase", "checkpoint.write")
async def _by_phase(scene: Scene) -> str:
    await persist(scene, checkpoint(scene, "by-phase"))
    newest = checkpoint(scene, "by-phase", summary="the newest", created_at="2026-02-03T04:05:07Z")
    await persist(scene, newest)
    await persist(scene, checkpoint(scene, "another-phase", created_at="2026-02-03T04:05:08Z"))
    await _finds(scene, Restore(phase="by-phase"), newest)
    return "the newest checkpoint of the phase was found"


@_READ.check("checkpoint.absent")
async def _absent(scene: Scene) -> str:
    for wanted in (Restore(checkpoint_id="no-such-checkpoint"), Restore(phase="no-such-phase")):
        if (await scene.ask("restore", wanted, Restored)).checkpoint is not None:
            raise CheckFailed(f"{wanted} finds something")
    return "null for an id and a phase that have none"


@_SURVIVAL.check("checkpoint.survival", "checkpoint.by_id")
async def _survival(scene: Scene) -> str:
    kept = checkpoint(scene, "survival")
    name = await persist(scene, kept)
    await scene.crash()
    await _finds(scene, Restore(checkpoint_id=name), kept)
    return "killed right after its answer and started again, the runtime had the checkpoint"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_WRITE.checks, *_READ.checks, *_SURVIVAL.checks)

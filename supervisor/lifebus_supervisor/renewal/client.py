"""The configured client of a profile, asked in three steps: one JSON object on stdin, one on stdout.

A step that fails says how by its failure class, and in the evidence of the receipt; the token stands in neither.
"""

import json
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from lifebus_broker.ports import Evidence
from lifebus_contract import CallbackRequest, FailureClass, InvalidRequest, LifebusError
from lifebus_supervisor.renewal.answers import Prepared, read_prepared, read_recommendation, read_thread
from lifebus_supervisor.renewal.profile import TOKEN_ARGUMENT, RenewalSettings
from lifebus_supervisor.renewal.records import Continuation
from lifebus_transports.processes.outcomes import Failure, Finished, evidence_of, fault_of
from lifebus_transports.processes.spec import CommandSpec

_VARIABLE: Final = "LIFEBUS_RENEWAL_"
_PIECE: Final = 8
"""So many successive characters of a token count as the token."""


class CommandRunner(Protocol):
    """Someone who runs a command once (lifebus_transports.processes)."""

    def __call__(self, spec: CommandSpec, stdin: bytes, seconds: float, /) -> Awaitable[Finished]:
        """Return how the run ended, after so many seconds at the latest."""
        ...


class RenewalClient:
    """Asks the client of one profile; `run` runs its commands."""

    def __init__(self, settings: RenewalSettings, run: CommandRunner) -> None:
        self._settings = settings
        self._run = run

    async def recommend(self, request: CallbackRequest, evidence: Evidence) -> bool:
        """Return whether the client wants the session renewed.

        Raises:
            LifebusError: it cannot be asked, or its answer cannot be read.
        """
        settings = self._settings
        finished = await self._ask("recommend", settings.recommend, settings.recommend_ms, request, {}, evidence)
        evidence.update(evidence_of(finished))
        if _failed(finished):
            raise fault_of(finished)
        return read_recommendation(finished.stdout, settings.answers)

    async def prepare(self, intent: Continuation, request: CallbackRequest, path: str, evidence: Evidence) -> Prepared:
        """Return the token that the client yields; asked again with the same intent, it should yield the same one.

        Raises:
            LifebusError: `payload_rejected`: the step failed, or yielded no token.
        """
        settings = self._settings
        extra = {"prepare_id": intent.payload_id, "reset_path": path}
        finished = await self._ask("prepare", settings.prepare, settings.prepare_ms, request, extra, evidence)
        # stderr may show the token, which is not known before the answer is read
        evidence.update(_without_errors(finished))
        if _failed(finished):
            raise _rejected(fault_of(finished))
        try:
            return read_prepared(finished.stdout, settings.answers)
        except InvalidRequest as fault:
            raise _rejected(fault) from None

    async def consume(self, record: Continuation, request: CallbackRequest, evidence: Evidence) -> str | None:
        """Hand the token over and return the thread that the client reports, None where it reports none.

        Raises:
            LifebusError: `payload_rejected`: the step failed; whether the client has used the token is not known.
        """
        settings, token = self._settings, str(record.token)
        argv = settings.consume
        extra: dict[str, Any] = {
            "claim_id": record.claim_id,
            "payload_id": record.payload_id,
            "thread": record.thread,
            "attempt": record.handed_over,
        }
        as_argument = settings.hand_over == "argument"
        if as_argument:
            argv = (argv[0], *(part.replace(TOKEN_ARGUMENT, token) for part in argv[1:]))
        else:
            extra["token"] = token
        finished = await self._ask("consume", argv, settings.consume_ms, request, extra, evidence)
        evidence.update(evidence_of(finished) if _is_free_of(finished.stderr, token) else _without_errors(finished))
        if _failed(finished, must_read=not as_argument):
            raise _rejected(fault_of(finished))
        try:
            return read_thread(finished.stdout, settings.answers)
        except InvalidRequest as fault:
            raise _rejected(fault) from None

    async def _ask(  # noqa: PLR0917  what a step is made of
        self,
        step: str,
        argv: tuple[str, ...],
        milliseconds: int,
        request: CallbackRequest,
        extra: Mapping[str, Any],
        evidence: Evidence,
    ) -> Finished:
        evidence["step"] = step
        document = {"step": step, "profile": self._settings.profile, **_describe(request), **extra}
        setting = {f"{_VARIABLE}STEP": step}
        for name in ("prepare_id", "claim_id"):
            if name in extra:
                setting[f"{_VARIABLE}{name.upper()}"] = str(extra[name])
        spec = CommandSpec(
            argv=argv,
            passing=self._settings.environment,
            setting=setting,
            cwd=_directory(document["cwd"]) if self._settings.run_in == "session" else "/",
        )
        # through stdin, because arguments and variables of a process can be read by others
        return await self._run(spec, json.dumps(document).encode() + b"\n", milliseconds / 1000)


def _describe(request: CallbackRequest) -> dict[str, Any]:
    """Return what a client learns of the hook's request."""
    return {
        "adapter_id": request.adapter_id,
        "event": request.event.value,
        "event_id": request.event_id,
        "invocation_id": request.invocation_id,
        "session": request.harness_session_id,
        "frame": None if request.frame_context is None else request.frame_context.frame_id,
        "cwd": request.metadata.get("cwd"),
    }


def _directory(cwd: object) -> str:
    """Return the session's directory, if it is still there."""
    return cwd if isinstance(cwd, str) and Path(cwd).is_dir() else "/"


def _failed(finished: Finished, *, must_read: bool = False) -> bool:
    """Whether a step failed; one that needs nothing from stdin may leave it unread."""
    return finished.failure is not None and (finished.failure is not Failure.STDIN_IGNORED or must_read)


def _rejected(fault: LifebusError) -> LifebusError:
    return LifebusError(fault.detail, failure_class=FailureClass.PAYLOAD_REJECTED, code=fault.code)


def _without_errors(finished: Finished) -> Evidence:
    found = evidence_of(finished)
    if found.pop("stderr", None) is not None:
        found["stderr"] = "[left out: it may show the token]"
    return found


def _is_free_of(text: str, token: str) -> bool:
    """Whether a text shows nothing of a token, not even a piece of it."""
    if len(token) <= _PIECE:
        return token not in text
    # a client may print its token cut or wrapped, so any eight characters of it count
    pieces = {token[at : at + _PIECE] for at in range(len(token) - _PIECE + 1)}
    return not any(text[at : at + _PIECE] in pieces for at in range(len(text) - _PIECE + 1))

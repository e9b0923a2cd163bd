"""A third party's adapter program as an `Adapter`, and the conformance suite run on it (docs/adapter-protocol.md)."""

import base64
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from lifebus_adapters.adapter import ContextDelivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.conformance import CheckFinding, Example, Subject, examine
from lifebus_adapters.shared.telemetry import SourceSpec
from lifebus_contract import (
    AdapterManifest,
    ConformanceLevel,
    Emission,
    FailureClass,
    IdSource,
    InvalidRequest,
    RegisteredAdapter,
    error_for,
    validate,
)
from lifebus_contract.payload_text import render_payloads
from lifebus_transports.processes.json_lines import JsonLines, ProgramFault

T = TypeVar("T")
# A program must not keep the suite busy for ever.
_MAX_EXAMPLES: Final = 1_000


class _ReadAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to `read`."""

    hook: str
    session: str | None = None
    emissions: tuple[Emission, ...] = ()
    transcript: str | None = None


class _RenderAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to `render`."""

    stdout: str = ""
    exit_code: int = 0


class _Refusal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A refusal."""

    failure_class: FailureClass
    detail: str = ""
    code: str | None = None


class AdapterProgram:
    """An adapter that is asked over a pipe; `ProgramFault` is raised where the program breaks the protocol."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        manifest = self._ask(AdapterManifest, verb="manifest")
        self._registered = RegisteredAdapter(manifest=manifest, conformance=ConformanceLevel.PRE_CONFORMANCE)

    @property
    def registered(self) -> RegisteredAdapter:
        """Its manifest, asked for once."""
        return self._registered

    @property
    def sources(self) -> Sequence[SourceSpec]:
        """Nothing: telemetry is not read through a program."""
        return ()

    def examples(self) -> tuple[Example, ...]:
        """Return its example calls."""
        return self._ask(tuple[Example, ...], verb="examples")[:_MAX_EXAMPLES]

    def read(self, call: HookCall, ids: IdSource) -> HookReading:  # noqa: ARG002  the program makes ids from the call's
        """Return what the program reads from a call.

        Raises:
            LifebusError: it refuses the call.
        """
        found = self._ask(_ReadAnswer, verb="read", call=_plain(call))
        return HookReading(
            hook=found.hook, session=found.session, emissions=found.emissions, transcript=found.transcript
        )

    def session_of(self, call: HookCall) -> str | None:  # noqa: ARG002  the protocol does not ask
        """Return nothing: the protocol does not ask for it."""
        return None

    def render(self, call: HookCall, deliveries: Sequence[ContextDelivery]) -> HookAnswer:
        """Return the program's native answer to a call.

        Raises:
            LifebusError: it refuses.
        """
        context = render_payloads([delivery.payload for delivery in deliveries])
        answer = self._ask(
            _RenderAnswer, verb="render", call=_plain(call), deliveries=list(deliveries), context=context
        )
        return HookAnswer(stdout=answer.stdout.encode(), exit_code=answer.exit_code)

    def _ask(self, kind: type[T], **question: Any) -> T:
        answer = self._lines.ask(question)
        match answer:
            # Exactly one of the two, and nothing beside it: unknown members are the program's fault.
            case {"ok": content, **rest} if not rest:
                return _checked(content, kind, question["verb"])
            case {"refused": content, **rest} if not rest:
                refused = _checked(content, _Refusal, question["verb"])
                raise error_for(refused.failure_class, refused.detail[:1024], code=refused.code)
            case _:
                raise ProgramFault("its answer has neither `ok` nor `refused`, or more than that")


def examine_program(command: Sequence[str], deadline_s: float) -> list[CheckFinding]:
    """Run the suite on a program; what keeps it from being run at all is one finding."""
    lines = JsonLines(command, deadline_s)
    try:
        program = AdapterProgram(lines)
        findings = examine(Subject(adapter=program, examples=program.examples()))
        ended = lines.finish()
    except Exception as fault:  # noqa: BLE001  whatever a program does, there is a verdict
        return [CheckFinding(name="program.answers", ok=False, evidence=str(fault)[:300] or type(fault).__name__)]
    finally:
        lines.kill()
    # A program that does not end with its input would stay behind every broker.
    rule = "The program ends with exit code 0 when its input ends."
    evidence = rule if ended == 0 else f"when its input ends, it {_ending(ended)}"
    return [*findings, CheckFinding(name="program.ends", ok=ended == 0, evidence=evidence)]


def _ending(code: int | None) -> str:
    return "goes on" if code is None else f"ends with {code}"


def _plain(call: HookCall) -> dict[str, Any]:
    """Return a call as the protocol has it; stdin may be any bytes."""
    return {
        "call_id": call.call_id,
        "hook": call.hook,
        "cwd": call.cwd,
        "env": dict(call.env),
        "stdin_base64": base64.b64encode(call.stdin).decode(),
        "oversized": call.oversized,
        "spooled_at_epoch_s": call.spooled_at_epoch_s,
    }


def _checked(content: Any, kind: type[T], verb: str) -> T:
    """Return an answer's content; one against the contract is the program's fault, not a refusal of its own."""
    try:
        return validate(content, kind)
    except InvalidRequest as fault:
        raise ProgramFault(f"its answer to `{verb}` is against the contract: {fault.detail}") from None

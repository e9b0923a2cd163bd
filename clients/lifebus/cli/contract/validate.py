"""`lifebus contract validate` and `schema`: documents, and their schemas."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from lifebus.cli.arguments import parse_choice
from lifebus.cli.documents import DocumentPath, is_stdin, read_document, read_lines
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_json
from lifebus_contract import (
    KINDS,
    InvalidRequest,
    decode_json,
    schema_for,
)

_VALID: Final = {"valid": True}
_BEARERS: Final = frozenset({"payload", "dispatch", "response", "emission"})
"""The kinds that are a payload or carry some."""


def validate(kind: str, file: DocumentPath = None, /, *, jsonl: bool = False, json: bool = False) -> ExitCode:
    """Check a document against the contract; exit code 1 if it breaks it.

    Args:
        kind: request, response, payload, receipt, manifest, dispatch, pressure; `lifebus contract schema` lists all.
        file: The file; without one, or with `-`, stdin.
        jsonl: One document a line; one verdict a line.
        json: Verdicts in JSON, one a line.
    """
    check = _checker(parse_choice("KIND", kind, list(KINDS)))
    if not jsonl:
        verdict = check(read_document(file))
        _show(verdict, "" if is_stdin(file) else f"{file}: ", json=json)
        return ExitCode.OK if verdict["valid"] else ExitCode.NEGATIVE
    return _check_lines(read_lines(file), check, json=json)


def schema(kind: str | None = None, /) -> ExitCode:
    """Print the JSON Schema (2020-12) of a document, or list the kinds.

    Args:
        kind: Which document.
    """
    if kind is None:
        for name in KINDS:
            put(name)
    else:
        put_json(schema_for(parse_choice("KIND", kind, list(KINDS))))
    return ExitCode.OK


def _check_lines(lines: Iterable[bytes], check: Callable[[bytes], dict[str, Any]], *, json: bool) -> ExitCode:
    code = ExitCode.OK
    for number, line in enumerate(lines, 1):
        verdict = check(line)
        if not verdict["valid"]:
            code = ExitCode.NEGATIVE
        _show({"line": number, **verdict} if json else verdict, f"{number}: ", json=json)
    return code


def _checker(kind: str) -> Callable[[bytes], dict[str, Any]]:
    """Return the check of one kind: the contract's rules, and what its payloads say about their bodies."""

    def check(data: bytes) -> dict[str, Any]:
        try:
            document = decode_json(data, KINDS[kind])
            # Size and digest are claims about the body, which no schema can check.
            if kind in _BEARERS:
                from lifebus_admin.inspection import check_bodies  # noqa: PLC0415

                check_bodies(document)
        except InvalidRequest as fault:
            return {"valid": False, "field": fault.field, "code": fault.code, "rule": fault.detail}
        return _VALID

    return check


def _show(verdict: dict[str, Any], where: str, *, json: bool) -> None:
    if json:
        put_json(verdict, indent=0)
    elif verdict["valid"]:
        put(f"{clean(where)}{paint('valid', 'green')}")
    else:
        put(f"{clean(where)}{paint('invalid', 'red')}: {clean(verdict['rule'])}")

"""Flow files: read, checked as a whole, made into what is run."""

import re
import tomllib
from collections.abc import Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from lifebus.flows.checking import Fault, faults_in, phase_name
from lifebus.flows.compiling import compile_flow
from lifebus.flows.faults import FlowFault, FlowFileError
from lifebus.flows.plain_data import items_of, table_of
from lifebus.flows.rules import rule_faults
from lifebus.flows.tables import FlowTable
from lifebus.flows.toml_lines import KeyPath, find_lines
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_contract.flows import FlowDefinition

MAX_FILE_BYTES: Final = 1_048_576
_MAX_PROMPT_BYTES: Final = 262_144
_MAX_PROMPT: Final = 65_536
# Beside the flow a message has an envelope, whose keys take less than this
_ENVELOPE: Final = 4_096
_PLACE: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")


def read_flow(
    path: Path, *, client_id: str = "flow", root: Path | None = None, harnesses: Collection[str] | None = None
) -> FlowDefinition:
    """Return the flow of a file, complete and checked.

    `root` replaces the file's own root; `harnesses` are those that may be asked, None where that is not known.

    Raises:
        FlowFileError: the file has mistakes, all of which it names.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        raw = stream.read(MAX_FILE_BYTES + 1)
    return parse_flow(raw, path, client_id=client_id, root=root, harnesses=harnesses)


def parse_flow(
    raw: bytes,
    path: Path,
    *,
    client_id: str = "flow",
    root: Path | None = None,
    harnesses: Collection[str] | None = None,
) -> FlowDefinition:
    """Return the flow of a file's bytes; `path` is where it lies, or would lie.

    Raises:
        FlowFileError: it has mistakes, all of which it names.
    """
    data, lines = _parsed(raw, path)
    prompts: dict[int, str] = {}
    found = [
        *faults_in(data, FlowTable),
        *rule_faults(data, harnesses),
        *_read_prompts(data, path.parent, prompts),
    ]
    if found:
        raise FlowFileError(str(path), _placed(found, data, lines))
    try:
        table = msgspec.convert(data, FlowTable)
        flow = compile_flow(
            table,
            name=re.sub(r"[^A-Za-z0-9_.-]+", "-", path.stem).strip("-.") or "flow",
            client_id=client_id,
            root=str(_root(path, root, table.root)),
            prompts=prompts,
        )
    except (msgspec.ValidationError, ValueError) as fault:  # the tables and the wire types must agree
        raise FlowFileError(str(path), [FlowFault(text=str(fault))]) from fault
    return _sized(flow, path)


def _parsed(raw: bytes, path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    if len(raw) > MAX_FILE_BYTES:
        raise FlowFileError(str(path), [FlowFault(text=f"larger than {MAX_FILE_BYTES:,} bytes")])
    try:
        text = raw.decode().replace("\r\n", "\n")
        # Decimals keep what stands there: amounts of money are no binary fractions.
        return tomllib.loads(text, parse_float=Decimal), find_lines(text)
    except UnicodeDecodeError as fault:
        line = raw[: fault.start].count(b"\n") + 1
        raise FlowFileError(str(path), [FlowFault(line=line, text="not UTF-8")]) from None
    except (ValueError, ArithmeticError, RecursionError) as fault:
        place = _PLACE.search(str(fault))
        text = _PLACE.sub("", str(fault)) or "nested too deeply"
        what = FlowFault(line=int(place[1]) if place else None, text=f"not TOML: {text}")
        raise FlowFileError(str(path), [what]) from None


def _root(path: Path, given: Path | None, named: str) -> Path:
    """Return the root of a run: what was asked for, or what the file says, beginning where it lies."""
    return (path.parent / named if given is None else given).expanduser().resolve()


def _read_prompts(data: dict[str, Any], folder: Path, prompts: dict[int, str]) -> Iterator[Fault]:
    """Read the prompts that lie in files of their own; yield what is wrong with them."""
    for number, phase in enumerate(items_of(data.get("phases"))):
        name = table_of(phase).get("prompt_file")
        if not isinstance(name, str) or not name:
            continue
        path: KeyPath = ("phases", number, "prompt_file")
        try:
            with (folder / name).open("rb") as stream:
                text = stream.read(_MAX_PROMPT_BYTES + 1).decode()
        except UnicodeDecodeError:
            yield path, f"{folder / name} is not UTF-8", None
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else str(fault)
            yield path, f"{folder / name} cannot be read: {why}", "it is looked for beside the flow file"
        else:
            if not 0 < len(text) <= _MAX_PROMPT:
                yield path, f"{folder / name} has {len(text):,} characters; a prompt has 1 to {_MAX_PROMPT:,}", None
            prompts[number] = text


def _placed(found: list[Fault], data: dict[str, Any], lines: dict[KeyPath, int]) -> list[FlowFault]:
    """Return mistakes with their lines and the names of their phases, in the order of the lines, each once."""
    faults = {
        (path, text): FlowFault(line=_line_of(path, lines), key=_shown(path, data), text=text, suggestion=hint)
        for path, text, hint in found
    }
    return sorted(faults.values(), key=lambda one: one.line or 0)


def _line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int | None:
    """Return the line of a value, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _shown(path: KeyPath, data: dict[str, Any]) -> str:
    """Return the way to a value as people read it, with phases by their names."""
    parts: list[str] = []
    for place, part in enumerate(path):
        if isinstance(part, int):
            is_phase = path[:place] == ("phases",)
            parts.append(f".{phase_name(data.get('phases'), part)}" if is_phase else f"[{part}]")
        else:
            parts.append(f".{part[:64]}" if parts else part[:64])
    return "".join(parts)


def _sized(flow: FlowDefinition, path: Path) -> FlowDefinition:
    size = len(msgspec.msgpack.encode(flow))
    if size > MAX_MESSAGE_BYTES - _ENVELOPE:
        what = f"the flow takes {size:,} bytes, and {MAX_MESSAGE_BYTES - _ENVELOPE:,} are allowed"
        fault = FlowFault(text=what, suggestion="name files in prompts and commands instead of writing texts out")
        raise FlowFileError(str(path), [fault])
    return flow

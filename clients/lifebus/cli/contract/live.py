"""`lifebus contract conform --live`: a harness as it is installed here, run through every scenario, and judged."""

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json

if TYPE_CHECKING:
    from lifebus.live.programs.base import HarnessProgram, Installation
    from lifebus.live.runner import Cell

_WIDTH: Final = 30


def conform_live(
    names: Sequence[str], scenarios: Sequence[str], program: Path | None, keep: Path | None, *, json: bool
) -> ExitCode:
    """Run scenarios with a harness; exit code 1 where what was recorded is not what has to be.

    Raises:
        UsageError: there is no such harness or scenario, or its program was not found.
        TransportError: no broker could be started.
    """
    import anyio  # noqa: PLC0415

    from lifebus.live.programs import PROGRAMS  # noqa: PLC0415
    from lifebus.live.scenarios import SCENARIOS  # noqa: PLC0415

    if len(names) != 1 or names[0] not in PROGRAMS:
        raise UsageError(f"--live: name one harness: {', '.join(PROGRAMS)}")
    unknown = [name for name in scenarios if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"--scenario: `{clean(unknown[0])}` is none of {', '.join(SCENARIOS)}")
    harness = PROGRAMS[names[0]]
    with TemporaryDirectory(prefix="lifebus-live-") as compile_cache:
        installation = _installation(harness, program, Path(compile_cache))
        version = _version(installation.file, harness.adapter_id)
        run = partial(_run_all, harness, installation, scenarios or list(SCENARIOS), keep, quiet=json)
        cells: list[Cell] = anyio.run(run)
    if json:
        from lifebus.live.report import document  # noqa: PLC0415

        put_json({"harness": harness.adapter_id, "version": version, "cells": [document(cell) for cell in cells]})
    else:
        able = [cell for cell in cells if not cell.expected.cannot]
        kept, named = sum(cell.holds for cell in able), f"{harness.adapter_id} {version or 'of unknown version'}"
        put(f"{kept} of {len(able)} scenarios as expected with {named}")
    return ExitCode.OK if all(cell.holds for cell in cells) else ExitCode.NEGATIVE


def _installation(harness: "HarnessProgram", program: Path | None, compile_cache: Path) -> "Installation":
    from lifebus.live.programs.base import Installation  # noqa: PLC0415

    found = shutil.which(program or harness.adapter_id)
    if found is None:
        raise UsageError(f"`{program or harness.adapter_id}` was not found; name the program with --program")
    kit = Path("~/.config/opencode").expanduser()
    return Installation(
        Path(found).absolute(),
        tuple(filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))),
        kit if (kit / "node_modules/@opencode-ai/plugin").exists() else None,
        compile_cache,
    )


def _version(program: Path, adapter_id: str) -> str:
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415
    from lifebus_admin.harnesses.versions import installed_version, version_text  # noqa: PLC0415

    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    version = installed_version(ADAPTERS[adapter_id].assets, environment).version
    return version_text(version) if version else ""


async def _run_all(
    harness: "HarnessProgram", installation: "Installation", names: Sequence[str], keep: Path | None, *, quiet: bool
) -> "list[Cell]":
    from lifebus.live.expected import expectation  # noqa: PLC0415
    from lifebus.live.runner import Cell, run_scenario  # noqa: PLC0415
    from lifebus.live.scenarios import SCENARIOS  # noqa: PLC0415

    cells: list[Cell] = []
    for name in names:
        expected = expectation(name, harness.adapter_id)
        if expected.cannot:
            cells.append(Cell(harness.adapter_id, name, expected))
        else:
            cells.append(await run_scenario(harness, installation, SCENARIOS[name], expected, keep=keep))
        if not quiet:
            _show(cells[-1], SCENARIOS[name].title)
    return cells


def _show(cell: "Cell", title: str) -> None:
    from lifebus.live.report import described  # noqa: PLC0415

    if cell.expected.cannot:
        put(f"{paint('-   ', 'yellow')} {title.ljust(_WIDTH)} {cell.expected.cannot}")
    elif cell.holds:
        put(f"{paint('ok  ', 'green')} {title}")
    else:
        put(f"{paint('FAIL', 'red')} {title}")
        for line in described(cell):
            put(f"     {clean(line)}")

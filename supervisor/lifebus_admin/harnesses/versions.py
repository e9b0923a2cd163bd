"""Which version of a harness is on this machine, and which of our hooks it does not know."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from lifebus_adapters.shared.assets import HookEvent, InstallRequest
from lifebus_adapters.shared.harness_assets import HarnessAssets

_TIMEOUT_S: Final = 5.0
_VERSION: Final = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)")


class InstalledProgram(Struct, frozen=True, kw_only=True):
    """A harness's program, and its version; None where it is not found, or does not say."""

    program: str | None = None
    version: tuple[int, ...] | None = None


def installed_version(assets: HarnessAssets, environ: Mapping[str, str]) -> InstalledProgram:
    """Return the version of the harness that PATH leads to; it gets five seconds to say it."""
    program = shutil.which(assets.program, path=environ.get("PATH"))
    if program is None:
        return InstalledProgram()
    try:
        ran = subprocess.run(  # noqa: S603  the harness that the user has
            [program, *assets.version_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return InstalledProgram(program=program)
    found = _VERSION.search((ran.stdout + ran.stderr)[:4096].decode(errors="replace"))
    version = None if found is None else tuple(int(part) for part in found.groups())
    return InstalledProgram(program=program, version=version)


def unknown_events(
    assets: HarnessAssets, request: InstallRequest, version: tuple[int, ...] | None
) -> tuple[HookEvent, ...]:
    """Return the hooks of a request that came with a later version; none where the version is not known."""
    if version is None:
        return ()
    return tuple(event for event in assets.events if request.wants(event.name) and event.since > version)


def version_text(version: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(str(part) for part in version)

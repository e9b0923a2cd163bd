"""The service's file: planned, written and removed by the installer, which remembers what it made."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lifebus_adapters.shared.assets import InstallRequest, OwnedFile
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_admin.installer.installer import Report, apply, plan_install, plan_removal
from lifebus_admin.installer.plan import InstallPlan
from lifebus_contract import IntegrationMode
from lifebus_transports.directories import home_directory

# Stands where installations of hooks have their harness; no adapter has this id.
_ID: Final = "service"


def plan_service(
    path: Path, text: str, *, state_dir: Path, installs: bool, environ: Mapping[str, str] = os.environ
) -> InstallPlan:
    """Return what writing or removing the service's file would do; nothing is written.

    Raises:
        InstallRefused: the file is not ours to change, or was edited.
    """
    request = InstallRequest(
        mode=IntegrationMode.MANUAL_SKILL,  # nothing of it is a hook
        scope="user",
        surroundings=Surroundings(home=str(home_directory(environ)), environ=environ),
        launcher="",
    )
    plan = plan_install if installs else plan_removal
    return plan((OwnedFile(path=str(path), contents=text),), adapter_id=_ID, request=request, state_dir=state_dir)


def carry_out(plan: InstallPlan, *, state_dir: Path) -> Report:
    """Do what the plan says, with the file as it is now.

    Raises:
        InstallRefused: as `plan_service`.
    """
    return apply(plan, state_dir=state_dir, stamp=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))

"""The routes of what two commands of lifebus find on this machine: `lifebus doctor` and `lifebus hooks status`."""

from functools import partial
from typing import Literal

from msgspec import Raw, Struct

from lifebus_transports.http.operations.errors import ErrorBody
from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.http.ports import ReportMaker, ReportName


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """What the command prints with `--json`, as it prints it (docs/json)."""

    status: Literal["ok"] = OK
    data: Raw


OPERATIONS = (
    Operation(
        name="doctor",
        method="GET",
        path="/api/doctor",
        summary="Runs the checks of `lifebus doctor`.",
        tag="broker",
        answers={200: ReportAnswer, 504: ErrorBody},
    ),
    Operation(
        name="hooks",
        method="GET",
        path="/api/hooks",
        summary="Says which hooks are installed, where, and what is missing, as `lifebus hooks status` does.",
        tag="broker",
        answers={200: ReportAnswer, 504: ErrorBody},
    ),
)


def served(reports: ReportMaker) -> Served:
    """Return what serves each operation; `reports` runs the commands."""
    return {"doctor": partial(_report, reports, "doctor"), "hooks": partial(_report, reports, "hooks")}


async def _report(reports: ReportMaker, name: ReportName, _: RouteRequest) -> ReportAnswer:
    return ReportAnswer(data=Raw(await reports(name)))

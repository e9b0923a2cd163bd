"""`lifebus service`: the broker as a service of the user's own: at login, after a failure, and gone without a trace."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from cyclopts import App, Parameter

from lifebus.cli.confirm import confirm
from lifebus.cli.connection import present_settings
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_json, say

if TYPE_CHECKING:
    from lifebus_admin.installer.plan import InstallPlan
    from lifebus_admin.service.managers import ServiceControl
    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_transports.messages.status import BrokerStatus

_STOP_S: Final = 30.0
_START_S: Final = 60.0
_LINES: Final = 10
_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}
_NOT_INSTALLED: Final = "the service is not installed; `lifebus service install` does it"

app = App(name="service")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Whether to ask, and what to show."""

    dry_run: bool = False
    "Show what would be done, and do nothing."
    yes: Annotated[bool, Parameter(name=("--yes", "-y"))] = False
    "Do it without asking."
    json: bool = False
    "Answer in JSON."


DEFAULT: Final = ServiceOptions()
"""Show what would be done, and ask."""


@app.command
def install(*, env: tuple[str, ...] = (), options: ServiceOptions = DEFAULT) -> ExitCode:
    """Have systemd or launchd run the broker: from now on, at every login, and again after a failure.

    It first shows what it will write. If a broker runs, it is stopped, and that of the service takes its place.

    Args:
        env: A further variable of this shell that the broker and its programs need, e.g. ANTHROPIC_API_KEY.
        options: Whether to ask, and what to show.
    """
    from lifebus_admin.service.definition import define_service  # noqa: PLC0415
    from lifebus_admin.service.installation import plan_service  # noqa: PLC0415
    from lifebus_admin.service.managers import find_manager  # noqa: PLC0415
    from lifebus_admin.service.processes import COMMAND, holder_of, prepare_log  # noqa: PLC0415
    from lifebus_transports.directories import home_directory  # noqa: PLC0415

    settings, manager = present_settings(), find_manager()
    home = str(home_directory())
    definition = define_service(settings, os.environ, command=COMMAND, home=home, further=env)
    plan = plan_service(manager.path, manager.text(definition), state_dir=settings.state_dir, installs=True)
    held = holder_of(settings.runtime_dir)
    steps = [] if held is None else [f"stop the broker that runs now, {held.words}"]
    steps += [f"have {manager.name} start the broker now, at every login, and again after a failure"]
    if not _agreed(plan, steps, options):
        return _planned(plan, steps, options)
    # The log's directory first: a service manager that cannot open it starts nothing.
    prepare_log(settings)
    _write(plan, settings)
    _make_room(settings)
    manager.start()
    return _started(manager, settings, json=options.json)


@app.command
def status(*, json: bool = False) -> ExitCode:
    """Show whether the service is installed and runs, and the end of its log; exit code 1 if it does not run.

    Args:
        json: Answer in JSON.
    """
    from lifebus_admin.service.managers import find_manager  # noqa: PLC0415

    settings, manager = present_settings(), find_manager()
    found = _standing(manager, settings)
    if json:
        put_json(found)
    else:
        _show(found)
    return ExitCode.OK if found["state"] is not None and found["state"]["running"] else ExitCode.NEGATIVE


@app.command
def restart(*, json: bool = False) -> ExitCode:
    """Stop the broker in order and start the service again, e.g. after an upgrade; nothing is lost.

    Args:
        json: Answer in JSON.
    """
    from lifebus_admin.service.managers import find_manager  # noqa: PLC0415
    from lifebus_admin.service.processes import prepare_log  # noqa: PLC0415
    from lifebus_contract import LifebusError  # noqa: PLC0415

    settings, manager = present_settings(), find_manager()
    if not manager.path.exists():
        raise LifebusError(_NOT_INSTALLED, code="service_failed")
    prepare_log(settings)
    _make_room(settings)
    manager.restart()
    return _started(manager, settings, json=json)


@app.command
def remove(*, options: ServiceOptions = DEFAULT) -> ExitCode:
    """Stop the service and take it out again; ledger, settings and log stay.

    Args:
        options: Whether to ask, and what to show.
    """
    from lifebus_admin.service.definition import define_service  # noqa: PLC0415
    from lifebus_admin.service.installation import plan_service  # noqa: PLC0415
    from lifebus_admin.service.managers import find_manager  # noqa: PLC0415
    from lifebus_admin.service.processes import COMMAND, holder_of, stop_broker  # noqa: PLC0415
    from lifebus_transports.directories import home_directory  # noqa: PLC0415

    settings, manager = present_settings(), find_manager()
    definition = define_service(settings, os.environ, command=COMMAND, home=str(home_directory()))
    plan = plan_service(manager.path, manager.text(definition), state_dir=settings.state_dir, installs=False)
    if not manager.path.exists():
        if options.json:
            put_json(_plain(plan, [], done=False))
        else:
            say("the service is not installed: nothing to remove")
        return ExitCode.OK
    steps = [f"have {manager.name} stop the broker, and start it at no login any more"]
    if not _agreed(plan, steps, options):
        return _planned(plan, steps, options)
    held, pid = holder_of(settings.runtime_dir), manager.state().pid
    manager.stop()
    # launchd does not wait for the end of what it stops.  A broker that was started by hand stays.
    if held is not None and held.pid == pid:
        stop_broker(settings.runtime_dir, held, _STOP_S)
    _write(plan, settings)
    manager.forget()
    kept = [note for file in plan.files if file.action == "keep" for note in file.notes]
    if options.json:
        put_json(_plain(plan, steps, done=True))
    else:
        say("removed: the service is stopped, and nothing of it is started at login", color="green")
        for note in kept:
            say(f"  {manager.path}: {note}", color="yellow")
    return ExitCode.NEGATIVE if kept else ExitCode.OK


def _agreed(plan: "InstallPlan", steps: list[str], options: ServiceOptions) -> bool:
    """Show what is going to be done, and return whether it is to be done."""
    if not options.json:
        for file in plan.files:
            for line in file.diff.splitlines():
                put(paint(clean(line), _COLORS.get(line[:1], "")))
            for note in file.notes:
                put(f"{clean(file.path)}: {clean(note)}")
        for step in steps:
            put(f"{paint('then:', 'bold')} {clean(step)}")
    if options.dry_run:
        return False
    return options.yes or confirm(json=options.json, otherwise="--yes does it without asking, --dry-run only shows it")


def _planned(plan: "InstallPlan", steps: list[str], options: ServiceOptions) -> ExitCode:
    """End where nothing is to be done."""
    if options.json:
        put_json(_plain(plan, steps, done=False))
    elif not options.dry_run:
        say("nothing was changed")
    return ExitCode.OK if options.dry_run else ExitCode.NEGATIVE


def _plain(plan: "InstallPlan", steps: list[str], *, done: bool) -> dict[str, Any]:
    files = [{"path": one.path, "action": one.action, "diff": one.diff, "notes": one.notes} for one in plan.files]
    return {"files": files, "steps": steps, "done": done}


def _write(plan: "InstallPlan", settings: "Settings") -> None:
    from lifebus_admin.service.installation import carry_out  # noqa: PLC0415

    carry_out(plan, state_dir=settings.state_dir)


def _make_room(settings: "Settings") -> None:
    """Stop the broker that runs in these directories, whoever started it.

    Raises:
        LifebusError: it does not end (`already_running`).
    """
    from lifebus_admin.service.processes import holder_of, stop_broker  # noqa: PLC0415
    from lifebus_contract import LifebusError  # noqa: PLC0415

    held = holder_of(settings.runtime_dir)
    if held is not None and not stop_broker(settings.runtime_dir, held, _STOP_S):
        raise LifebusError(f"{held.words}, has not ended within {_STOP_S:g} s", code="already_running")


def _started(manager: "ServiceControl", settings: "Settings", *, json: bool) -> ExitCode:
    """Say of a service that was just started whether its broker answers."""
    answer = _broker(settings, wait_s=_START_S)
    found = _standing(manager, settings, answer)
    if json:
        put_json(found)
    elif answer is not None:
        say(f"the service runs: process {answer.pid}, version {answer.version}", color="green")
        say(f"  its log is {settings.usual_log_file}; `lifebus service status` shows how it is")
    else:
        say("lifebus: the service was started, and no broker answers", color="red")
        _show_log(found["log_end"], settings.usual_log_file)
    return ExitCode.OK if answer is not None else ExitCode.UNAVAILABLE


def _standing(manager: "ServiceControl", settings: "Settings", answer: "BrokerStatus | None" = None) -> dict[str, Any]:
    """Return how the service is, as plain data."""
    from lifebus_admin.service.processes import holder_of  # noqa: PLC0415
    from lifebus_supervisor.daemon.log_file import end_of_log  # noqa: PLC0415
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    installed = manager.path.exists()
    if answer is None and holder_of(settings.runtime_dir) is not None:
        answer = _broker(settings)
    log = settings.usual_log_file
    return {
        "manager": manager.name,
        "file": str(manager.path),
        "installed": installed,
        "state": msgspec.to_builtins(manager.state()) if installed else None,
        "broker": None if answer is None else {"pid": answer.pid, "version": answer.version},
        "installed_version": VERSION,
        "runtime_dir": str(settings.runtime_dir),
        "log": str(log),
        "log_end": end_of_log(log, lines=_LINES),
    }


def _broker(settings: "Settings", *, wait_s: float | None = None) -> "BrokerStatus | None":
    """Return the status of the broker that answers; with `wait_s` of one that comes within so many seconds."""
    import lifebus.blocking  # noqa: PLC0415
    from lifebus_contract import TransportError  # noqa: PLC0415

    wait = wait_s is not None
    try:
        with lifebus.blocking.connect(
            "lifebus-cli", runtime_dir=settings.runtime_dir, timeout=wait_s or 2.0, wait=wait
        ) as bus:
            return bus.status()
    except TransportError:
        return None


def _show(found: dict[str, Any]) -> None:
    """Print how the service is."""
    state, broker = found["state"], found["broker"]
    if state is None:
        say(_NOT_INSTALLED)
    else:
        color = "green" if state["running"] else "red"
        at_login = "starts at login" if state["at_login"] else "does not start at login"
        count = f", starts after a failure: {state['restarts']}" if state["restarts"] else ""
        put(f"{paint('service'.ljust(8), 'dim')} {paint(clean(state['words']), color)}, {at_login}{count}")
        put(f"{paint('file'.ljust(8), 'dim')} {clean(found['file'])}")
    if broker is None:
        put(f"{paint('broker'.ljust(8), 'dim')} none answers at {clean(found['runtime_dir'])}")
    else:
        by = ", not started by the service" if state is not None and state["pid"] not in {None, broker["pid"]} else ""
        put(f"{paint('broker'.ljust(8), 'dim')} process {broker['pid']}, version {clean(broker['version'])}{by}")
        if broker["version"] != found["installed_version"]:
            newer = f"installed is {found['installed_version']}; `lifebus service restart` has the broker run it"
            put(f"{''.ljust(8)} {paint(clean(newer), 'yellow')}")
    put(f"{paint('log'.ljust(8), 'dim')} {clean(found['log'])}")
    if broker is None:
        _show_log(found["log_end"], Path(found["log"]))


def _show_log(lines: list[str], log: Path) -> None:
    say(f"the end of {log}:" if lines else f"there is nothing in {log}")
    for line in lines:
        say(f"  {line}")

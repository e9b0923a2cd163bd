"""`lifebus doctor`: every check says what it found, and how to repair it."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

import lifebus
from lifebus.cli.admin.harness_checks import CheckResult
from lifebus.cli.admin.ledger_checks import check_backups, check_scrub
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put_fact, put_json
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_transports.messages.status import BrokerStatus

_SIGNS = {"ok": ("ok  ", "green"), "warn": ("note", "yellow"), "bad": ("BAD ", "red")}


def doctor(
    *, json: bool = False, config: Annotated[Path | None, Parameter(env_var="LIFEBUS_CONFIG")] = None
) -> ExitCode:
    """Check libraries, settings, directories, hook, broker, ledger, stream and harnesses; exit code 1 if one is bad.

    Args:
        json: Answer in JSON.
        config: The configuration file.
    """
    results = run_checks(config)
    if json:
        put_json(results)
    else:
        for result in results:
            _show_result(result)
    return ExitCode.NEGATIVE if any(one.state == "bad" for one in results) else ExitCode.OK


def _show_result(result: CheckResult) -> None:
    sign, color = _SIGNS[result.state]
    put_fact(f"{paint(sign, color)} {result.check.ljust(12)}", clean(result.evidence), 17)
    if result.fix:
        put_fact(" " * 17, f"{paint('fix:', 'bold')} {clean(result.fix)}", 17)


_MIN_FREE_BYTES: Final = 256 * 1024 * 1024
_SOCKETS: Final = ("hook.sock", "requests.ipc", "receipts.ipc")
_MEND_LEDGER: Final = "`lifebus ledger verify` names the faults; `lifebus ledger restore` puts a backup in its place"
_HOOK_LIMIT_S: Final = 0.3


def run_checks(config: Path | None) -> list[CheckResult]:
    """Return the results of all checks that can be made; without valid settings few can."""
    results = [_guarded("libraries", _libraries)]
    try:
        from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

        # Every other check needs the settings; without them the libraries are all that can be examined.
        settings, _ = load(config_path=config)
    except LifebusError as fault:
        fix = "correct that; `lifebus config check` says when all is right"
        return [*results, CheckResult(check="settings", state="bad", evidence=fault.detail, fix=fix)]
    checks: dict[str, Callable[[Settings], CheckResult]] = {
        "settings": _settings,
        "state": _state_directory,
        "runtime": _runtime_directory,
        "hook": _hook,
        "spool": _spool,
        "broker": _broker,
        "stream": _stream,
        "ledger": _ledger,
        "scrub": check_scrub,
        "backup": lambda settings: check_backups(settings, _status(settings)),
    }
    # One after the other: a check that fails never hides the ones after it.
    results += [_guarded(name, partial(check, settings)) for name, check in checks.items()]
    return [*results, *_harnesses(settings)]


def _harnesses(settings: "Settings") -> list[CheckResult]:
    """Return what is known of each harness; whatever stops that is one result."""
    from lifebus.cli.admin.harness_checks import check_harnesses  # noqa: PLC0415

    try:
        return list(check_harnesses(_status(settings)))
    except LifebusError as fault:
        return [CheckResult(check="hooks", state="bad", evidence=fault.detail)]
    except OSError as fault:
        return [
            CheckResult(check="hooks", state="bad", evidence=f"{fault.filename or 'hooks'}: {fault.strerror or fault}")
        ]


def _guarded(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    """Run a check; whatever stops it is its result."""
    try:
        return check()
    except LifebusError as fault:
        return CheckResult(check=name, state="bad", evidence=fault.detail)
    except OSError as fault:
        return CheckResult(check=name, state="bad", evidence=f"{fault.filename or name}: {fault.strerror or fault}")


def _libraries() -> CheckResult:
    import zmq  # noqa: PLC0415

    from lifebus_admin.inspection import check_libraries  # noqa: PLC0415
    from lifebus_supervisor.version import dependency_versions  # noqa: PLC0415

    python = ".".join(str(part) for part in sys.version_info[:3])
    evidence = f"Python {python}, SQLite {check_libraries()}, ZeroMQ {zmq.zmq_version()}"
    if dependencies := dependency_versions():
        evidence += "; " + ", ".join(f"{name} {version}" for name, version in dependencies.items())
    if not zmq.has("ipc"):
        return CheckResult(
            check="libraries", state="bad", evidence=evidence, fix="install a pyzmq that has ipc sockets"
        )
    return CheckResult(check="libraries", state="ok", evidence=evidence)


def _settings(settings: "Settings") -> CheckResult:
    from lifebus_supervisor.configuration.adapters import configured_adapters  # noqa: PLC0415

    count = len(configured_adapters(settings).all())
    evidence = f"valid; ledger {settings.ledger.backend}, {count} adapters"
    return CheckResult(check="settings", state="ok", evidence=evidence)


def _state_directory(settings: "Settings") -> CheckResult:
    from lifebus_admin.inspection import short_of_room  # noqa: PLC0415
    from lifebus_transports.ownership import check_parents  # noqa: PLC0415
    from lifebus_transports.runtime_dir import open_private_directory  # noqa: PLC0415

    path = settings.state_dir
    # Before it is opened: also what will be made, and `exists` raises where a parent lets nobody look.
    check_parents(path)
    if not path.exists():
        return CheckResult(check="state", state="ok", evidence=f"{path} will be made at the first start")
    free = shutil.disk_usage(path).free
    evidence = f"{path}, {free // 1024**2} MiB free"
    if not os.access(path, os.W_OK | os.X_OK):
        return CheckResult(check="state", state="bad", evidence=f"{path} cannot be written", fix=f"chmod u+rwx {path}")
    # Opening applies the broker's own checks of owner and mode.
    os.close(open_private_directory(path))
    if lack := short_of_room(settings):
        fix = "make room: nothing is recorded, and hook calls are lost; the broker goes on by itself"
        return CheckResult(check="state", state="bad", evidence=lack, fix=fix)
    if free < _MIN_FREE_BYTES:
        return CheckResult(
            check="state", state="warn", evidence=evidence, fix="make room: a full disk refuses receipts"
        )
    return CheckResult(check="state", state="ok", evidence=evidence)


def _runtime_directory(settings: "Settings") -> CheckResult:
    from lifebus_transports.ownership import check_parents  # noqa: PLC0415
    from lifebus_transports.runtime_dir import check_socket_path, open_private_directory  # noqa: PLC0415

    path = settings.runtime_dir
    for name in _SOCKETS:
        check_socket_path(path / name)
    # Before it is opened: also what will be made, and `exists` raises where a parent lets nobody look.
    check_parents(path)
    if not path.exists():
        return CheckResult(check="runtime", state="ok", evidence=f"{path} will be made at the first start")
    # Opening applies the broker's own checks of owner and mode.
    os.close(open_private_directory(path))
    return CheckResult(check="runtime", state="ok", evidence=f"{path} is ours alone")


def _hook(settings: "Settings") -> CheckResult:
    """Run the hook as a harness would, with an adapter that does not exist and a directory without a broker."""
    script = Path(lifebus.__file__).with_name("hook.py")
    # No broker and no spool gets this call: a check must leave nothing behind.
    nowhere = str(settings.state_dir / "no-such-directory")
    started = time.monotonic()
    ran = subprocess.run(  # noqa: S603  our own interpreter and our own file
        [sys.executable, "-I", "-S", str(script)],
        input=b"",
        capture_output=True,
        timeout=10,
        check=False,
        env={"LIFEBUS_RUNTIME_DIR": nowhere, "LIFEBUS_STATE_DIR": nowhere, "HOME": nowhere},
    )
    took = time.monotonic() - started
    evidence = f"{script} runs in {took * 1000:.0f} ms"
    if ran.returncode != 0 or ran.stdout:
        fix = "reinstall lifebus"
        return CheckResult(check="hook", state="bad", evidence=f"{script} exits {ran.returncode}", fix=fix)
    # A warning only: the hook keeps its own deadline, and a busy machine is no defect.
    slow = took > _HOOK_LIMIT_S
    fix = "the machine is busy, or its disk slow; harnesses wait for hooks" if slow else ""
    return CheckResult(check="hook", state="warn" if slow else "ok", evidence=evidence, fix=fix)


def _spool(settings: "Settings") -> CheckResult:
    folder = settings.state_dir / "spool"
    waiting = sum(_size(folder / name) for name in ("calls", "calls.claimed"))
    # Counts that were not recorded yet: for want of room, or of a broker.
    lost = sum(_size(path) for path in folder.glob("*") if path.name.startswith(("dropped", "claimed")))
    if lost:
        evidence = f"{lost} hook calls are lost: neither a broker took them nor was there room in the spool"
        fix = "make room on the disk and keep a broker running; it then records how many (receipt.gap_detected)"
        return CheckResult(check="spool", state="bad", evidence=evidence, fix=fix)
    if waiting:
        evidence = f"{waiting} bytes of calls wait for a broker"
        return CheckResult(check="spool", state="warn", evidence=evidence, fix="the next `lifebus up` takes them in")
    return CheckResult(check="spool", state="ok", evidence="empty")


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    # Anything else under that name is a problem that another check reports.
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _broker(settings: "Settings") -> CheckResult:
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    found = _status(settings)
    if found is None:
        return _no_answer(settings.runtime_dir)
    evidence = f"process {found.pid}, version {found.version}, up {found.uptime_s} s, {found.clients} clients"
    # An update replaces the files and not the running process.
    if found.version != VERSION:
        from lifebus_admin.service.managers import restart_advice  # noqa: PLC0415

        fix = f"restart it: {restart_advice()}; what comes meanwhile waits in the spool, nothing is lost"
        return CheckResult(check="broker", state="warn", evidence=f"{evidence}; installed is {VERSION}", fix=fix)
    if found.counters.get("keeper_broken"):
        evidence = "an old part of the ledger does not hold together"
        return CheckResult(check="broker", state="bad", evidence=evidence, fix=_MEND_LEDGER)
    return CheckResult(check="broker", state="ok", evidence=evidence)


def _no_answer(runtime_dir: Path) -> CheckResult:
    from lifebus_transports.runtime_dir import lock_holder  # noqa: PLC0415

    evidence = f"none answers at {runtime_dir}"
    holder = lock_holder(runtime_dir / "lock")
    if holder is None:
        return CheckResult(check="broker", state="bad", evidence=evidence, fix="start it: lifebus up")
    fix = "it may be busy or stopped; if it stays so, end that process, then start it again: lifebus up"
    return CheckResult(check="broker", state="bad", evidence=f"{evidence}, though {holder}, has it", fix=fix)


def _stream(settings: "Settings") -> CheckResult:
    """Join the receipt stream and read up to the newest receipt, as a subscriber does."""
    if _status(settings) is None:
        return CheckResult(check="stream", state="warn", evidence="not checked: no broker answers")
    from lifebus.cli.arguments import ConnectionOptions  # noqa: PLC0415
    from lifebus.cli.connection import on_bus  # noqa: PLC0415

    async def join(bus: "Bus") -> None:
        async for _ in bus.receipts(until_head=True, gaps="yield"):
            pass

    # Joining proves the publishing socket too; `status` proves only the request socket.
    on_bus(ConnectionOptions(runtime_dir=settings.runtime_dir), join)
    return CheckResult(check="stream", state="ok", evidence="subscribed, marker seen")


def _ledger(settings: "Settings") -> CheckResult:
    path = settings.ledger_location.file
    if path is None:
        fix = 'set ledger.backend to "sqlite" to keep receipts'
        return CheckResult(check="ledger", state="warn", evidence="in memory: nothing is kept", fix=fix)
    from lifebus_supervisor.configuration.ledger_files import check_ledger_files  # noqa: PLC0415

    check_ledger_files(settings)
    if not path.exists():
        return CheckResult(check="ledger", state="ok", evidence=f"{path} will be made at the first start")
    # what a running broker came upon lies mostly further back than what is verified here
    running = _status(settings)
    if running is not None and running.ledger.damaged:
        evidence = f"{path}: {running.ledger.damaged[0]}"
        return CheckResult(check="ledger", state="bad", evidence=evidence, fix=_MEND_LEDGER)
    from lifebus_admin.inspection import verify_file  # noqa: PLC0415

    head, faults = verify_file(path, tail=1_000)
    if faults:
        fix = "keep a copy of the file, then `lifebus ledger verify` lists every fault"
        return CheckResult(check="ledger", state="bad", evidence=f"{path}: {faults[0]}", fix=fix)
    return CheckResult(check="ledger", state="ok", evidence=f"{path}, {head} receipts, the newest 1,000 verified")


def _status(settings: "Settings") -> "BrokerStatus | None":
    from lifebus.cli.arguments import ConnectionOptions  # noqa: PLC0415
    from lifebus.cli.connection import on_bus  # noqa: PLC0415
    from lifebus_contract import TransportError  # noqa: PLC0415

    try:
        return on_bus(ConnectionOptions(runtime_dir=settings.runtime_dir, timeout="2s"), lambda bus: bus.status())
    except TransportError:
        return None

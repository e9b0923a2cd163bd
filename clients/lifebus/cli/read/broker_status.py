"""How the broker, its sessions and the harnesses are, printed: the answer of `lifebus status`."""

from lifebus.cli.terminal import clean, paint, put, put_fact, size_text, time_text
from lifebus.cli.wording.durations import duration_text
from lifebus.cli.wording.harness_line import harness_text
from lifebus.cli.wording.plain_json import json_text
from lifebus.cli.wording.receipt_line import called
from lifebus.cli.wording.waiting import since_text, waiting_text

TYPE_CHECKING = False  # `lifebus status` prints it before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Final

    Plain = Mapping[str, Any]

_SESSIONS: "Final" = 8
"""Most open sessions that are named."""

_CAPABILITIES: "Final" = {
    "durable": "sequences",
    "snapshots": "snapshots",
    "retention": "retention by the settings",
    "local_file": "file for commands",
}
"""What a user misses of a ledger that lacks something, by the name in the broker's status."""


def show_status(found: "Plain", open_now: "Sequence[Plain]", hooks: "Sequence[Plain]", *, json: bool) -> bool:
    """Print how the broker, its open sessions and the installed hooks are; return whether it takes writes.

    `found`, `open_now` and `hooks` are the plain values of `BrokerStatus`, `SessionHead` and `CheckResult`.
    """
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    healthy: bool = found["ledger"]["writable"]
    if json:
        further = {"installed_version": VERSION, "hooks": hooks, "open_sessions": open_now}
        put(json_text({**found, **further}, indent=2))
        return healthy
    for name, fact in (*_broker_facts(found, VERSION), *_ledger_facts(found)):
        put_fact(paint(name.ljust(9), "dim"), fact, 9)
    for harness in found["harnesses"]:
        put_fact(paint(clean(harness["adapter_id"]).ljust(9), "bold"), clean(harness_text(harness)), 9)
    if open_now:
        put_fact(paint("sessions".ljust(9), "dim"), clean(_sessions_text(open_now)), 9)
    for waiting in found["waiting"]:
        put_fact(paint("waiting".ljust(9), "yellow"), _waiting_session_text(waiting, open_now), 9)
    for one in hooks:
        evidence = paint(clean(one["evidence"]), "" if one["state"] == "ok" else "yellow")
        put_fact(paint("hooks".ljust(9), "dim"), evidence, 9)
    return healthy


def _broker_facts(found: "Plain", installed: str) -> "Iterator[tuple[str, str]]":
    """Yield what there is to say of the process."""
    healthy = found["ledger"]["writable"]
    state = paint("running", "green") if healthy else paint("running, but the ledger takes no writes", "red")
    up = duration_text(found["uptime_s"])
    yield "broker", f"{state}, version {found['version']}, process {found['pid']}, up {up}"
    if found["version"] != installed:
        yield "upgrade", paint(clean(_upgrade_text(installed)), "yellow")
    yield "contract", found["contract_version"]
    yield "runtime", clean(found["runtime_dir"])


def _ledger_facts(found: "Plain") -> "Iterator[tuple[str, str]]":
    """Yield what there is to say of the ledger, of what is kept of it, and of requests."""
    ledger = found["ledger"]
    head, floor = ledger["head"], ledger["floor"]
    yield "ledger", f"{ledger['backend']} ({clean(ledger['library'])}), durability {ledger['durability']}"
    if ledger.get("lacks"):
        yield "lacking", _lacking_text(ledger["lacks"])
    yield "size", f"{head - floor} receipts, {size_text(ledger['size_bytes'])}, {ledger['queued']} queued"
    yield "positions", f"{floor + 1} to {head}" if head > floor else "none yet"
    if found["retention"] is not None:
        yield "kept", _retention_text(found["retention"])
    if ledger.get("damaged"):
        yield "damaged", paint(clean(_damage_text(ledger["damaged"])), "red")
    if found["scrub"] is not None:
        yield "scrub", _scrub_text(found["scrub"])
    if found["backup"] is not None:
        yield "backup", _backup_text(found["backup"])
    yield "epoch", ledger["epoch"]
    yield "clients", str(found["clients"])
    counters = ", ".join(f"{clean(name)} {count}" for name, count in found["counters"].items() if count)
    yield "counters", counters or "all zero"


def _sessions_text(heads: "Sequence[Plain]") -> str:
    """Return the newest of the open sessions by name."""
    shown = ", ".join(f"{_name(head)} ({head['adapter_id']})" for head in heads[-_SESSIONS:])
    return f"{shown} and {len(heads) - _SESSIONS} more" if len(heads) > _SESSIONS else shown


def _upgrade_text(installed: str) -> str:
    """Return what to do where the running broker is of another version than what is installed."""
    from lifebus_admin.service.managers import restart_advice  # noqa: PLC0415

    return f"installed is {installed}, which the broker runs after a restart: {restart_advice()}"


def _name(head: "Plain") -> str:
    return called(head["name"], head["adapter_id"], head["harness_session_id"])


def _waiting_session_text(one: "Plain", heads: "Sequence[Plain]") -> str:
    """Return which session waits, by its short name where it has one, for what, and since when."""
    key = (one["adapter_id"], one["harness_session_id"])
    names = {(head["adapter_id"], head["harness_session_id"]): head["name"] for head in heads if head["name"]}
    session = f"{names[key]} ({key[0]})" if key in names else "/".join(key)
    return clean(f"{session}: {waiting_text(one['waiting'])}, since {since_text(one['waiting'][0])}")


def _lacking_text(lacks: "Sequence[str]") -> str:
    """Return what this ledger cannot do, in words."""
    return ", ".join(f"no {_CAPABILITIES.get(name, clean(name))}" for name in lacks)


def _damage_text(damaged: "Sequence[str]") -> str:
    """Return which receipts were found to be damaged; `lifebus ledger verify` lists all of them."""
    first, *others = damaged
    return f"{first} (and {len(others)} more)" if others else first


def _retention_text(retention: "Plain") -> str:
    """Return how much is kept, and what was dropped last, in one line."""
    days, megabytes, last = retention["keep_days"], retention["keep_mb"], retention["last"]
    parts = [f"{days} d" if days else "any age", size_text(megabytes * 1_048_576) if megabytes else "any size"]
    if last is not None:
        count, until = last["until"] - last["after"], last["until"]
        parts.append(f"{count} receipts dropped last, up to {until}, by {last['reason']}")
        parts += [f"not settled by {', '.join(last['consumers'])}"] if last["consumers"] else []
    return clean("; ".join(parts))


def _scrub_text(scrub: "Plain") -> str:
    """Return how far the check at idle is, and what it found, in one line."""
    parts = [] if scrub["part"] is None else [f"checking {scrub['part']}, up to position {scrub['position']}"]
    if scrub["ended_epoch_s"] is not None:
        parts.append(f"the last one ended {_moment(scrub['ended_epoch_s'])}")
    found = f"found: {'; '.join(scrub['faults'])}" if scrub["faults"] else "nothing is wrong so far"
    return clean("; ".join([*parts, found]))


def _backup_text(backup: "Plain") -> str:
    """Return what the newest backup is, and why the last attempt failed, in one line."""
    last, failure = backup["last_epoch_s"], backup["failed_epoch_s"]
    made = "none yet" if last is None else f"{backup['file']}, {_moment(last)}"
    failed = f"; failed {_moment(failure)}: {backup['fault']}" if failure else ""
    return clean(f"{made}, every {backup['every_h']} h into {backup['folder']}, {backup['keep']} kept{failed}")


def _moment(epoch_s: int) -> str:
    return time_text(epoch_s * 1_000)

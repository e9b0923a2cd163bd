"""The tables of docs/reliability.md: boot, snapshots, slow disks, retention."""

from collections.abc import Callable

from bench.measures.storage import appends, boot, fsync, retention, snapshots
from bench.report import Aim, Run, print_table


def _boot(run: Run) -> list[Aim]:
    boots = boot.collect(run.receipts or (10_000 if run.quick else 1_000_000), 1 if run.quick else 3, run.say)
    rows = [
        (
            f"{receipts:,}",
            f"{1e3 * one.cached_s:.0f}",
            f"{1e3 * one.bare_s:.0f}",
            "–" if one.rebuilt_s is None else f"{one.rebuilt_s:.1f}",
        )
        for receipts, one in boots.items()
    ]
    title = "First acknowledgement after kill -9, from the start of the process"
    print_table(run.console, title, ("receipts", "with caches, ms", "caches deleted, ms", "full rebuild, s"), rows)
    return boot.aims(boots)


def _fsync(run: Run) -> list[Aim]:
    speeds = fsync.collect(1.0 if run.quick else 4.0, 1 if run.quick else 3, run.say)
    rows = [
        (
            f"{milliseconds} ms, {in_flight} in flight",
            f"{one.per_second:,.0f}",
            f"{one.median_ms:.1f}",
            f"{one.slowest_ms:.1f}",
            f"{one.server_us:.0f}",
        )
        for (milliseconds, in_flight), one in speeds.items()
    ]
    title = "Acknowledged receipts a second by the time of an fsync, one request a message"
    print_table(run.console, title, ("", "/s", "p50 ms", "p99 ms", "µs CPU of the server"), rows)
    return fsync.aims(speeds)


def _snapshots(run: Run) -> list[Aim]:
    ledgers = snapshots.SMALL if run.quick else snapshots.LARGE
    rows = [
        (
            f"{each.lower()}: {receipts:,} receipts, {sessions:,} sessions",
            f"{one.size:,}",
            f"{1e3 * one.live_s:.0f}" if one.live_s else "–",
            f"{one.command_s:.2f}",
        )
        for (receipts, sessions), costs in snapshots.collect(ledgers, run.say).items()
        for each, one in costs.items()
    ]
    print_table(run.console, "Snapshots", ("", "bytes", "by the broker, ms", "by a command, s"), rows)
    before, meanwhile, taken = snapshots.beside(10_000 if run.quick else 100_000, run.say)
    title = f"Appends beside saves, {appends.IN_FLIGHT} in flight"
    rows = [_waits("before", before), _waits(f"beside {taken} saves in {meanwhile.seconds:.0f} s", meanwhile)]
    print_table(run.console, title, ("", "/s", "p50 ms", "p99 ms"), rows)
    return [appends.aim("saves are taken one after the other", before, meanwhile)]


def _retention(run: Run) -> list[Aim]:
    found = retention.collect(run.receipts or (40_000 if run.quick else 400_000), run.say)
    rows = [
        (*_waits("before", found.before), f"{found.full_mb:.0f}"),
        (*_waits(f"while {found.meanwhile.seconds:.0f} s of dropping", found.meanwhile), f"{found.left_mb:.0f}"),
    ]
    title = f"Appends beside retention, {appends.IN_FLIGHT} in flight; limit {found.limit_mb} MiB"
    print_table(run.console, title, ("", "/s", "p50 ms", "p99 ms", "MiB on disk, then"), rows)
    return retention.aims(found)


def _waits(name: str, waits: appends.Waits) -> tuple[str, str, str, str]:
    return name, f"{waits.per_second:,.0f}", f"{waits.median_ms:.1f}", f"{waits.slowest_ms:.1f}"


PARTS: dict[str, Callable[[Run], list[Aim]]] = {
    "boot": _boot,
    "saves": _snapshots,
    "fsync": _fsync,
    "retention": _retention,
}
"""Parts of `make bench`: each measures, prints its table, and returns its aims."""

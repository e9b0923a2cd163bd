"""`make bench`: lifebus beside Redis Streams and NATS JetStream, then alone.  It prints and never asserts."""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable

from rich.console import Console

from bench.lifebus_client import Lifebus, broker
from bench.measures import (
    client_calls,
    consumers,
    dashboard,
    end_to_end,
    extensions,
    flows,
    gateway,
    overload,
    queue,
    signals,
    throughput,
)
from bench.measures.harnesses import commands, harness_time, hook, hook_choices, proxy
from bench.measures.storage import durability, growth, sessions
from bench.measures.throughput import Figure, Results, Sizes
from bench.peers.process import workspace
from bench.report import Aim, Run, print_aims, print_table
from bench.signal_peers import BATCH, some_signal
from bench.workload import RECEIPT_BYTES, SESSIONS, items

_FSYNCS = 300


def main() -> None:
    """Run the parts that were asked for and print their figures, then every aim."""
    asked = _arguments()
    notes = Console(stderr=True)
    run = Run(console=Console(width=140), say=notes.print, quick=asked.quick, receipts=asked.receipts)
    _print_machine(run.console, _sizes(quick=run.quick))
    aims = [aim for part in PARTS if part in asked.parts for aim in PARTS[part](run)]
    print_aims(run.console, aims)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure lifebus beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these parts: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: a smoke test in two minutes")
    # A million receipts take minutes to fill: a smaller ledger is enough to see a trend.
    parser.add_argument("--receipts", type=int, help="the largest ledger of a part that needs a large one")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    asked.parts = asked.parts or list(PARTS)
    return asked


def _sizes(*, quick: bool) -> Sizes:
    if quick:
        return Sizes(receipts=5_000, closed_loop=500, rounds=1)
    return Sizes(receipts=50_000, closed_loop=3_000, rounds=3)


def _print_machine(console: Console, sizes: Sizes) -> None:
    console.print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    console.print(f"one fdatasync of 400 bytes: {_fdatasync_us():.0f} µs (median of {_FSYNCS})")
    console.print(f"{sizes.receipts:,} receipts a scenario over {SESSIONS} sessions, {sizes.rounds} rounds, median")
    console.print(
        f"peers store {RECEIPT_BYTES} bytes a receipt; lifebus stores {_receipt_size()} (all keys of the contract)"
    )
    console.print("client and server in separate processes; every acknowledgement is counted\n")


def _fdatasync_us() -> float:
    seconds = []
    with workspace() as folder:
        # The figure tells what the disk can do: no system here acknowledges faster than it syncs, unless it batches.
        descriptor = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
        for _ in range(_FSYNCS):
            os.write(descriptor, b"x" * 400)
            started = time.perf_counter()
            os.fdatasync(descriptor)
            seconds.append(time.perf_counter() - started)
        os.close(descriptor)
    return 1e6 * sorted(seconds)[_FSYNCS // 2]


def _receipt_size() -> int:
    with broker() as running:
        system = Lifebus(running)
        system.batches(items(64), 64, 1)
        return system.receipt_size()


def _peers(run: Run) -> list[Aim]:
    results, settings = throughput.compare(_sizes(quick=run.quick), run.say)
    _print_comparison(run.console, results, settings)
    return throughput.aims(results)


def _print_comparison(console: Console, results: Results, settings: dict[str, str]) -> None:
    for name, text in settings.items():
        console.print(f"{name}: {text}")
    console.print()
    rates = "Acknowledged receipts a second (one at a time: µs)"
    print_table(console, rates, ("", *settings), _rows(results, settings, lambda found: f"{found.value:,.0f}"))
    cost = "CPU time of the server, µs a receipt"
    print_table(console, cost, ("", *settings), _rows(results, settings, lambda found: f"{found.server_us:.0f}"))


def _rows(results: Results, systems: Iterable[str], text: Callable[[Figure], str]) -> list[list[str]]:
    return [
        [scenario, *(text(found[name]) if name in found else "–" for name in systems)]
        for scenario, found in results.items()
    ]


def _followers(run: Run) -> list[Aim]:
    sizes = _sizes(quick=run.quick)
    alone, attended, seconds, gaps = growth.followed(sizes.receipts)
    rows = [
        ("no subscriber", f"{alone.per_second:,.0f}"),
        ("10 subscribers attached", f"{attended.per_second:,.0f}"),
        ("… deliveries a second, all 10", f"{10 * sizes.receipts / seconds:,.0f}"),
        ("… gaps seen", str(gaps)),
    ]
    print_table(run.console, "Fan-out: acknowledged receipts a second", ("", "lifebus"), rows)
    share = attended.per_second / alone.per_second
    return [Aim(text="acknowledged rate with 10 subscribers, each getting all: × without", limit=0.6, measured=share)]


def _growth(run: Run) -> list[Aim]:
    largest, sessions, idle_s = (10_000, 100, 3.0) if run.quick else (1_000_000, 10_000, 20.0)
    grown = growth.grow(run.receipts or largest, sessions, idle_s, run.say)
    rows = [
        (f"{count:,} receipts", f"{cost.clock_us:.1f}", f"{cost.server_us:.1f}", f"{grown.memory[count]:.0f}")
        for count, cost in grown.by_receipts.items()
    ]
    rows += [
        (f"{count:,} sessions", f"{cost.clock_us:.1f}", f"{cost.server_us:.1f}", "")
        for count, cost in grown.by_sessions.items()
    ]
    print_table(run.console, "Growth", ("", "µs a receipt", "µs CPU of the server", "MiB resident"), rows)
    return growth.aims(grown)


def _signals(run: Run) -> list[Aim]:
    count, rounds = (20_000, 1) if run.quick else (100_000, 3)
    rows = []
    for origins in (1, 4):
        found = signals.flow(count, origins)
        rates = (f"{found.acknowledged:,.0f}", f"{found.followed:,.0f}", f"{found.server_us:.0f}", str(found.gaps))
        rows.append((f"{origins} observer(s), one batch of {BATCH} each at a time", *rates))
    title = f"App-server signals a second: {count:,} of {len(some_signal('t0').signal)} bytes, durable, kept"
    print_table(run.console, title, ("", "acknowledged", "followed by one", "µs CPU of the server", "gaps"), rows)
    beside = signals.receipts_beside(count, rounds)
    speeds = [
        (
            f"{rate:,} signals/s beside them",
            *(f"{figure:,.0f}" for figure in (one.per_second, one.median_us, one.slowest_us)),
        )
        for rate, one in beside.items()
    ]
    head = ("", "a second (batches of 64, 16 at a time)", "one at a time, p50 µs", "p99 µs")
    print_table(run.console, f"Receipts beside signals, best of {rounds}", head, speeds)
    return signals.aims(beside)


def _tee(run: Run) -> list[Aim]:
    megabytes, trips, rounds = (200, 500, 3) if run.quick else (1_000, 2_000, 7)
    costs = proxy.collect(megabytes, trips, rounds, run.say)
    rows = [
        (
            case,
            *(f"{costs.rate(stream, case) / 1e6:,.0f}" for stream in (proxy.ZEROS, proxy.LINES)),
            *(f"{costs.share(stream, case):.2f}" for stream in (proxy.ZEROS, proxy.LINES)),
            *(f"{costs.trip_us(case, share):.0f}" for share in (0.5, 0.99)),
        )
        for case in costs.trips
    ]
    title = f"app-server tee beside cat: {megabytes} MiB a stream, round trips of one message, best of {rounds} rounds"
    head = ("", "zeros MB/s", "JSON MB/s", "zeros × cat", "JSON × cat", "trip p50 µs", "trip p99 µs")
    print_table(run.console, title, head, rows)
    starts = [(name, f"{1e3 * statistics.median(times):.0f}") for name, times in costs.starts.items()]
    print_table(run.console, "A process that does nothing, from start to end", ("", "ms (median)"), starts)
    return proxy.aims(costs)


def _consumers(run: Run) -> list[Aim]:
    receipts = 5_000 if run.quick else 50_000
    rows = [
        (
            f"{one.max_in_flight} in flight, acknowledged {one.at_once} at once",
            f"{one.per_second:,.0f}",
            f"{one.server_us:.0f}",
        )
        for one in consumers.consumed(receipts)
    ]
    title = f"A named consumer: {receipts:,} receipts of {_receipt_size()} bytes, every acknowledgement durable"
    print_table(run.console, title, ("", "deliveries a second", "µs CPU of the server"), rows)
    return []


def _commands(run: Run) -> list[Aim]:
    fresh, warm, rounds = (64, 1_024, 1) if run.quick else (512, 8_192, 3)
    rates = commands.collect(fresh, warm, rounds)
    rows = [(protocol, f"{rate:,.0f}", f"{rate / rates['oneshot']:.1f}") for protocol, rate in rates.items()]
    settings = f"{commands.WORKERS} children, {commands.IN_FLIGHT} dispatches in flight, {rounds} rounds, median"
    print_table(run.console, f"Dispatches a second to one Python program ({settings})", ("", "/s", "× fresh"), rows)
    return commands.aims(rates)


def _flows(run: Run) -> list[Aim]:
    count, rounds, waiting_count, seconds = (50, 2, 100, 3.0) if run.quick else (200, 7, 1_000, 20.0)
    phases = flows.collect_phases(count, rounds, run.say)
    rows = [
        (name, f"{1e3 * statistics.median(times):.0f}", f"{1e3 * statistics.median(times) / count:.2f}")
        for name, times in (("a flow of `true`", phases.flow_s), ("the same loop in sh", phases.loop_s))
    ]
    title = f"{count} phases, median of {rounds} rounds that take turns"
    print_table(run.console, title, ("", "ms", "ms a phase"), rows)
    waiting = flows.collect_waiting(waiting_count, seconds, run.say)
    costs = [
        ("memory that came with them, MB", f"{waiting.memory_mb:.1f}"),
        ("of a core, %", f"{waiting.cpu_percent:.2f}"),
        ("… with the first runs alone", f"{waiting.idle_percent:.2f}"),
    ]
    print_table(run.console, f"{waiting_count:,} runs that wait for a person", ("", "the broker"), costs)
    return flows.aims(phases, waiting)


def _hook(run: Run) -> list[Aim]:
    runs = 50 if run.quick else 200
    medians = {name: 1e3 * statistics.median(seconds) for name, seconds in hook.collect(runs).items()}
    rows = [(name, f"{middle:.1f}") for name, middle in medians.items()]
    print_table(run.console, "One hook as a whole process, server answering at once", ("", "ms (median)"), rows)
    share = medians[hook.ANSWERED] / medians[hook.BARE_CASE]
    text = "hook as a whole process: × python -I -S -c pass"
    return [Aim(text=text, limit=hook.AIM, measured=share, at_most=True)]


def _harnesses(run: Run) -> list[Aim]:
    """Measure hooks by themselves, and the harnesses that `make e2e` has installed; the others have no figures."""
    hook_choices.report(run)
    rounds = 5 if run.quick else 20
    aims: list[Aim] = []
    for name in harness_time.MEASURED:
        # A harness that is not installed still gets its line: an aim that was not measured must be seen.
        measured: float | None = None
        if name in harness_time.available():
            times = harness_time.collect(name, rounds)
            rows = [
                (case, f"{1e3 * statistics.median(seconds):.0f}", f"{harness_time.share(times, case):.2f}")
                for case, seconds in times.items()
            ]
            title = f"{name}: one turn with a tool call, median of {rounds} runs"
            print_table(run.console, title, ("", "ms", "× hooks: true"), rows)
            measured = harness_time.share(times)
        text = f"{name} with our hooks: × with `true` as every hook"
        aims.append(Aim(text=text, limit=harness_time.AIM, measured=measured, at_most=True))
    return aims


def _extensions(run: Run) -> list[Aim]:
    found = extensions.measure(200 if run.quick else 2_000)
    rows = [(name, f"{ms:.2f}") for name, ms in found.items()]
    print_table(run.console, "Extensions: one at a time", ("from an emit to", "ms"), rows)
    return []


PARTS: dict[str, Callable[[Run], list[Aim]]] = {
    "peers": _peers,
    **client_calls.PARTS,
    "followers": _followers,
    "growth": _growth,
    **durability.PARTS,
    "signals": _signals,
    "commands": _commands,
    "cursors": _consumers,
    "flows": _flows,
    "extensions": _extensions,
    **gateway.PARTS,
    **dashboard.PARTS,
    **queue.PARTS,
    **end_to_end.PARTS,
    **overload.PARTS,
    **sessions.PARTS,
    "tee": _tee,
    "hook": _hook,
    "harness": _harnesses,
}
"""What can be asked for: each measures, prints its table, and returns its aims."""

if __name__ == "__main__":
    main()

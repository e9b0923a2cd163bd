"""Every metric: its name, its kind, its labels and what it says (docs/metrics.md).  Pure.

Names and labels stay as they are once they are released: dashboards and alerts are made of them.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Kind(StrEnum):
    """What Prometheus calls the type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricFamily(Struct, frozen=True, kw_only=True):
    """One metric.  `counter` is the number of `status` that it shows, where it shows one.

    The values of `labels` are bounded: adapters, consumers and commands of the configuration, and never sessions.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    counter: str = ""


def _counted(counter: str, says: str, name: str = "") -> MetricFamily:
    return MetricFamily(name=f"lifebus_{name or counter}_total", kind=Kind.COUNTER, help=says, counter=counter)


def _now(counter: str, says: str, name: str = "") -> MetricFamily:
    return MetricFamily(name=f"lifebus_{name or counter}", kind=Kind.GAUGE, help=says, counter=counter)


def _gauge(name: str, says: str, *labels: str) -> MetricFamily:
    return MetricFamily(name=f"lifebus_{name}", kind=Kind.GAUGE, help=says, labels=labels)


def _duration(name: str, says: str) -> MetricFamily:
    return MetricFamily(name=f"lifebus_{name}_seconds", kind=Kind.HISTOGRAM, help=says)


DURATIONS: Final = (
    _duration("acknowledgement", "From taking a message of emissions without callback clients until it is durable."),
    _duration("dispatch", "From taking a message of emissions with callback clients until all have answered."),
    _duration("hook", "From reading a hook call until its answer is made."),
    _duration("tick", "One tick of the supervisor."),
)
"""The histograms."""

COUNTED: Final = (
    _counted("requests", "Requests over the local socket."),
    _counted("requests_malformed", "Requests that could not be read."),
    _counted("requests_refused", "Requests that were refused."),
    _counted("requests_overloaded", "Requests refused because too much of their connection waited."),
    _counted("requests_dropped", "Requests dropped because their connection was gone."),
    _counted("answers_lost", "Answers whose connection was gone or did not read."),
    _counted("receipts_published", "Receipts published to subscribers."),
    _counted("subscriptions_refused", "Subscriptions that could not be read."),
    _counted("subscribers_cut_off", "Subscribers that were cut off because they did not read."),
    _now("dispatches", "Requests that wait for callback clients, and background ones that are asked.", "dispatching"),
    _counted("ticks_transient", "Ticks that observed nothing and were not stored."),
    _counted("peers_refused", "Connections of other users that were refused."),
    _now("questions_open", "Questions to people that are open."),
    _now("notifications_failing", "Notifications that fail and are tried again."),
    _now("jobs_open", "Jobs that wait or run."),
    _now("jobs_running", "Jobs that run."),
    _counted("facts_merged", "Facts of telemetry that were merged into those of hooks."),
    _counted("hook_calls", "Hook calls that were handled."),
    _counted("hook_late", "Hook calls that were answered empty, because their answer was late."),
    _counted("hook_failed", "Hook calls whose handling failed."),
    _counted("hook_gone", "Hook calls whose hook had gone before it was answered."),
    _counted("hook_refused", "Hook calls of other users."),
    _counted("hook_busy", "Hook calls that found no free place and were spooled."),
    _counted("hook_malformed", "Hook calls that broke the protocol."),
    _counted("hook_cut_off", "Hook calls that ended or stalled in the middle."),
    _counted("hook_starved", "Times that no descriptor was left for a connection of a hook."),
    _counted("hook_oversized", "Hook calls whose payload was too large."),
    _counted("hook_unreadable", "Hook calls whose payload could not be read."),
    _counted("hook_failed_unrecorded", "Failed hook calls of which not even the failure was recorded."),
    _counted("hook_unknown_adapter", "Hook calls that named no known adapter."),
    _counted("spool_drained", "Spooled hook calls that were taken in."),
    _counted("spool_refused", "Spooled hook calls that were refused."),
    _counted("spool_malformed", "Spooled hook calls that could not be read."),
    _counted("spool_oversized", "Spooled hook calls whose payload was too large."),
    _now("spool_dropped", "Hook calls that the spool had no room for, as it says itself."),
    _now("spool_left", "1 while the spool holds calls that were not taken in."),
    _counted("signals_stored", "Signals of app-servers that were stored."),
    _counted("signals_dropped", "Signals that were dropped to keep within the quota."),
    _counted("signals_withheld", "Signals that were not stored because of what they hold."),
    _counted("observations_missing", "Observations of app-servers that never came."),
    _counted("observations_replayed", "Observations of app-servers that came again."),
    _counted("lines_dropped", "Lines that observers of app-servers had to drop."),
    _counted("caches_refused", "Caches of derived state that did not prove themselves."),
    _now("keeper_behind", "Receipts by which the derived state is behind the ledger.", "state_behind"),
    _now("keeper_broken", "1 if the derived state has stopped, because the log is damaged.", "state_broken"),
    _counted("saves", "Snapshots that were made.", "snapshots"),
    _counted("saves_failed", "Snapshots that failed.", "snapshots_failed"),
    _counted("gateway_requests", "Requests to the gateway."),
    _counted("gateway_requests_refused", "Requests that the gateway refused."),
    _now("gateway_streams", "Streams that are open."),
    _counted("gateway_streams_slow", "Streams that ended because their client did not read."),
)
"""The counters of `status`."""

BROKER: Final = (
    _gauge("info", "1; the labels say which broker this is.", "version", "contract_version", "backend", "durability"),
    _gauge("uptime_seconds", "Seconds since the broker started."),
    _gauge("ledger_head", "The position of the newest receipt."),
    _gauge("ledger_floor", "The position up to which receipts were pruned."),
    _gauge("ledger_writable", "1 while the ledger takes receipts."),
    _gauge("ledger_queued", "Receipts that wait for their commit."),
    _gauge("ledger_bytes", "Bytes of the ledger."),
    _gauge("ledger_damaged", "Receipts that were found to be damaged."),
    _gauge("callback_clients", "Callback clients that are registered."),
)
"""The broker and its ledger."""

HARNESSES: Final = (
    _gauge("sessions", "Sessions that live.", "adapter"),
    _gauge("sessions_waiting", "Sessions that wait for a person.", "adapter"),
    _gauge("open_frames", "Frames without an end.", "adapter"),
    _gauge("last_event_age_seconds", "Seconds since the last event.", "adapter"),
    _gauge("last_hook_age_seconds", "Seconds since the last hook call.", "adapter"),
    _gauge("telemetry_files", "Telemetry files that are watched.", "adapter"),
    _gauge("telemetry_records_skipped", "Records that could not be read in the watched files.", "adapter"),
    _gauge("silent_sources", "Sources that went quiet.", "adapter"),
    _gauge("degraded_capabilities", "Capabilities that are weaker than claimed.", "adapter"),
)
"""What is seen of each harness."""

CONSUMERS: Final = (
    _gauge("consumer_lag", "Positions between what a named consumer has settled and the newest receipt.", "consumer"),
    _gauge("consumer_open", "Receipts that were delivered to it and are not settled.", "consumer"),
    _gauge("consumer_dead_letters", "Receipts that were given up.", "consumer"),
    _gauge("consumer_attached", "1 while a program consumes.", "consumer"),
)
"""Each named consumer, of which there are at most 256."""

COMMANDS: Final = tuple(
    MetricFamily(name=f"lifebus_command_{name}_total", kind=Kind.COUNTER, help=says, labels=("client",))
    for name, says in (
        ("dispatches", "Dispatches to a command of the configuration."),
        ("failures", "Dispatches to a command of the configuration that failed."),
    )
)
"""Each callback client that is a command of the configuration."""

FAMILIES: Final = (*BROKER, *HARNESSES, *CONSUMERS, *COMMANDS, *DURATIONS, *COUNTED)
"""Every metric, in the order of the page."""

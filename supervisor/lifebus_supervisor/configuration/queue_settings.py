"""The settings of the queue.  Pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class QueueSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the queue of jobs may hold, and how it runs them (docs/queue.md)."""

    enabled: bool = True
    """Whether jobs are taken and run."""
    concurrency: Annotated[int, Meta(ge=1, le=1_024)] = 2
    """Jobs that run at once; of one project never more than one does."""
    max_jobs: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Jobs that wait or run; more are refused."""
    max_per_project: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Jobs of one project that wait or run; more are refused."""
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 2
    """Attempts of a job whose type and caller say nothing else."""
    time_limit_ms: Annotated[int, Meta(ge=1_000, le=604_800_000)] = 60_000
    """Milliseconds that one attempt may take, where type and caller say nothing else."""
    aging_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 15_000
    """Milliseconds after which a background job that waits has its turn before younger interactive ones."""
    interactive_burst: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Interactive jobs of a project in a row that may go before such a background job."""
    worker_sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "read-only"
    """What commands may change that a worker's turn runs, in the app-server's words."""
    keep: Annotated[int, Meta(ge=10, le=10_000)] = 200
    """Jobs of each project that are over and still kept: failed ones first, then canceled, then completed."""

"""What dropping old receipts costs the new ones, and what it gives back: waits and disk before, while and after.

One ledger is filled without a limit.  Then its broker starts again with a limit of a quarter of that, and the same
appends go on while it drops the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.lifebus_client import KEEP_ALL, broker
from bench.measures.flood import flood
from bench.measures.storage.appends import Waits, aim, append_while
from bench.report import Aim
from bench.workload import items

_SHARE = 4
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropping:
    """Appends before and while receipts are dropped; MiB of the ledger's files before and after, and the limit."""

    before: Waits
    meanwhile: Waits
    full_mb: float
    left_mb: float
    limit_mb: int


def collect(receipts: int, say: Callable[[str], None]) -> Dropping:
    """Fill, measure, start again with a limit, measure until the files are within it."""
    with broker(config=KEEP_ALL) as running:
        flood(running.runtime_dir, items(receipts), 64, 16)
        before = append_while(running.runtime_dir, lambda: False)
        running.stop()
        full_mb = _disk(running.state_dir)
        # A quarter, so that most of the file has to go.
        limit = max(1, int(full_mb / _SHARE))
        say(f"{full_mb:.0f} MiB; from now on {limit} at most")
        running.configure(f"[retention]\nkeep_mb = {limit}\ncheck_s = 1\n")
        running.start()
        meanwhile = append_while(running.runtime_dir, lambda: _disk(running.state_dir) > limit)
        running.stop()
        left_mb = _disk(running.state_dir)
    return Dropping(before=before, meanwhile=meanwhile, full_mb=full_mb, left_mb=left_mb, limit_mb=limit)


def aims(dropping: Dropping) -> list[Aim]:
    """Return the aims: what must not change, and what must."""
    return [
        aim("old receipts are dropped", dropping.before, dropping.meanwhile),
        Aim(
            text="disk after dropping: × the limit",
            limit=1,
            measured=dropping.left_mb / dropping.limit_mb,
            at_most=True,
        ),
    ]


def _disk(folder: Path) -> float:
    """Return the MiB that the ledger's files take on the disk: file, log and index of the log."""
    # Blocks, not the size: a file with holes takes less than its size.
    return sum(path.stat().st_blocks * 512 for path in folder.glob("ledger.db*")) / _MEBIBYTE

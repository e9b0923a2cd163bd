"""Pure reducers over recorded rows: what the broker knows beside the ledger (design 4.5).

Above: ledgers, router.  Below: the contract and the broker's ports.
"""

from lifebus_broker.fold.session import (
    INITIAL,
    MAX_OPEN_FRAMES,
    SessionState,
    advance,
    extend_head,
    fold_rows,
)

__all__ = ["INITIAL", "MAX_OPEN_FRAMES", "SessionState", "advance", "extend_head", "fold_rows"]

"""Find the first place at which an export that is not what its last line says stops being one that follows."""

from lifebus_broker.exports.jsonl_log import FileSlice, JsonlLog
from lifebus_broker.snapshots.segment import first_bad_line
from lifebus_broker.state.stores import Stores, load_base
from lifebus_contract import InvalidRequest, LifebusError


def open_export(part: FileSlice) -> JsonlLog:
    """Return the log of an export, as `JsonlLog.open`; one that was altered is refused with the first bad position.

    Raises:
        InvalidRequest: it is no export, is cut off or was altered.
        LifebusError: it cannot be read.
    """
    try:
        return JsonlLog.open(part)
    except InvalidRequest as fault:
        if fault.code != "export_altered":
            raise
        detail = f"{fault.detail}: {_first_fault(JsonlLog(part, sealed=False))}"
        raise InvalidRequest(detail, code="export_altered") from None


def _first_fault(log: JsonlLog) -> str:
    """Return what is wrong first, read in the order of the lines."""
    try:
        base = log.base()
        # Reading is the check: a bad line raises.
        for _ in (*log.heads(), *log.tombstones()):
            pass
        stores = Stores() if base is None else load_base(base)
        bad = first_bad_line(stores, log, log.head)
        if bad is not None:
            return f"position {bad.position}: {bad}"
        for _ in log.records(""):
            pass
    except LifebusError as fault:
        return fault.detail
    return "every receipt follows from those before it, so a stream was linked anew, or the last line was changed"

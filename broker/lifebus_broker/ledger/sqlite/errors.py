"""What SQLite says of a ledger file, as errors that a user can act on."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from lifebus_broker.ledger.sqlite.schema import MISREAD
from lifebus_contract import BrokerBusy, LifebusError


@contextmanager
def user_errors(path: Path) -> Generator[None]:
    """Turn every error of SQLite inside the block, and every value of a wrong kind, into one that says what to do.

    Raises:
        LifebusError: in place of every `apsw.Error` and of all that reading a damaged file may raise.
    """
    try:
        yield
    except apsw.FullError as fault:
        raise unreadable(path, "there is no room on the disk; make some and try again") from fault
    except apsw.NotADBError as fault:
        raise unreadable(path, "it is no ledger: not a SQLite database") from fault
    except (apsw.BusyError, apsw.LockedError) as fault:
        raise BrokerBusy(f"{path}: somebody else has it locked; try again", code="busy") from fault
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as fault:
        raise unreadable(path, f"it, or its directory, cannot be written or opened: {fault}") from fault
    except apsw.Error as fault:
        detail = f"{path}: it is damaged or no ledger: {type(fault).__name__}: {str(fault)[:200]}"
        raise LifebusError(detail, code="ledger_damaged") from fault
    except MISREAD as fault:
        raise _misread(path, fault) from fault


@contextmanager
def read_errors(path: Path) -> Generator[None]:
    """Turn every error of SQLite inside the block, which only reads, into one that says that the file is unreadable.

    Raises:
        LifebusError: in place of every `apsw.Error` and of all that reading a damaged file may raise.
    """
    try:
        yield
    except apsw.Error as fault:
        raise unreadable(path, str(fault)) from fault
    except MISREAD as fault:
        raise _misread(path, fault) from fault


def _misread(path: Path, fault: BaseException) -> LifebusError:
    """Return the error about a file in which a value is not of the kind that was written."""
    detail = f"{path}: it is damaged: a value in it is not of its kind ({type(fault).__name__}: {str(fault)[:160]})"
    return LifebusError(detail, code="ledger_damaged")


def unreadable(path: Path, why: str) -> LifebusError:
    """Return the error about a file that cannot be used."""
    return LifebusError(f"{path}: {why}", code="unreadable")

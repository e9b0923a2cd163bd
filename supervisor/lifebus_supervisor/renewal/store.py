"""The continuation store: tokens that wait for a session start, each stored until it is used once.

A record goes from preparing to pending, claimed, and consumed; each step is durable before its caller goes on.  What is
claimed stays claimed by the same session under the same claim id until the client's use of it is known, so that a
client which knows claim ids again sees one use however often it is asked (docs/renewal.md, "Crashes").

Every method may block: it waits for disks, and a moment for other processes.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from lifebus_broker.disk import Disk
from lifebus_contract import BrokerBusy, CallbackRequest, InvalidRequest, StateConflict
from lifebus_supervisor.renewal.choosing import (
    ChosenContinuation,
    LostContinuation,
    RenewalStart,
    SeveralContinuations,
    choose,
)
from lifebus_supervisor.renewal.files import RecordFiles
from lifebus_supervisor.renewal.profile import MAX_TOKEN_BYTES
from lifebus_supervisor.renewal.records import LIVE, Continuation, ContinuationState

DIRECTORY: Final = "continuations"
"""The store's directory in the state directory."""

MAX_RECORDS: Final = 1_024
"""Most records in a store: ended ones make room for new ones, and beyond that new ones are refused."""

MAX_TRIES: Final = 5
"""How often a claimed token is handed over before it counts as lost."""

RETENTION_S: Final = 7 * 86_400
"""How long a record without a token is still shown after its expiry, in seconds."""

_EXPIRED_NOTE: Final = "it expired before it was used"
_TRIES_NOTE: Final = f"the client was asked {MAX_TRIES} times and never said that it has it"


def open_store(state_dir: Path) -> "ContinuationStore":
    """Return the continuation store of a state directory; the directory is made with the first record."""
    return ContinuationStore(state_dir / DIRECTORY, time.time)


class ContinuationStore:
    """The records in a directory; any number of processes may use it.  `clock` returns wall-clock seconds.

    Every method raises:
        LifebusError: the directory is not ours alone, or another process holds the store.
        OSError: the system refused; what was there before stands.
    """

    def __init__(self, directory: Path, clock: Callable[[], float], disk: Disk | None = None) -> None:
        self._files = RecordFiles(directory, disk or Disk())
        self._clock = clock

    def records(self) -> tuple[list[Continuation], list[str]]:
        """Return every record, the oldest first, with its token, and the names of files that hold none."""
        if not self._files.exists:
            return [], []
        with self._files.locked():
            return self._read_current()

    def sweep(self) -> None:
        """Remove the tokens of expired records, and records that expired `RETENTION_S` ago."""
        self.records()

    def begin(self, intent: Continuation) -> Continuation:
        """Record that a client is about to be asked for a token; return the record of its session if one is there.

        Raises:
            StateConflict: a token of the session waits already.
            BrokerBusy: there are too many records.
        """
        with self._files.locked():
            records, unreadable = self._read_current()
            for one in records:
                same = one.profile == intent.profile and one.adapter_id == intent.adapter_id
                if same and one.session == intent.session and one.state in {*LIVE, ContinuationState.PREPARING}:
                    if one.state is ContinuationState.PREPARING:
                        return one
                    raise StateConflict("a continuation of this session waits already", code="pending")
            self._add(intent, records, unreadable)
            return intent

    def save(self, record: Continuation) -> None:
        """Save a token and remove the record that it was asked for.  A payload id is saved once, whatever became of it.

        Raises:
            StateConflict: the thread has a token already, which stays.
            InvalidRequest: no thread, no token, or too large a one.
            BrokerBusy: there are too many records.
        """
        _check(record)
        with self._files.locked():
            records, unreadable = self._read_current()
            saved = any(
                one.payload_id == record.payload_id and one.state is not ContinuationState.PREPARING for one in records
            )
            if not saved:
                for one in records:
                    # an ended record gives up its slot; a live token in it is refused by `add`
                    if one.slot == record.slot and one.state not in LIVE:
                        self._files.remove(one)
                self._add(record, records, unreadable)
                self._read_current()

    def cancel(self, intent: Continuation) -> None:
        """Remove the record that a client was to be asked."""
        with self._files.locked():
            if any(one == intent for one in self._read_current()[0]):
                self._files.remove(intent)

    def has_match(self, start: RenewalStart) -> bool:
        """Whether `claim` would return something for a session start; nothing changes."""
        with self._files.locked():
            return choose(self._read_current()[0], start) is not None

    def claim(
        self, start: RenewalStart, claim_id: str, request: CallbackRequest | None = None
    ) -> ChosenContinuation | SeveralContinuations | LostContinuation | None:
        """Give a session start its token: under a new claim id, or under that of a claim whose end is not known.

        A lost token is returned once.  `request` is stored for the receipt.
        """
        with self._files.locked():
            found = choose(self._read_current()[0], start)
            if isinstance(found, LostContinuation):
                self._files.replace(found.record.ended(ContinuationState.REJECTED, self._now(), _EXPIRED_NOTE))
            if not isinstance(found, ChosenContinuation):
                return found
            record = found.record
            return self._hand_out(
                structs.replace(
                    record,
                    state=ContinuationState.CLAIMED,
                    # the first claim id stays: by it the client knows a second hand-over of the same token
                    claim_id=record.claim_id or claim_id,
                    claimed_by=start.session,
                    claimed_at=request or record.claimed_at,
                )
            )

    def claim_again(self, record: Continuation) -> ChosenContinuation | LostContinuation | None:
        """Hand out again a claim whose end is not known; None where it has ended meanwhile."""
        with self._files.locked():
            for one in self._read_current()[0]:
                if one.payload_id == record.payload_id and one.state is ContinuationState.CLAIMED:
                    return self._hand_out(one)
            return None

    def claim_for_operator(self, profile: str, thread: str, claim_id: str) -> Continuation | None:
        """Claim the pending token of a thread for an operator, who is no session; None where there is none.

        Raises:
            StateConflict: a session has claimed it.
        """
        with self._files.locked():
            for one in self._read_current()[0]:
                if (one.profile, one.thread) != (profile, thread) or one.state not in LIVE:
                    continue
                if one.claimed_by is not None:
                    raise StateConflict(f"session `{one.claimed_by[:64]}` has claimed it", code="claimed")
                claimed = structs.replace(one, state=ContinuationState.CLAIMED, claim_id=one.claim_id or claim_id)
                self._files.replace(claimed)
                return claimed
            return None

    def finish(self, record: Continuation, state: ContinuationState, note: str | None = None) -> None:
        """End a claim and remove its token.  A second call changes nothing."""
        with self._files.locked():
            for one in self._read_current()[0]:
                if one.payload_id == record.payload_id and one.state is ContinuationState.CLAIMED:
                    self._files.replace(one.ended(state, self._now(), note))

    def mark_recorded(self, record: Continuation) -> None:
        """Remove the requests of a record whose receipts are in the ledger; a claim keeps its own until it ends."""
        with self._files.locked():
            for one in self._read_current()[0]:
                if one.payload_id != record.payload_id or one.state is ContinuationState.PREPARING:
                    continue
                claimed_at = one.claimed_at if one.state is ContinuationState.CLAIMED else None
                if (one.prepared_at, one.claimed_at) != (None, claimed_at):
                    self._files.replace(structs.replace(one, prepared_at=None, claimed_at=claimed_at))

    def drop(self, profile: str, thread: str) -> Continuation | None:
        """Remove the record of a thread, whatever its state; return it, None where there was none."""
        with self._files.locked():
            for one in self._read_current()[0]:
                if (one.profile, one.thread) == (profile, thread):
                    self._files.remove(one)
                    return one
            return None

    def _hand_out(self, claimed: Continuation) -> ChosenContinuation | LostContinuation:
        """Count one more hand-over of a claimed token; after `MAX_TRIES` the token is lost."""
        if claimed.handed_over >= MAX_TRIES:
            self._files.replace(claimed.ended(ContinuationState.REJECTED, self._now(), _TRIES_NOTE))
            return LostContinuation(claimed)
        counted = structs.replace(claimed, handed_over=claimed.handed_over + 1)
        # counted before the client is asked: a crash in between must not give it endless tries
        self._files.replace(counted)
        return ChosenContinuation(counted)

    def _add(self, record: Continuation, records: Sequence[Continuation], unreadable: Sequence[str]) -> None:
        """Write a new record; in a full store the oldest ended one makes room."""
        if len(records) + len(unreadable) >= MAX_RECORDS:
            ended = next((one for one in records if one.ended_at is not None and one.slot != record.slot), None)
            if ended is None:
                raise BrokerBusy(f"{MAX_RECORDS} continuations wait already; drop some", code="store_full")
            self._files.remove(ended)
        self._files.add(record)

    def _read_current(self) -> tuple[list[Continuation], list[str]]:
        """Read the records, and write what time has changed: expired ones lose their token, and later they go.

        The record that a token was asked for goes once the token is saved, so that it is never asked for again.
        """
        now = self._now()
        records, unreadable = self._files.read()
        answered = {one.payload_id for one in records if one.state is not ContinuationState.PREPARING}
        current: list[Continuation] = []
        for one in records:
            # it stays until the token is durable, so a crash in between asks again under the same id
            is_obsolete = one.state is ContinuationState.PREPARING and (
                one.is_expired(now) or one.payload_id in answered
            )
            if is_obsolete or now >= one.expires_at + RETENTION_S:
                self._files.remove(one)
            elif one.state in LIVE and one.is_expired(now):
                current.append(one.ended(ContinuationState.EXPIRED, now, _EXPIRED_NOTE))
                self._files.replace(current[-1])
            else:
                current.append(one)
        return current, unreadable

    def _now(self) -> int:
        return int(self._clock())


def _check(record: Continuation) -> None:
    """Refuse what cannot be saved.

    Raises:
        InvalidRequest: says why.
    """
    if not record.thread or not record.token:
        raise InvalidRequest("a continuation needs a thread and a token", code="no_token")
    size = len(record.token.encode())
    if size > MAX_TOKEN_BYTES or size != record.size:
        raise InvalidRequest(f"a token may have {MAX_TOKEN_BYTES} bytes", code="token_too_large")

"""The supplement of a snapshot: one form, bounded, kept with its snapshot, and never taken for another's."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from lifebus_broker.ledger.log import encode_line
from lifebus_broker.ports import Record
from lifebus_broker.snapshots import state_follower, supplement
from lifebus_broker.snapshots.files import SnapshotFiles
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.revisions import REVISIONS
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import (
    StreamHead,
    Supplement,
    decode_supplement,
    encode_supplement,
    pinned_revisions,
)
from lifebus_contract import LifebusError
from support.snapshots.logs import HeldLog, log_of, saved, supplemented

LOG = log_of(11, 40)
NOTES = [Record(REVISIONS, number, 7, b"revision %d" % number) for number in (1, 2, 3)]


def chained(count: int) -> str:
    """Return the link of the last of so many notes, as docs/ledger.md D6 has it."""
    link = bytes(32)
    for note in NOTES[:count]:
        link = sha256(link + (7).to_bytes(8, "big") + note.body).digest()
    return link.hex()


def at(position: int, save_type: SaveType = SaveType.SESSION) -> tuple[SaveSnapshot, Supplement]:
    log = HeldLog(LOG.kept[:position], written=NOTES[:2])
    return saved(log, save_type), supplemented(log, save_type)


def test_it_holds_a_digest_of_each_line_and_where_the_revisions_were() -> None:
    snapshot, found = at(30)

    assert found.digests == b"".join(sha256(encode_line(line)).digest()[:4] for line in LOG.kept[:30])
    assert (found.first, found.bytes_hash) == (1, snapshot.bytes_hash)
    assert found.revisions == StreamHead(chained(2), 2)


def test_a_pruned_log_has_digests_from_its_floor_on() -> None:
    found = supplemented(LOG.prune(25))

    assert (found.first, len(found.digests)) == (26, 15 * 4)


def test_only_the_newest_lines_have_digests_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (supplement, state_follower):
        monkeypatch.setattr(module, "MAX_LINES", 10)

    found = supplemented(LOG)

    assert found.first == 31
    assert found.digests == b"".join(sha256(encode_line(line)).digest()[:4] for line in LOG.kept[30:])


def test_a_follower_that_goes_on_has_the_digests_of_all_lines() -> None:
    follower = StateFollower(LOG)
    for through in (7, 8, 40):
        follower.advance(through)
        assert len(follower.line_digests(0)) == through * 4


def test_its_file_has_one_form_and_a_changed_byte_anywhere_is_refused() -> None:
    _, found = at(12)
    data = encode_supplement(found)

    assert decode_supplement(data) == found
    assert encode_supplement(found) == data
    for place in range(len(data)):
        with pytest.raises(ValueError, match="torn or changed"):
            decode_supplement(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    for other in (b"", data[:-1], data + b"x", data.replace(b'":', b'": ', 1)):
        with pytest.raises(ValueError, match="torn or changed"):
            decode_supplement(other)


def test_it_comes_and_goes_with_its_snapshot(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for position in (5, 10, 15, 20, 25):
        files.write(*at(position))

    kept = files.all()[0]
    assert [one.timestamp_event_id for one in kept] == [25, 20, 15]
    assert {path.stem for path in tmp_path.glob("*.supplement")} == {one.snapshot_id for one in kept}
    assert all(isinstance(files.supplement(one), Supplement) for one in kept)


def test_a_sound_one_stays_and_a_torn_or_missing_one_is_written_again(tmp_path: Path) -> None:
    files, (snapshot, found) = SnapshotFiles(tmp_path), at(9)
    assert files.write(snapshot, found)
    path = tmp_path / f"{snapshot.snapshot_id}.supplement"

    # As if the journal had been forged since: what the first save has seen counts.
    later = supplemented(HeldLog(LOG.kept[:9], written=NOTES))
    assert not files.write(snapshot, later)
    assert files.supplement(snapshot) == found

    path.write_bytes(path.read_bytes()[:-1])
    assert isinstance(files.supplement(snapshot), RefusedFile)
    assert not files.write(snapshot, found)
    assert files.supplement(snapshot) == found
    path.unlink()
    assert files.supplement(snapshot) is None


def test_that_of_another_snapshot_is_refused(tmp_path: Path) -> None:
    files, (snapshot, found), (other, _) = SnapshotFiles(tmp_path), at(9), at(12)
    files.write(snapshot, found)
    files.write(other)
    (tmp_path / f"{snapshot.snapshot_id}.supplement").rename(tmp_path / f"{other.snapshot_id}.supplement")

    refused = files.supplement(other)

    assert isinstance(refused, RefusedFile)
    assert "another snapshot" in refused.why


def test_only_saves_of_this_history_pin_revisions(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for position in (9, 12):
        files.write(*at(position))

    assert len(list(files.pinned(12))) == 2
    assert len(list(files.pinned(11))) == 1
    assert list(files.pinned(8)) == []


@pytest.mark.parametrize("pinned", [[], [0], [1], [3, 1], [2, 2, 0]])
def test_revisions_that_lead_through_all_pinned_places_are_read(pinned: list[int]) -> None:
    heads = [StreamHead(chained(number), number) for number in pinned]

    assert list(pinned_revisions(HeldLog([], written=NOTES), iter(heads))) == NOTES


@pytest.mark.parametrize(
    ("number", "link", "why"),
    [(1, chained(2), "up to 1 are not"), (3, chained(1), "up to 3 are not"), (4, chained(3), "revision 4 was there")],
)
def test_revisions_that_miss_a_pinned_place_are_refused(number: int, link: str, why: str) -> None:
    heads = [StreamHead(chained(2), 2), StreamHead(link, number)]

    with pytest.raises(LifebusError, match=why) as refused:
        list(pinned_revisions(HeldLog([], written=NOTES), iter(heads)))

    assert refused.value.code == "ledger_damaged"


def test_nothing_but_the_form_that_is_documented_is_in_the_header() -> None:
    _, found = at(3)

    header = json.loads(encode_supplement(found).split(b"\n", 1)[0])

    assert sorted(header) == ["bytes_hash", "first", "format", "lines", "revisions", "sha256"]
    assert (header["format"], header["lines"]) == ("lifebus-supplement/1", 3)

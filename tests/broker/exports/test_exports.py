"""An export is whole and canonical, or it is refused; what it says is what the ledger said."""

import io
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.exports.jsonl_log import FileSlice, JsonlLog
from lifebus_broker.exports.lines import HeadLine, RecordLine, StreamLine, TombstoneLine, text_of
from lifebus_broker.exports.writer import write_export
from lifebus_broker.ledger.log import LinkedRecord, LogLine
from lifebus_broker.ledger.record_batch import record_link
from lifebus_broker.ports import Record
from lifebus_contract import InvalidRequest, LifebusError, encode_json
from support.receipts import receipt

LINK = "ab" * 32
HEAD = HeadLine(
    adapter_id="codex",
    at_epoch_s=1,
    ended=False,
    event="frame.opened",
    first_position=1,
    harness_sequence=None,
    link=LINK,
    open_frames=("f1",),
    position=2,
    sequence=2,
    session="s1",
    started_at_epoch_s=1,
    status="observed",
)


class Sample:
    """A source with a little of everything; `count` lines after `floor`."""

    def __init__(self, floor: int, count: int, bodies: list[bytes]) -> None:
        self.epoch, self.floor, self.head = "e" * 32, floor, floor + count
        self.bodies = bodies

    def base(self) -> bytes | None:
        return b'{"facts":[],"story":{"a":1}}' if self.floor else None

    def heads(self) -> Iterator[HeadLine]:
        return iter([HEAD] if self.floor else [])

    def tombstones(self) -> Iterator[TombstoneLine]:
        return iter([TombstoneLine(digest="cd" * 8, key="ef" * 16, pruned_at_epoch_s=7)] if self.floor else [])

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        for position in range(after + 1, through + 1):
            yield LogLine(position, None, LINK, encode_json(receipt(position, sequence=position)))

    def journal(self) -> Iterator[StreamLine | RecordLine]:
        if self.bodies:
            yield StreamLine(floor=3, head=3 + len(self.bodies), link=LINK, stream="cursor/ü")
        for linked in self.chain("cursor/ü"):
            one = linked.record
            yield RecordLine(
                at_epoch_s=9, body=text_of(one.body), link=linked.link.hex(), number=one.number, stream=one.stream
            )
        yield StreamLine(floor=5, head=5, link=LINK, stream="empty")

    def records(self, prefix: str) -> Iterator[Record]:
        if "cursor/ü".startswith(prefix):
            yield from (linked.record for linked in self.chain("cursor/ü"))

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        link = bytes.fromhex(LINK)
        for number, body in enumerate(self.bodies if stream == "cursor/ü" else [], 4):
            link = record_link(link, 9, body)
            yield LinkedRecord(Record(stream, number, 9, body), link)


def exported(source: "Sample | JsonlLog") -> bytes:
    text = io.BytesIO()
    write_export(source, 1, text.write)
    return text.getvalue()


def opened(directory: Path, text: bytes) -> JsonlLog:
    path = directory / "export.jsonl"
    path.write_bytes(text)
    return JsonlLog.open(path)


def resealed(text: bytes) -> bytes:
    """The text with a last line that agrees with it."""
    body, _, end = text[:-1].rpartition(b"\n")
    last = json.loads(end)
    last["end"]["sha256"] = sha256(body + b"\n").hexdigest()
    return body + b"\n" + rfc8785.dumps(last) + b"\n"


@settings(max_examples=40)
@given(floor=st.sampled_from([0, 2, 4000]), count=st.sampled_from([0, 1, 5]), bodies=st.lists(st.binary()))
def test_what_was_exported_is_read_back_and_exported_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, floor: int, count: int, bodies: list[bytes]
) -> None:
    source = Sample(floor, count, bodies)
    text = exported(source)
    log = opened(tmp_path_factory.getbasetemp(), text)
    assert (log.epoch, log.floor, log.head, log.base()) == (source.epoch, floor, floor + count, source.base())
    assert list(log.records("cur")) == list(source.records("cur"))
    assert list(log.records("signal/")) == []
    assert exported(log) == text


@pytest.mark.parametrize(
    ("after", "through"), [(0, 9999), (100, 101), (1123, 1124), (1124, 1126), (2099, 2200), (7, 7)]
)
def test_the_log_is_read_from_anywhere(tmp_path: Path, after: int, through: int) -> None:
    source = Sample(100, 2000, [])
    log = opened(tmp_path, exported(source))
    assert list(log.lines(after, through)) == list(source.lines(max(after, 100), min(through, 2100)))


def test_every_line_is_canonical_json(tmp_path: Path) -> None:
    for line in exported(Sample(2, 3, [b"\0", b""])).splitlines(keepends=True):
        assert rfc8785.dumps(json.loads(line)) + b"\n" == line


def test_an_export_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    text = exported(Sample(2, 3, [b"body"]))
    for size in range(0, len(text), 7):
        with pytest.raises(InvalidRequest) as caught:
            opened(tmp_path, text[:size])
        assert caught.value.code == "export_damaged"


def test_an_export_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    text = bytearray(exported(Sample(2, 2, [b"body"])))
    for place in range(0, len(text), 5):
        text[place] ^= 1
        with pytest.raises(InvalidRequest):
            opened(tmp_path, bytes(text))
        text[place] ^= 1


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (b'"position":4', b'"position": 4', "position 4"),
        (b'"position":4', b'"position":5', "position 4: position 5"),
        (b'"digest":null,"link":"ab', b'"digest":null,"link":"AB', "position 3"),
        (b'{"facts":[]', b'{"facts": []', "the base"),
        (b'"floor":3', b'"floor":03', "byte"),
        (b'"body":"Ym9keQ=="', b'"body":"Ym9keR=="', "note 4 of"),
        (b'"ended":false', b'"ended":null', "byte"),
        (b'"stream":"cursor/\xc3\xbc"', b'"stream":"cursor/\\u00fc"', "byte"),
    ],
)
def test_a_line_in_another_form_is_named_even_where_the_hash_was_made_to_agree(
    tmp_path: Path, old: bytes, new: bytes, where: str
) -> None:
    text = exported(Sample(2, 3, [b"body"]))
    assert old in text
    log = opened(tmp_path, resealed(text.replace(old, new, 1)))
    with pytest.raises(InvalidRequest, match=where):
        _ = (log.base(), *log.heads(), *log.tombstones(), *log.lines(0, 99), *log.journal(), *log.records(""))


def test_lines_that_are_missing_doubled_or_out_of_order_are_noticed_at_once(tmp_path: Path) -> None:
    lines = exported(Sample(2, 3, [b"body"])).splitlines(keepends=True)
    for changed in (lines[:4] + lines[5:], lines[:4] + lines[3:], [lines[0], lines[3], *lines[1:3], *lines[4:]]):
        with pytest.raises(InvalidRequest):
            opened(tmp_path, resealed(b"".join(changed)))


@pytest.mark.parametrize("text", [b"", b"\n", b"hello\n", b"{}\n", b'{"header":{}}\n', b"\xff\xfe" * 99, b"[" * 9999])
def test_what_is_no_export_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"export\.jsonl"):
        opened(tmp_path, text)


def test_an_export_is_read_out_of_a_larger_file(tmp_path: Path) -> None:
    text = exported(Sample(2, 1500, [b"body"]))
    (tmp_path / "archive").write_bytes(b"before\n" + text + b"behind\n")
    log = JsonlLog.open(FileSlice(tmp_path / "archive", 7, len(text)))
    assert exported(log) == text


def test_a_file_that_is_not_there_or_a_directory_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(LifebusError) as caught:
            JsonlLog.open(path)
        assert caught.value.code == "unreadable"

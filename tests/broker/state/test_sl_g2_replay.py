"""Replay equivalence (docs/ledger.md SL-G2): the same log gives the same bytes, wherever one starts."""

import json

import msgspec
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.canonical_json import canonical
from lifebus_broker.ledger.log import decode_line, encode_line
from lifebus_broker.ports import NewReceipt
from lifebus_broker.state.stores import dump_stores, load_stores, pending_of, store_digests
from lifebus_broker.state.working_set import compile_working_set, encode_working_set
from lifebus_contract.codec import decode_receipt
from support.effort import effort
from support.histories import histories, lines_of, replayed

HISTORIES = effort(60, 2_000)
PINS = {"contract_version": "lifeloop.v0.2", "manifests": {"codex": "ab" * 32}}


@settings(max_examples=HISTORIES)
@given(histories())
def test_replaying_twice_gives_the_same_log_and_the_same_digests(entries: list[NewReceipt]) -> None:
    first, again = lines_of(entries), lines_of(entries)
    assert b"".join(map(encode_line, first)) == b"".join(map(encode_line, again))
    read = [decode_line(encode_line(line)) for line in first]
    assert store_digests(replayed(read), PINS) == store_digests(replayed(again), PINS)
    assert dump_stores(replayed(read)) == dump_stores(replayed(again))


@settings(max_examples=HISTORIES)
@given(histories(), st.data())
def test_replays_from_different_starting_points_converge(entries: list[NewReceipt], data: st.DataObject) -> None:
    lines = lines_of(entries)
    whole = replayed(lines)
    start = data.draw(st.integers(0, len(lines)), label="start")
    base = dump_stores(replayed(lines[:start]))
    rest = replayed(lines[start:], load_stores(base))
    assert dump_stores(rest) == dump_stores(whole)
    assert store_digests(rest, PINS) == store_digests(whole, PINS)
    assert pending_of(rest) == pending_of(whole)
    assert dump_stores(load_stores(base)) == base


@settings(max_examples=effort(60, 600))
@given(histories())
def test_whatever_is_hashed_is_canonical_by_another_implementation_too(entries: list[NewReceipt]) -> None:
    lines = lines_of(entries)
    stores = replayed(lines)
    hashed = [dump_stores(stores), encode_working_set(compile_working_set(stores, PINS)), canonical(PINS)]
    hashed += [canonical(msgspec.to_builtins(store_digests(stores, PINS)))]
    hashed += [encode_line(line).removesuffix(b"\n") for line in lines]
    for text in hashed:
        assert rfc8785.dumps(json.loads(text)) == text == canonical(json.loads(text))


@settings(max_examples=effort(20, 200))
@given(histories())
def test_the_histories_are_made_of_receipts_as_the_contract_has_them(entries: list[NewReceipt]) -> None:
    for line, entry in zip(lines_of(entries), entries, strict=True):
        assert decode_receipt(line.receipt).receipt_id == entry.receipt.receipt_id

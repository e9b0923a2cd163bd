"""`lifebus dev stdio` against a real broker: what the request server answers, in JSON lines (docs/stdio.md)."""

import json

import msgspec
import pytest

from lifebus_contract import encode_json, encode_msgpack
from lifebus_transports.framing.json_lines import encode_answer
from lifebus_transports.messages.verbs import VERBS
from support.integration.following import emit as emit_many
from support.integration.following import recorded
from support.integration.observing import Observer, signal
from support.integration.stdio_peers import Message, emission, emit, near_peer, stdio_peer
from support.running import connected, running_bus

SAME: dict[str, Message] = {
    "ping": {},
    "negotiate": {
        "adapter_id": "codex",
        "requirements": [{"capability": "event:session.started", "level": "required"}],
    },
    "backfill": {"after": 1, "limit": 2, "session": ["codex", "s1"]},
    "marker": {"nonce": "mine"},
    "sessions": {"session": ["codex", "s1"]},
    "verify": {"tail": 2},
    "signals": {"adapter_id": "codex", "thread": "t1"},
    "threads": {"adapter_id": "codex"},
    "cursors": {},
    "clients": {},
    "manifests": {},
}
"""Verbs whose answer is the same whenever they are asked."""


async def test_every_request_that_changes_nothing_is_answered_as_at_the_socket() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, stdio_peer(daemon) as peer:
        await emit_many(bus, "s1", "s1", "s2", "s1")
        await Observer(bus).observe(signal("t1"), signal("t2"), signal("t1"))
        for verb, body in SAME.items():
            socket = encode_answer(0, msgspec.msgpack.decode(await bus.ask(verb, encode_msgpack(body))))
            assert (await peer.ask(verb, body))["ok"] == json.loads(socket)["ok"], verb


async def test_every_verb_of_the_wire_passes() -> None:
    body = {"client_id": "editor", "events": ["session.started"]}
    async with running_bus() as daemon, stdio_peer(daemon) as peer:
        ticked = await peer.ask("tick", {"client_id": "editor"})
        status = await peer.ask("status")
        served, left = await peer.ask("serve", body), await peer.ask("leave")
        emitted = await peer.ask("emit", emit(emission()))

    assert ticked["ok"]["receipts"][0]["event"] == "supervisor.tick"
    assert status["ok"]["ledger"]["head"] == 1
    assert (served["ok"], left["ok"]) == ({}, {})
    assert emitted["ok"]["results"][0]["positions"] == [2]


async def test_no_verb_of_the_wire_is_missing() -> None:
    async with running_bus() as daemon, stdio_peer(daemon) as peer:
        answers = {verb: await peer.ask(verb, {"surprise": 1}) for verb in VERBS if verb != "response"}

    assert {answer["refused"]["code"] for answer in answers.values()} == {"unknown_key"}


async def test_a_peer_may_be_an_observer_of_an_app_server() -> None:
    seen = json.loads(signal("t1").signal)
    body = {
        "client_id": "editor",
        "adapter_id": "codex",
        "origin": "run 1",
        "first": 1,
        "observations": [{"kind": "signal", "thread": "t1", "event_type": seen["eventType"], "signal": seen}],
    }
    async with running_bus() as daemon, near_peer(daemon) as peer:
        told = await peer.ask("observe", body)
        page = await peer.ask("signals", {"adapter_id": "codex", "thread": "t1"})

    assert told["ok"] == {"through": 1}
    assert page["ok"]["rows"] == [[1, seen["eventType"], seen]]


async def test_an_ok_to_emit_means_that_the_receipts_are_in_the_ledger_byte_for_byte() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.send({"id": "é", "verb": "emit", "body": emit(emission(), emission("größe"))})
        line = await peer.line()
        stored = await recorded(daemon)

    assert [receipt.harness_session_id for receipt in stored] == ["s1", "größe"]
    assert all(encode_json(receipt) in line for receipt in stored)
    assert json.loads(line)["id"] == "é"


async def test_the_same_key_records_nothing_twice_and_other_content_is_refused_in_its_place() -> None:
    body = emit(emission(idempotency_key="k1"))
    other = emit(emission("other", idempotency_key="k1"), emission("s2"))
    async with running_bus() as daemon, near_peer(daemon) as peer:
        first, again = await peer.ask("emit", body), await peer.ask("emit", body)
        refused = await peer.ask("emit", other)

    assert again["ok"]["results"][0]["receipts"] == first["ok"]["results"][0]["receipts"]
    assert again["ok"]["results"][0]["replayed"] is True
    assert [result.get("refusal", {}).get("code") for result in refused["ok"]["results"]] == [
        "duplicate_id_conflict",
        None,
    ]


async def test_a_thousand_emissions_are_one_request() -> None:
    many = [emission(event_id=f"e{number}", idempotency_key=f"k{number}") for number in range(500)]
    async with running_bus() as daemon, near_peer(daemon) as peer:
        answer = await peer.ask("emit", emit(*many))

    assert [result["positions"] for result in answer["ok"]["results"]] == [[number] for number in range(1, 501)]


JUNK = [
    (b"junk", None, "malformed"),
    (b'{"id":1,"id":2,"verb":"ping"}', None, "duplicate_key"),
    (b'{"id":1,"verb":"tick","body":{"client_id":NaN}}', None, "not_finite"),
    (b'{"id":1,"verb":"sessions","body":{"session":["a",1e999]}}', None, "not_finite"),
    (b'{"id":1,"verb":"ping","body":' + b'{"a":' * 40 + b"1" + b"}" * 41, None, "too_deep"),
    (b'{"id":1,"verb":"ping","body":{"a":"' + b"x" * 262_144 + b'"}}', None, "too_large"),
    (b'{"id":"\xff","verb":"ping"}', None, "malformed"),
    (b'{"id":null,"verb":"ping"}', None, "against_contract"),
    (b'{"id":true,"verb":"ping"}', None, "against_contract"),
    (b'{"id":"","verb":"ping"}', None, "against_contract"),
    (b"[1,2,3]", None, "against_contract"),
    (b'{"id":1}', 1, "against_contract"),
    (b'{"id":1,"verb":"PING"}', 1, "against_contract"),
    (b'{"id":1,"verb":"ping","more":1}', 1, "unknown_key"),
    (b'{"id":1,"verb":"ping","body":[]}', 1, "against_contract"),
    (b'{"id":1,"verb":"ping","body":{"more":1}}', 1, "unknown_key"),
    (b'{"id":1,"verb":"nothing"}', 1, "unknown_verb"),
    (b'{"id":1,"verb":"emit","body":{"client_id":"e","emissions":[{}]}}', 1, "against_contract"),
    (b'{"id":1,"verb":"serve","body":{"client_id":"e","events":["lunch"]}}', 1, "against_contract"),
    (b'{"id":1,"verb":"subscribe","body":{"since":"yesterday"}}', 1, "against_contract"),
    (b'{"id":1,"verb":"subscribe","body":{"since":1,"since_epoch_s":1}}', 1, "against_contract"),
    (b'{"id":1,"verb":"subscribe","body":{"since_epoch_s":9007199254740991}}', 1, "against_contract"),
    (b'{"id":1,"verb":"subscribe","body":{"signals":"codex","since":3}}', 1, None),
    (b'{"id":1,"verb":"subscribe","body":{"signals":"codex","since":{"t":"start"}}}', 1, "against_contract"),
    (b'{"id":1,"verb":"unsubscribe","body":{"subscription":7}}', 1, "no_such_subscription"),
]


async def test_an_unreadable_line_is_refused_by_code_and_the_peer_goes_on() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.write(b"\n \r\n\t\n")  # nothing is nothing
        for line, number, code in JUNK:
            await peer.write(line + b"\n")
            answer = await peer.answer(number)
            assert answer["refused"].get("code") == code, line[:80]
            assert answer["refused"]["failure_class"] == "invalid_request"
        assert await peer.ask("ping") == {"id": 0, "ok": {}}


async def test_a_request_that_would_make_the_server_hang_up_is_refused_here() -> None:
    numbers = "[" + ",".join(["0.5"] * 60_000) + "]"  # 240 kB here, 540 kB in MessagePack
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.write(b'{"id":9,"verb":"ping","body":{"a":' + numbers.encode() + b"}}\n")
        assert (await peer.answer(9))["refused"]["code"] == "too_large"
        assert (await peer.ask("ping"))["ok"] == {}


async def test_characters_and_lines_may_be_cut_anywhere() -> None:
    line = json.dumps({"id": "größe 𝄞", "verb": "ping"}, ensure_ascii=False).encode() + b"\r\n"
    async with running_bus() as daemon, near_peer(daemon) as peer:
        for byte in line:
            await peer.write(bytes([byte]))
        await peer.write(line + line)
        assert [(await peer.answer("größe 𝄞"))["ok"] for _ in range(3)] == [{}, {}, {}]


async def test_a_subscription_delivers_every_receipt_while_they_are_emitted() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, "s1", "s2")
        everything = (await peer.ask("subscribe", {"since": "start"}))["ok"]
        session = (await peer.ask("subscribe", {"session": ["codex", "s1"]}))["ok"]
        for number in range(60):
            await peer.send({"id": f"e{number}", "verb": "emit", "body": emit(emission("s1"), emission("s2"))})
        told = await peer.items(everything["subscription"], 122)
        own = await peer.items(session["subscription"], 60)
        stored = await recorded(daemon)

    assert everything["cursor"].endswith(":0")
    assert [item["receipt"]["receipt_id"] for item in told] == [receipt.receipt_id for receipt in stored]
    assert [item["cursor"].partition(":")[2] for item in told] == [str(number) for number in range(1, 123)]
    assert [item["receipt"]["sequence"] for item in own] == list(range(2, 62))


async def test_after_unsubscribe_nothing_comes_and_its_cursor_is_where_another_goes_on() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        first = (await peer.ask("subscribe"))["ok"]
        await emit_many(bus, "s1", "s1")
        told = await peer.items(first["subscription"], 2)
        left = await peer.ask("unsubscribe", {"subscription": first["subscription"]})
        await emit_many(bus, "s1", "s1")
        second = (await peer.ask("subscribe", {"since": left["ok"]["cursor"]}))["ok"]
        more = await peer.items(second["subscription"], 2)
        again = await peer.ask("unsubscribe", {"subscription": first["subscription"]})
        await peer.close_stdin()
        others = await peer.rest()

    assert left["ok"]["cursor"] == told[-1]["cursor"]
    assert [item["receipt"]["sequence"] for item in told + more] == [1, 2, 3, 4]
    assert again["refused"]["code"] == "no_such_subscription"
    assert others == []


@pytest.mark.parametrize("since", [{"since": 2}, {"since_epoch_s": 1}, {"since": "start"}])
async def test_a_subscription_until_the_head_ends_by_itself(since: Message) -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, *["s1"] * 5)
        opened = (await peer.ask("subscribe", since | {"until_head": True}))["ok"]
        skipped = since.get("since", 0) if since.get("since") != "start" else 0
        items = await peer.items(opened["subscription"], 6 - skipped)

    assert [item["receipt"]["sequence"] for item in items[:-1]] == list(range(skipped + 1, 6))
    assert items[-1] == {"subscription": 1, "cursor": items[-2]["cursor"], "ended": {}}


async def test_a_cursor_of_another_history_is_a_gap() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        await emit_many(bus, "s1")
        await peer.ask("subscribe", {"since": "0" * 32 + ":7"})
        gap, item = await peer.items(1, 2)

    assert gap["gap"] == {"epoch": "0" * 32, "after": 7, "until": None, "reason": "epoch_changed", "state_at": 0}
    assert item["receipt"]["sequence"] == 1


async def test_signals_are_followed_thread_by_thread_and_gone_on_with() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, near_peer(daemon) as peer:
        observer = Observer(bus)
        await observer.observe(signal("t1"), signal("t1"))
        opened = (await peer.ask("subscribe", {"signals": "codex", "event": "app_server.item.*"}))["ok"]
        await observer.observe(signal("t1"), signal(""), signal("t1", event="app_server.other"), signal("t2", größe=1))
        told = await peer.items(opened["subscription"], 3)
        left = (await peer.ask("unsubscribe", {"subscription": 1}))["ok"]
        await observer.observe(signal("t2"), signal("t1"))
        body = {"signals": "codex", "since": {item["thread"]: item["cursor"] for item in told}, "until_head": True}
        again = (await peer.ask("subscribe", body))["ok"]
        more = await peer.items(again["subscription"], 4)

    places = [(item["thread"], item["sequence"]) for item in told]
    assert places == [("t1", 3), ("", 1), ("t2", 1)]
    assert told[2]["signal"]["größe"] == 1
    assert opened["cursors"]["t1"] == told[0]["cursor"].replace(":3", ":2")
    assert set(left["cursors"]) == {"t1", "", "t2"}
    assert sorted((item["thread"], item["sequence"]) for item in more[:-1]) == [("t1", 4), ("t1", 5), ("t2", 2)]
    assert more[-1]["ended"] == {}
    assert more[-1]["cursors"]["t1"].endswith(":5")


async def test_the_65th_subscription_is_refused_as_what_only_the_peer_can_mend() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.send(*[{"id": number, "verb": "subscribe"} for number in range(66)])
        answers = [await peer.answer(number) for number in range(66)]
        await peer.ask("unsubscribe", {"subscription": 7})
        after = await peer.ask("subscribe")

    assert sorted(answer["ok"]["subscription"] for answer in answers if "ok" in answer) == list(range(1, 65))
    refused = [answer["refused"] for answer in answers if "refused" in answer]
    assert [(one["code"], one["failure_class"], one["retry_class"]) for one in refused] == [
        ("too_many_subscriptions", "invalid_request", "do_not_retry")
    ] * 2
    assert all("unsubscribe" in one["detail"] for one in refused)
    assert after["ok"]["subscription"] == 65


async def test_two_peers_get_what_the_other_emits() -> None:
    async with running_bus() as daemon, near_peer(daemon) as one, near_peer(daemon) as other:
        for peer in (one, other):
            await peer.ask("subscribe")
        await one.ask("emit", emit(emission("from one"), client_id="one"))
        await other.ask("emit", emit(emission("from other"), client_id="other"))
        received = [[item["receipt"]["harness_session_id"] for item in await peer.items(1, 2)] for peer in (one, other)]

    assert received == [["from one", "from other"]] * 2

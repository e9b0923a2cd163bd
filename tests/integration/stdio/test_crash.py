"""`lifebus dev stdio` beside a broker that is killed: what was answered is kept, nothing comes twice or is left out."""

import pytest

from support.broker_process import broker_process
from support.integration.stdio_peers import Message, emission, emit, raw_peer
from support.patience import PATIENCE
from support.running import short_directory

MANY = 300


async def test_a_killed_broker_costs_neither_an_answer_nor_a_receipt() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, raw_peer(broker.runtime_dir, "--timeout", PATIENCE) as peer:
            await peer.ask("subscribe")
            for number in range(MANY):
                await peer.send({"id": f"e{number}", "verb": "emit", "body": emit(emission(f"s{number}"))})
            answers = [await peer.answer(f"e{number}") for number in range(MANY // 3)]
            await broker.kill()
            async with broker_process(directory):
                answers += [await peer.answer(f"e{number}") for number in range(MANY // 3, MANY)]
                items = await peer.items(1, MANY)

    positions = [answer["ok"]["results"][0]["positions"][0] for answer in answers]
    assert sorted(positions) == list(range(1, MANY + 1))
    assert [int(item["cursor"].partition(":")[2]) for item in items] == list(range(1, MANY + 1))
    acknowledged = {answer["ok"]["results"][0]["receipts"][0]["receipt_id"] for answer in answers}
    assert {item["receipt"]["receipt_id"] for item in items} == acknowledged


@pytest.mark.parametrize("acks", [63, 64])
async def test_acks_count_among_the_questions_under_way_and_are_refused_after_the_timeout(acks: int) -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, raw_peer(broker.runtime_dir, "--timeout", "1s") as peer:
            await peer.ask("emit", emit(emission("s1")))
            await peer.ask("subscribe", {"name": "sync", "since": "start"})
            (item,) = await peer.items(1, 1)
            await broker.kill()
            body = {"subscription": 1, "cursors": [item["cursor"]]}
            asked: list[Message] = [{"id": number, "verb": "ack", "body": body} for number in range(acks)]
            await peer.send(*asked, {"id": "behind", "verb": "nonsense"})
            answers = [await peer.wait(lambda message: "id" in message) for _ in range(acks + 1)]
            async with broker_process(directory):
                while "ok" not in await peer.ask("ack", body):
                    pass
                (state,) = (await peer.ask("cursors"))["ok"]

    refused = {answer["id"]: answer["refused"] for answer in answers}
    assert (answers[0]["id"] == "behind") is (acks < 64), "the 65th question is read when there is room"
    assert refused.pop("behind")["code"] == "unknown_verb"
    assert {(one["failure_class"], one["retry_class"]) for one in refused.values()} == {("timeout", "safe_retry")}
    assert state["position"] == 1

"""`lifebus stdio` beside a broker that is killed: what was answered is kept, nothing is delivered twice or left out."""

from support.broker_process import broker_process
from support.integration.stdio_peers import emission, emit, raw_peer
from support.running import short_directory

MANY = 300


async def test_a_killed_broker_costs_neither_an_answer_nor_a_receipt() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, raw_peer(broker.runtime_dir, "--timeout", "12s") as peer:
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

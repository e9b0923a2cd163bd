"""The descriptions of the gateway: generated, written down, and true of what is really sent."""

import json
import sys
from typing import Any

import jsonschema
import pytest

from lifebus_transports.http.documents.asyncapi import asyncapi
from lifebus_transports.http.documents.openapi import openapi
from lifebus_transports.http.operations.table import OPERATIONS, bind
from support.integration.observing import signal
from support.paths import REPOSITORY
from support.running import connected
from support.transports.gateway import emit, next_frame, running_gateway

DOCUMENTS = {"openapi": openapi, "asyncapi": asyncapi}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_description_in_docs_is_the_one_that_is_generated(name: str) -> None:
    """`python tests/transports/http/test_documents.py` writes them."""
    written = json.loads((REPOSITORY / f"docs/{name}.json").read_text())
    assert written == DOCUMENTS[name]()


async def test_the_gateway_answers_with_its_descriptions() -> None:
    async with running_gateway() as (_, address), address.client() as client:
        for name, make in DOCUMENTS.items():
            assert (await client.get(f"/api/{name}.json")).json() == make()


async def test_every_frame_of_a_stream_is_as_it_is_described() -> None:
    schemas = asyncapi()["components"]["schemas"]
    topics = "?topic=receipts&topic=signals/codex/t1&from=oldest"
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.socket(topics) as socket:
        await emit(bus, "s1")
        await daemon.signals.record("o", 1, "codex", [signal()])
        frames = [await next_frame(socket) for _ in range(3)]
        await socket.send('{"type":"ping"}')
        await socket.send("?")
        frames += [await next_frame(socket) for _ in range(2)]
    kinds = {"ready": "ReadyFrame", "pong": "PongFrame", "error": "ErrorFrame"}
    for frame in frames:
        check(frame, schemas, kinds.get(frame["type"], "EventFrame"))
    receipt = next(frame["payload"] for frame in frames if frame["type"] == "receipt")
    check(receipt, schemas, "ReceiptPayload")
    assert {frame["type"] for frame in frames} >= {*kinds, "receipt"}


async def test_every_answer_is_as_it_is_described() -> None:
    described = openapi()
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "s1")
        await daemon.signals.record("o", 1, "codex", [signal()])
        for path, query in {
            "/api/health": "",
            "/api/status": "",
            "/api/receipts": "?limit=1",
            "/api/sessions": "",
            "/api/signals/{adapterId}": "?thread=t1",
            "/api/signals/{adapterId}/threads": "",
        }.items():
            answer = await client.get(path.replace("{adapterId}", "codex") + query)
            content = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
            assert answer.json()["status"] == "ok"
            check(answer.json(), described["components"]["schemas"], content["schema"]["$ref"].rpartition("/")[2])
        for wrong in ("?limit=0", "?after=x", "?none=1", "?session=s", "?limit=1&limit=2"):
            answer = await client.get(f"/api/receipts{wrong}")
            assert answer.status_code == 400, wrong
            check(answer.json(), described["components"]["schemas"], "ErrorBody")


def check(found: Any, schemas: dict[str, Any], name: str) -> None:
    """Check a document with a schema that knows the others by reference."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    jsonschema.Draft202012Validator(schema).validate(found)


def test_a_route_without_anything_that_serves_it_does_not_start() -> None:
    async def nothing(_: object) -> None: ...

    served = {operation.name: nothing for operation in OPERATIONS}
    assert set(bind([served])) == set(served)
    with pytest.raises(ValueError, match="nothing serves"):
        bind([])
    with pytest.raises(ValueError, match="served twice"):
        bind([served, {"health": nothing}])
    with pytest.raises(ValueError, match="no operation"):
        bind([served, {"none": nothing}])


def test_every_route_stands_in_the_documentation() -> None:
    text = (REPOSITORY / "docs/gateway.md").read_text()
    for operation in OPERATIONS:
        assert f"`{operation.method} {operation.path}`" in text


if __name__ == "__main__":
    for name, make in DOCUMENTS.items():
        sys.stdout.write(f"docs/{name}.json\n")
        (REPOSITORY / f"docs/{name}.json").write_text(json.dumps(make(), indent=2, ensure_ascii=False) + "\n")

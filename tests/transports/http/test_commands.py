"""Commands of a WebSocket: what is not understood is said, by name, and changes nothing."""

import json
from typing import Any, Final

import pytest

from lifebus_transports.http.documents.asyncapi import asyncapi
from support.running import connected
from support.transports.gateway import emit, next_frame, running_gateway

WRONG: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"type": "subscribe", "topic": ["receipts"]}, "`topic`"),
    ({"type": "subscribe", "topics": ["queue/p"], "lasteventid": "x"}, "`lasteventid`"),
    ({"type": "subscribe", "topics": ["queue/p"], "begin": "oldest"}, "`begin`"),
    ({"type": "subscribe", "topics": ["queue/p"], "session": "s"}, "`session`"),
    ({"type": "subscribe", "topics": ["queue/p"], "": 1}, "``"),
    ({"type": "unsubscribe", "topics": ["receipts"]}, "`topics`"),
    ({"type": "ping", "id": 7}, "`id`"),
)


async def test_an_unknown_key_is_named_and_what_is_followed_stays() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.socket() as socket:
        await next_frame(socket)
        for number, (command, named) in enumerate(WRONG, 1):
            await socket.send(json.dumps(command))
            answer = await next_frame(socket)
            assert (answer["type"], answer["payload"].get("code")) == ("error", "invalid_request")
            assert named in answer["payload"]["message"]
            await emit(bus, "s")
            frame = await next_frame(socket)
            assert (frame["type"], frame["payload"]["position"]) == ("receipt", number)


@pytest.mark.parametrize("path", ["/api/events", "/api/receipts"])
async def test_an_unknown_parameter_is_named(path: str) -> None:
    async with running_gateway() as (_, address), address.client() as client:
        for query, named in (
            ("?topics=receipts", "`topics`"),
            ("?from=now&lastId=x", "`lastId`" if "ev" in path else "`from`"),
        ):
            answer = await client.get(path + query)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
            assert named in json.dumps(answer.json())


def test_the_description_of_the_streams_says_that_there_are_no_other_keys() -> None:
    schemas = asyncapi()["components"]["schemas"]
    for name in ("SubscribeCommand", "UnsubscribeCommand", "PingCommand"):
        assert schemas[name]["additionalProperties"] is False

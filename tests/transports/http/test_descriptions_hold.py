"""The gateway against what OpenAPI says of it: whatever is sent, the answer is one that stands there."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import anyio
import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

from lifebus_transports.http.documents.openapi import openapi
from support.effort import TORTURE, effort
from support.patience import PATIENCE_S
from support.transports.gateway import Address, running_gateway

BOUNDED = hypothesis.settings(
    max_examples=effort(2, 400),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=not TORTURE,
)


@contextmanager
def gateway_beside() -> Generator[Address]:
    """A broker with a gateway in a thread of its own, because what sends requests here blocks."""
    loop = asyncio.new_event_loop()
    ready: asyncio.Future[Address] = loop.create_future()
    over = asyncio.Event()

    async def serve() -> None:
        async with running_gateway() as (_, address):
            ready.set_result(address)
            await over.wait()

    async def wait() -> Address:
        with anyio.fail_after(PATIENCE_S):
            return await ready

    thread = Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(wait(), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)
        loop.close()


def operations() -> Any:
    """Every route that ends; the stream of events is followed elsewhere."""
    described = openapi()
    del described["paths"]["/api/events"]
    # Here and not above: it takes seconds to import, which every worker of the suite would wait for.
    from schemathesis import openapi as loaders  # noqa: PLC0415

    return loaders.from_dict(described)


def checks() -> list[Any]:
    """What is asked of every answer: no failure of the gateway, a status and a body as described."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415  as above
    from schemathesis.specs.openapi.checks import (  # noqa: PLC0415
        response_schema_conformance,
        status_code_conformance,
    )

    return [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.mark.parametrize("has_token", [True, False])
def test_every_answer_to_whatever_is_sent_stands_in_the_description(has_token: bool) -> None:
    seen, wanted = set[str](), checks()
    with gateway_beside() as address:
        headers = address.bearer if has_token else {}
        for found in operations().get_all_operations():
            operation = found.ok()

            @BOUNDED
            @hypothesis.given(case=operation.as_strategy())
            def send(case: Any) -> None:
                # The token of the test, not one that was made up.
                case.headers.pop("Authorization", None)
                answer = case.call(base_url=address.url, headers=headers, timeout=PATIENCE_S)
                if has_token:
                    case.validate_response(answer, checks=wanted)
                else:
                    assert answer.status_code in {400, 401, 403, 429}, (case.path, answer.status_code)
                    assert "x-content-type-options" in answer.headers

            send()
            seen.add(operation.definition.raw["operationId"])
    assert len(seen) == len(openapi()["paths"]) - 1

"""What calls to models cost by the price lists of genai-prices, where the extra ``lifebus[prices]`` is installed.

lifebus has no price list of its own: prices change, and a wrong sum is worse than none.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial
from typing import Final

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import CostRecord

EXTRA: Final = "lifebus[prices]"
"""What is to be installed for prices."""

_MICROS: Final = 1_000_000

_log = structlog.get_logger("lifebus.runtime")


def price_of(record: CostRecord, at_ms: int) -> int:
    """Return the price of a record's calls in millionths of a US dollar, by the prices of that time.

    Blocks: the first call reads the price lists, which takes seconds.

    Raises:
        InvalidRequest: ``no_prices``: the extra is not installed; ``unknown_model``: no list has a price for it.
    """
    if record.model is None:
        raise InvalidRequest("a call without a model has no price", code="unknown_model", field="model")
    try:
        # Only here: it takes seconds and tens of megabytes, and most brokers never count money.
        from genai_prices import Usage, calc_price  # noqa: PLC0415
    except ImportError:
        raise InvalidRequest(
            f"`{record.model}` is counted without a price: install `{EXTRA}`, or give `cost_micros`", code="no_prices"
        ) from None
    usage = Usage(
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        cache_read_tokens=record.cache_read_tokens,
        cache_write_tokens=record.cache_write_tokens,
    )
    try:
        found = calc_price(usage, record.model, genai_request_timestamp=datetime.fromtimestamp(at_ms / 1000, UTC))
    except (LookupError, ValueError) as fault:
        raise InvalidRequest(
            f"no price is known for `{record.model}` ({fault}); its calls are counted as unpriced",
            code="unknown_model",
            field="model",
        ) from fault
    return micros_of(found.total_price)


def micros_of(dollars: Decimal) -> int:
    """Return an amount in US dollars as whole millionths, a half to the even one."""
    return int((dollars * _MICROS).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


async def priced(cost: CostRecord, at_ms: int) -> tuple[CostRecord, InvalidRequest | None]:
    """Return a record with its price, and why it has none where it names a model that has none."""
    if cost.cost_micros is not None or cost.model is None:
        return cost, None
    try:
        # The first look at the price lists takes seconds.
        micros = await anyio.to_thread.run_sync(partial(price_of, cost, at_ms))
    except InvalidRequest as fault:
        return cost, fault
    return structs.replace(cost, cost_micros=micros), None


async def all_priced(costs: Sequence[CostRecord], at_ms: int) -> tuple[CostRecord, ...]:
    """Return records with their prices; those without one are counted as unpriced, and are named in the log once."""
    found: list[CostRecord] = []
    for cost in costs:
        one, fault = await priced(cost, at_ms)
        if fault is not None and not any(cost.model == before.model for before in found):
            _log.warning("calls_unpriced", run_id=cost.run_id, step=cost.step_id, code=fault.code, model=cost.model)
        found.append(one)
    return tuple(found)

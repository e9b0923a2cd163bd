"""What phases cost, in dollars as the contract has it and in millionths of one as the bus counts it.  Pure."""

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from lifebus.loa.types import Cost, LoaCosts
from lifebus_contract.runs import CostRecord, CostSummary

_MICROS: Final = 1_000_000


def cost_record(cost: Cost, run_id: str) -> CostRecord:
    """Return what a phase has cost as the bus counts it."""
    return CostRecord(
        run_id=run_id,
        step_id=cost.phase,
        input_tokens=cost.tokens_input,
        output_tokens=cost.tokens_output,
        calls=cost.api_calls,
        cost_micros=micros_of(cost.estimated_usd),
    )


def loa_costs(found: CostSummary) -> LoaCosts:
    """Return what a run has cost as the contract has it."""
    return LoaCosts(
        tokens_input=found.input_tokens,
        tokens_output=found.output_tokens,
        api_calls=found.calls,
        estimated_usd=found.cost_micros / _MICROS,
        unpriced_calls=found.unpriced_calls,
    )


def micros_of(dollars: float) -> int:
    """Return dollars in millionths: by the digits that were written, so that 0.1 is 100,000 and nothing else."""
    return int((Decimal(repr(dollars)) * _MICROS).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))

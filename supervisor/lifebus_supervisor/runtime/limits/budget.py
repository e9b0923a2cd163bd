"""The budgets of a run: time, tokens and money, and who is asked before more is used.  Pure.

A resource counts as near its limit from a share of it on, that share included.  Then a person is asked, and nothing
begins meanwhile.  Whoever says `proceed` grants the same budget again, counted from what is used by then.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from lifebus_contract.fields import MAX_INTEGER
from lifebus_contract.flows import Budget
from lifebus_contract.questions import Modifiable

TIME: Final = "budget.time"
"""The time in which at least one try ran."""

TOKENS: Final = "budget.tokens"
"""The tokens of all calls."""

COST: Final = "budget.cost"
"""The money that all calls cost whose price is known."""

_FIELDS: Final = {TIME: "time_ms", TOKENS: "tokens", COST: "cost_micros"}
_PERCENT: Final = 100


class BudgetUse(Struct, frozen=True, kw_only=True):
    """How much is used of each resource; the fields are those of a budget."""

    time_ms: int = 0
    tokens: int = 0
    cost_micros: int = 0


class Grant(Struct, frozen=True, kw_only=True):
    """What a run may use: `limits`, counted from what was used at a time, `since`."""

    limits: Budget
    since: BudgetUse = BudgetUse()

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        limits = self.limits
        return limits.time_ms is not None or limits.tokens is not None or limits.cost_micros is not None


def is_near(used: int, limit: int, percent: int) -> bool:
    """Whether so much is near a limit: from that share of it on, itself included."""
    return used * _PERCENT >= limit * percent


def near_from(limit: int, percent: int) -> int:
    """Return the least use that is near a limit."""
    return -(-limit * percent // _PERCENT)


def left_of(grant: Grant, use: BudgetUse, resource: str) -> int | None:
    """Return how much is left of a resource; None without a limit."""
    limit = getattr(grant.limits, _FIELDS[resource])
    return None if limit is None else max(0, limit - _used(grant, use, resource))


def near_limits(grant: Grant, use: BudgetUse, percent: int) -> tuple[str, ...]:
    """Return the resources of a budget that are near their limits."""
    if not grant.is_limited:
        return ()
    limits = {name: getattr(grant.limits, field) for name, field in _FIELDS.items()}
    return tuple(
        name for name, limit in limits.items() if limit is not None and is_near(_used(grant, use, name), limit, percent)
    )


def granted_again(grant: Grant, use: BudgetUse, resources: tuple[str, ...]) -> Grant:
    """Return what may be used after somebody has agreed to more of some resources."""
    fields = [_FIELDS[name] for name in resources if name in _FIELDS]
    return structs.replace(grant, since=structs.replace(grant.since, **{one: getattr(use, one) for one in fields}))


def granted_anew(grant: Grant, values: Mapping[str, object]) -> Grant:
    """Return what may be used after somebody has named other limits; each counts from the beginning of the run.

    Values that are no limits are passed over: the inbox has checked them before.
    """
    limits = {
        name: value
        for name, value in values.items()
        if name in _FIELDS.values() and isinstance(value, int) and 0 < value <= MAX_INTEGER
    }
    since = structs.replace(grant.since, **dict.fromkeys(limits, 0))
    return Grant(limits=structs.replace(grant.limits, **limits), since=since)


def reason_of(grant: Grant, use: BudgetUse, resources: tuple[str, ...]) -> str:
    """Return for people how much is used of some resources."""
    said = [_said(name, _used(grant, use, name), getattr(grant.limits, _FIELDS[name]) or 0) for name in resources]
    return f"{'; '.join(said)}. Who says `proceed` grants the same again from here on."


def modifiable(grant: Grant) -> tuple[Modifiable, ...]:
    """Return the limits that an answer may change."""
    return tuple(
        Modifiable(name=field, kind="integer", help=_HELP[field])
        for field in _FIELDS.values()
        if getattr(grant.limits, field) is not None
    )


_HELP: Final = {
    "time_ms": "the time of the whole run, in milliseconds",
    "tokens": "the tokens of the whole run",
    "cost_micros": "the money of the whole run, in millionths of a US dollar",
}


def _used(grant: Grant, use: BudgetUse, resource: str) -> int:
    field = _FIELDS[resource]
    return int(getattr(use, field) - getattr(grant.since, field))


def _said(resource: str, used: int, limit: int) -> str:
    share = f"({used * _PERCENT // limit} %)" if limit else ""
    if resource == COST:
        return f"{_amounts(used, limit, 1_000_000)} US dollars are spent {share}"
    if resource == TIME:
        return f"{_amounts(used, limit, 1_000)} s are over {share}"
    return f"{used:,} of {limit:,} tokens are used {share}"


def _amounts(used: int, limit: int, unit: int) -> str:
    """Return how much of a limit is used; rounded to whole units, a share of a small one would look like all of it."""
    places = 2 if limit >= unit else 4
    return f"{used / unit:.{places}f} of {limit / unit:.{places}f}"

"""Which emissions of one message have to wait for each other.  Pure."""

from collections.abc import Sequence

from lifebus_contract import Emission


def ordered_groups(emissions: Sequence[Emission]) -> list[list[int]]:
    """Return the indices of the emissions, those of one invocation or one session together and in order.

    Order is promised within a session only, so the groups may run side by side (docs/contract.md 6.3).
    """
    groups: list[list[int]] = []
    # An emission has up to two names, its invocation and its session: it joins the group that knows either.
    by_name: dict[tuple[str, ...], list[int]] = {}
    for index, emission in enumerate(emissions):
        request = emission.request
        names: list[tuple[str, ...]] = [(request.invocation_id,)]
        if request.harness_session_id is not None:
            names.append((request.adapter_id, request.harness_session_id))
        group: list[int] | None = next((by_name[name] for name in names if name in by_name), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(index)
        for name in names:
            by_name.setdefault(name, group)  # the first group of a name keeps it
    return groups

"""The state of a run as its records make it."""

import msgspec

from lifebus_contract.flows import FlowDefinition
from lifebus_supervisor.runtime.rules.run_reducer import reduce_run
from lifebus_supervisor.runtime.run_records import RunSubmitted
from lifebus_supervisor.runtime.run_state import RunState
from support.flows import flow, step


def test_runs_of_one_flow_share_its_steps() -> None:
    def started(root: str) -> RunState:
        # Each submission is decoded anew.
        text = msgspec.json.encode(flow(root, step("a", setting={"A": "1"}), step("b", "a")))
        definition = msgspec.json.decode(text, type=FlowDefinition)
        return reduce_run(root[1:], [RunSubmitted(at_ms=1, definition=definition, by="me")])

    one, other = started("/one"), started("/other")
    assert one.definition.steps is other.definition.steps
    assert one.definition.codes is other.definition.codes
    assert (one.definition.root, other.definition.root) == ("/one", "/other")
    assert one.steps["a"].definition.setting == {"A": "1"}

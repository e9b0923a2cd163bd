"""Flow files: phases in TOML, made into the flow that the bus runs (docs/flows.md)."""

from lifebus.flows.faults import FlowFault, FlowFileError
from lifebus.flows.reading import parse_flow, read_flow

__all__ = ["FlowFault", "FlowFileError", "parse_flow", "read_flow"]

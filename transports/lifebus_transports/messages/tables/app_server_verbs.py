"""The verbs of app-servers' observers (docs/app-server.md, docs/steering.md).  Pure."""

from typing import Final

from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.signals import (
    Observe,
    ObserveAnswer,
    SignalBackfill,
    SignalPage,
    ThreadHeads,
    ThreadsQuery,
)
from lifebus_transports.messages.steering import AwaitOrder, DecidedApproval, NextOrder, OrderReport, PersonDecision
from lifebus_transports.messages.verb_types import (
    OBSERVATIONS,
    READS,
    STEERING,
    STEERING_REPORTS,
    Access,
    Repeat,
    Verb,
)

TABLE: Final = (
    Verb(
        name="observe",
        summary="Records what an observer of an app-server saw.",
        body=Observe,
        answer=ObserveAnswer,
        pool=OBSERVATIONS,
        records=True,
        embedded=("observations", "signal"),
    ),
    Verb(
        name="steer",
        summary="Waits for the next order for an observer's app-server.",
        body=AwaitOrder,
        answer=NextOrder,
        pool=STEERING,
        wait_key="wait_ms",
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="steered",
        summary="Says what became of an order for an app-server.",
        body=OrderReport,
        answer=Nothing,
        pool=STEERING_REPORTS,
    ),
    Verb(
        name="approval_decide",
        summary="Has an app-server told how a person decided an approval.",
        body=PersonDecision,
        answer=DecidedApproval,
        access=Access.OPERATOR,
        pool=STEERING,
        timeout_factor=4,
    ),
    Verb(
        name="signals",
        summary="Returns a page of signals of one thread.",
        body=SignalBackfill,
        answer=SignalPage,
        pool=READS,
    ),
    Verb(
        name="threads",
        summary="Lists the heads of an adapter's threads, or of one.",
        body=ThreadsQuery,
        answer=ThreadHeads,
        pool=READS,
    ),
)
"""Their part of the table of verbs."""

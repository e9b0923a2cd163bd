"""Imports point down only, the pure halves stay pure, and no client's words enter the core."""

import re

from support.layering import RULES, modules, rule_for, violations
from support.paths import REPOSITORY

MODULES = dict(modules(REPOSITORY))
CLIENT_WORDS = re.compile(r"\b(ccd|rlm|leases?|polic(?:y|ies))\b", re.IGNORECASE)
SPECIFIED = (
    "lifebus_broker.snapshots.compactions",
    "lifebus_broker.snapshots.state_follower",
    "lifebus_broker.snapshots",
)
"""Where a policy is that of a compaction (docs/ledger.md, "Compactions")."""


def test_a_module_imports_only_what_lies_below_it() -> None:
    assert [fault for name, path in MODULES.items() for fault in violations(name, path.read_text())] == []


def test_every_package_of_the_house_is_looked_at() -> None:
    assert {name.split(".")[0] for name in MODULES} == {name.split(".")[0] for name in RULES}


def test_no_word_that_belongs_to_a_client_stands_in_contract_or_broker() -> None:
    core = {name: path for name, path in MODULES.items() if name.startswith(("lifebus_contract", "lifebus_broker"))}
    found = {name: {word.lower() for word in CLIENT_WORDS.findall(path.read_text())} for name, path in core.items()}
    for name in found:
        found[name] -= {"policy", "policies"} if name.startswith(SPECIFIED) else set()
    assert {name: words for name, words in found.items() if words} == {}


FORBIDDEN = [
    ("lifebus_contract.receipt", "import zmq"),
    ("lifebus_contract.receipt", "import asyncio"),
    ("lifebus_contract.ids", "import random"),
    ("lifebus_adapters.codex", "from datetime import UTC, datetime\n\nmoment = datetime.now(UTC)"),
    ("lifebus_contract.codec", "from lifebus_broker.ports import Row"),
    ("lifebus_contract.codec", "def f():\n    import lifebus_transports.framing.frames"),
    ("lifebus_contract.codec", "async def f(): ..."),
    ("lifebus_adapters.codex", "import subprocess"),
    ("lifebus_adapters.codex", "from lifebus_broker.routing.registry import Registry"),
    ("lifebus_broker.routing.router", "import lifebus_transports"),
    ("lifebus_broker.routing.router", "import lifebus_adapters"),
    ("lifebus_broker.routing.router", "import zmq"),
    ("lifebus_broker.routing.router", "import socket"),
    ("lifebus_broker.ledger.batching", "import apsw"),
    ("lifebus_broker.ledger.sqlite.ledger", "import nats"),
    ("lifebus_broker.ledger.sqlite.ledger", "import sqlite3"),
    ("lifebus_broker.routing.negotiation", '"""Pure."""\nimport anyio'),
    ("lifebus_broker.routing.placement", '"""Pure."""\nasync def decide(): ...'),
    ("lifebus_broker.routing.placement", '"""Pure."""\nfrom lifebus_broker.routing.bus import Bus'),
    ("lifebus_broker.state.heads", "from lifebus_broker.routing.bus import Bus"),
    ("lifebus_transports.framing.frames", "import lifebus_broker.routing.bus"),
    ("lifebus_transports.framing.frames", "from lifebus.client import connect"),
    ("lifebus_supervisor.daemon.composition", "import lifebus"),
    ("lifebus_supervisor.daemon.composition", "import requests"),
    ("lifebus_supervisor.daemon.composition", "from lifebus_admin.inspection import inspect"),
    ("lifebus_supervisor.api.verbs", "import zmq"),
    ("lifebus_supervisor.jobs.retention", "import apsw"),
    ("lifebus_admin.inspection", "import apsw"),
    ("lifebus.client", "def f():\n    from lifebus_broker.ports import Row"),
    ("lifebus.client", "import lifebus_supervisor"),
    ("lifebus.cli", "import lifebus_supervisor.daemon.composition"),
    ("lifebus.cli.read.receipts", "from rich.table import Table"),
    ("lifebus.cli.read.receipts", "def f():\n    import lifebus_broker"),
    ("lifebus.hook", "import lifebus_contract"),
    ("lifebus.hook", "import msgpack"),
    ("lifebus.hook", "def f():\n    import dataclasses"),
    ("lifebus_broker.routing.router", "from .ports import Row"),
]
ALLOWED = [
    ("lifebus_contract.codec", "import json, msgspec\nfrom lifebus_contract.errors import InvalidRequest"),
    ("lifebus_adapters.codex", "from datetime import UTC, datetime\n\nmoment = datetime.fromtimestamp(0, UTC)"),
    ("lifebus_broker.ledger.sqlite.ledger", "import apsw"),
    ("lifebus_broker.ledger.sqlite.reader", "import apsw"),
    ("lifebus_broker.routing.router", "import anyio\nasync def f(): ..."),
    ("lifebus_broker.routing.placement", "from lifebus_broker.ports import Refusal"),
    ("lifebus_transports.framing.frames", "import zmq, msgpack\nfrom lifebus_adapters.adapter import HookCall"),
    (
        "lifebus_supervisor.daemon.composition",
        "import lifebus_broker.routing.bus, lifebus_transports.framing.frames",
    ),
    ("lifebus.cli", "def up():\n    from lifebus_supervisor.daemon.lifecycle import run"),
    ("lifebus.hook", "import sys, os, _socket"),
]


def test_the_guard_bites() -> None:
    assert [(module, source) for module, source in FORBIDDEN if not violations(module, source)] == []


def test_the_guard_lets_through_what_the_table_allows() -> None:
    assert [fault for module, source in ALLOWED for fault in violations(module, source)] == []


def test_the_longest_prefix_decides() -> None:
    assert rule_for("lifebus.client") is RULES["lifebus"]
    assert rule_for("lifebus.hook") is RULES["lifebus.hook"]
    assert rule_for("lifebus_broker.ledger.sqlite.writing.writer") is RULES["lifebus_broker.ledger.sqlite"]
    assert rule_for("lifebus_transports.framing.frames") is RULES["lifebus_transports"]

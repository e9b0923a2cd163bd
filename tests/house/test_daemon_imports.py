"""Importing the daemon loads nothing that only commands run."""

import os
import subprocess
import sys

from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.running import short_directory

COMMANDS_ALONE = (
    "lifebus_admin",
    "lifebus_broker.snapshots.boot",
    "lifebus_broker.snapshots.archive",
    "lifebus_broker.exports",
    "lifebus_broker.ledger.sqlite.transfer.importer",
)
"""Modules and packages; one that begins like these in its last part counts as well."""

LOADED = "import sys, lifebus_supervisor.daemon.lifecycle; print(*sys.modules, sep='\\n')"

NEVER_USED = (
    "lifebus_supervisor.actions",
    "lifebus_supervisor.extensions",
    "lifebus_supervisor.queue",
    "lifebus_supervisor.runtime",
    "lifebus_supervisor.synthesis",
    "lifebus_supervisor.transcripts",
    "lifebus_supervisor.worker_turns",
    "lifebus_supervisor.daemon.session_work",
    "lifebus_supervisor.daemon.flow_work",
    "lifebus_transports.messages.tables",
    "lifebus_contract.extensions",
    "lifebus_contract.jobs",
    "lifebus_contract.transcripts",
)
"""What a broker loads when it is first used, with all that is in it."""

SETTINGS = {
    "lifebus_supervisor.extensions",
    "lifebus_supervisor.extensions.root_paths",
    "lifebus_supervisor.extensions.settings",
    "lifebus_supervisor.runtime",
    "lifebus_supervisor.runtime.bus",
    "lifebus_supervisor.runtime.bus.manifest",
    "lifebus_supervisor.runtime.inbox",
    "lifebus_supervisor.runtime.inbox.quiet_hours",
    "lifebus_supervisor.runtime.inbox.settings",
    "lifebus_supervisor.runtime.inbox.templates",
    "lifebus_transports.messages.tables",
}
"""What of it a start has to know."""

LIBRARIES = ("cyclopts", "msgpack", "starlette", "tomllib", "uvicorn", "watchfiles", "yaml")

API = """
import importlib, pkgutil, sys, lifebus_supervisor.api as api
for module in pkgutil.iter_modules(api.__path__):
    importlib.import_module(f"{api.__name__}.{module.name}")
print(*sys.modules, sep='\\n')
"""


def loaded_by(*program: str) -> list[str]:
    """Return what a new interpreter prints, word by word: the modules that it holds once it has run the program."""
    done = subprocess.run(
        [sys.executable, *program],
        env={"PATH": os.defpath, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout.split()


def test_the_daemon_loads_nothing_of_admin_boot_archive_export_or_import() -> None:
    loaded = loaded_by("-c", LOADED)
    assert "lifebus_broker.snapshots.state_follower" in loaded
    assert [name for name in loaded if name.startswith(COMMANDS_ALONE)] == []


def test_a_broker_that_serves_emissions_and_hooks_loads_nothing_of_the_parts_that_it_does_not_use() -> None:
    with short_directory() as directory:
        receipts, *loaded = loaded_by(str(SUPPORT / "serving_broker.py"), str(directory))
    assert int(receipts) >= 2
    assert {name for name in loaded if name.startswith(NEVER_USED)} == SETTINGS
    assert {name for name in loaded if name in LIBRARIES} == set()


def test_the_api_loads_no_transport() -> None:
    loaded = loaded_by("-c", API)
    assert "lifebus_supervisor.api.emissions" in loaded
    assert [
        name for name in loaded if name.startswith(("zmq", "lifebus_transports.zmq", "lifebus_transports.framing"))
    ] == []

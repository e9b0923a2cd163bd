"""Importing the daemon loads nothing that only commands run."""

import subprocess
import sys

from support.patience import PATIENCE_S

COMMANDS_ALONE = (
    "lifebus_admin",
    "lifebus_broker.snapshots.boot",
    "lifebus_broker.snapshots.archive",
    "lifebus_broker.exports",
    "lifebus_broker.ledger.sqlite.transfer.importer",
)
"""Modules and packages; one that begins like these in its last part counts as well."""

LOADED = "import sys, lifebus_supervisor.daemon.lifecycle; print(*sys.modules, sep='\\n')"

API = """
import importlib, pkgutil, sys, lifebus_supervisor.api as api
for module in pkgutil.iter_modules(api.__path__):
    importlib.import_module(f"{api.__name__}.{module.name}")
print(*sys.modules, sep='\\n')
"""


def loaded_by(program: str) -> list[str]:
    """Return the modules that a new interpreter holds once it has run the program."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout.split()


def test_the_daemon_loads_nothing_of_admin_boot_archive_export_or_import() -> None:
    loaded = loaded_by(LOADED)
    assert "lifebus_broker.snapshots.state_follower" in loaded
    assert [name for name in loaded if name.startswith(COMMANDS_ALONE)] == []


def test_the_api_loads_no_transport() -> None:
    loaded = loaded_by(API)
    assert "lifebus_supervisor.api.emissions" in loaded
    assert [
        name for name in loaded if name.startswith(("zmq", "lifebus_transports.zmq", "lifebus_transports.framing"))
    ] == []

"""Importing the daemon loads nothing that only commands run."""

import subprocess
import sys

COMMANDS_ALONE = (
    "lifebus_admin",
    "lifebus_broker.snapshots.boot",
    "lifebus_broker.snapshots.archive",
    "lifebus_broker.exports",
    "lifebus_broker.ledger.sqlite.transfer.importer",
)
"""Modules and packages; one that begins like these in its last part counts as well."""

LOADED = "import sys, lifebus_supervisor.daemon.lifecycle; print(*sys.modules, sep='\\n')"


def loaded_by_the_daemon() -> list[str]:
    """Return the modules that a fresh interpreter holds once it has imported the daemon."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_the_daemon_loads_nothing_of_admin_boot_archive_export_or_import() -> None:
    loaded = loaded_by_the_daemon()
    assert "lifebus_broker.snapshots.state_follower" in loaded
    assert [name for name in loaded if name.startswith(COMMANDS_ALONE)] == []

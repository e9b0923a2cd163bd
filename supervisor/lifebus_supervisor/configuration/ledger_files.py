"""Whether the files of the ledger that the settings name are this user's alone."""

from lifebus_broker.ledger import factory
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.ownership import check_parents, foreign_file


def check_ledger_files(settings: Settings) -> None:
    """Check that nobody else made a file of the ledger, may write to one, or can exchange one; blocks.

    Its log and its index count as well: SQLite takes in what it finds there.

    Raises:
        LifebusError: `foreign_file`; `directory_owner` or `directory_mode` for a directory above.
    """
    for path in factory.files_of_ledger(settings.ledger_location):
        check_parents(path)
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if wrong := foreign_file(path, found):
            raise LifebusError(f"{path} is not taken for a file of the ledger: {wrong}", code="foreign_file")

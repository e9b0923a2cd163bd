"""Where the repository's parts are, for tests that read them."""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
REPOSITORY: Final = TESTS.parent
DOCS: Final = REPOSITORY / "docs"
EXAMPLES: Final = DOCS / "examples"
CAPTURES: Final = TESTS / "data" / "captures"
SUPPORT: Final = TESTS / "support"
LEDGER_FORMATS: Final = TESTS / "broker" / "ledger"
"""Ledger files of older formats, as SQL."""

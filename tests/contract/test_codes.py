"""The table of error codes against what the product raises, decides by and documents."""

from contract.write_codes import DOCUMENT, with_table
from lifebus_contract import DEFAULT_RETRY
from lifebus_contract.codes import CODES, GROUPS
from lifebus_transports.processes.outcomes import Failure
from support.error_codes import BY_TABLE, compared, uses

BY_THE_RUN = {failure.value for failure in Failure}
"""Codes that are looked up while a command runs: no source names them beside `code=`."""


def test_every_code_that_is_raised_is_in_the_table_and_every_code_of_the_table_is_raised() -> None:
    raised = {use.code for use in uses()} | BY_THE_RUN
    assert {use.code: use.where for use in uses() if use.code not in CODES} == {}
    assert CODES.keys() - raised == set()


def test_a_code_is_raised_with_the_classes_that_the_table_says_and_no_other() -> None:
    found: dict[str, set[object]] = {}
    for use in uses():
        found.setdefault(use.code, set()).add(CODES[use.code].failure_class if use.failure == BY_TABLE else use.failure)
    for code, row in CODES.items():
        classes = found.get(code, {None})
        assert classes - {None} <= {*row.failure_classes}, code
        assert None in classes or classes == {*row.failure_classes}, code


def test_what_somebody_decides_by_is_a_code() -> None:
    assert {code: where for code, where in compared().items() if code not in CODES} == {}


def test_a_code_stands_in_one_group_and_asks_for_no_less_than_its_class() -> None:
    assert sum(len(rows) for rows in GROUPS.values()) == len(CODES)
    for row in CODES.values():
        assert len(set(row.failure_classes)) == len(row.failure_classes)
        assert row.retry_class in {DEFAULT_RETRY[row.failure_class], row.asked_retry}
        assert row.meaning[0].islower() or not row.meaning[0].isalpha() or row.meaning.startswith("SQLite")
        assert not row.meaning.endswith(".")


def test_the_documentation_shows_the_table() -> None:
    text = DOCUMENT.read_text()
    assert with_table(text) == text, "run `python tests/contract/write_codes.py`"

"""The declarations of the broken variants are kept true; `make mutants` runs them."""

import shutil
from pathlib import Path

import pytest

from mutants.catalogue import REPOSITORY, Mutant, StaleMutant, apply, load, missing_tests
from mutants.witness import kind_of

MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_variant_can_still_be_made_and_its_tests_are_there(mutant: Mutant, tmp_path: Path) -> None:
    for file in {edit.file for edit in mutant.edit}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    for path in apply(mutant, tmp_path):
        compile(path.read_text(), path, "exec")
    assert mutant.tests
    assert missing_tests(mutant, REPOSITORY) == []


def test_there_are_a_dozen_with_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12


def test_a_declaration_that_fits_no_more_is_an_error(tmp_path: Path) -> None:
    (mutant,) = [one for one in MUTANTS if one.name == "synchronous NORMAL"]
    path = tmp_path / mutant.edit[0].file
    with pytest.raises(StaleMutant, match="0 times"):
        apply(mutant, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(mutant.edit[0].old * 2)
    with pytest.raises(StaleMutant, match="2 times"):
        apply(mutant, tmp_path)


def test_only_an_assertion_counts_as_noticed() -> None:
    noticed = [AssertionError(), pytest.fail.Exception("DID NOT RAISE"), ExceptionGroup("", [AssertionError()])]
    other = [
        None,
        ImportError(),
        TimeoutError(),
        pytest.fail.Exception("Timeout >120s"),
        ExceptionGroup("", [OSError()]),
    ]
    assert {kind_of(fault) for fault in noticed} == {"assertion"}
    assert [kind_of(fault) for fault in other] == ["passed", "ImportError", "TimeoutError", "timeout", "OSError"]

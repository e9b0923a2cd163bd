"""Up to where each thread is in an order: as in a dictionary, wherever it is kept."""

from pathlib import Path
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from lifebus_broker.ledger.sqlite.sealed_file import SealedInFile, new_sealed_items
from lifebus_broker.signals import order_positions
from lifebus_broker.signals.order_positions import KeptPositions
from lifebus_broker.state.sealed import SealedItems

RECENT = 4
THREADS = st.tuples(st.sampled_from("ab"), st.sampled_from(["", "q", "ünïcode", *map(str, range(12))]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("positions")


def in_file(folder: Path) -> SealedItems:
    found = new_sealed_items(folder)
    assert isinstance(found, SealedInFile)
    return found


# The first thread is put away, and comes again.
@example(puts=[(("a", str(number % (RECENT + 1))), number) for number in range(1, RECENT + 3)])
@given(puts=st.lists(st.tuples(THREADS, st.integers(0, 2**63 - 1)), max_size=60))
def test_every_number_is_found_again_and_few_take_memory(folder: Path, puts: list[tuple[tuple[str, str], int]]) -> None:
    others, model = in_file(folder), dict[tuple[str, str], int]()
    with patch.object(order_positions, "RECENT", RECENT):
        positions = KeptPositions(others)
        for thread, number in puts:
            positions.put(thread, number)
            model[thread] = number
            assert {one: positions.get(one) for one in model} == model
        assert positions.get(("c", "nobody")) == 0
        assert sorted(positions.items()) == sorted(model.items())
    assert len(others) >= len(model) - RECENT
    others.close()

"""The whole suite leaves nothing: no child, no zombie, no orphan of a command, no descriptor."""

import os
from collections.abc import Iterator

import pytest
from zmq.utils.garbage import gc as pyzmq_gc

from leftovers import MARK, Watch


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    watch = Watch()
    os.environ[MARK] = watch.mark
    yield
    pyzmq_gc.stop()  # it starts with the first large message, and has descriptors of its own
    found = watch.wait()
    assert found == [], "\n".join(found)

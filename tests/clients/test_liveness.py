"""Whoever waits for an answer notices that the broker which was asked is gone, whenever it died."""

from pathlib import Path

import anyio
import pytest

from lifebus._internal import liveness
from lifebus_contract import TransportError
from lifebus_transports.runtime_dir import Lock, hold_lock, is_lock_free
from support.patience import PATIENCE_S


async def test_a_broker_that_dies_before_the_first_look_is_not_taken_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, held = tmp_path / "lock", list[Lock]()
    hold_lock(lock, started_at_epoch_s=1).close()

    def look(path: Path) -> bool:
        """Look, and have the next broker begin right behind the first look."""
        is_free = is_lock_free(path)
        if is_free:
            held.append(hold_lock(path, started_at_epoch_s=2))
        return is_free

    monkeypatch.setattr(liveness, "is_lock_free", look)
    with anyio.fail_after(PATIENCE_S):
        with pytest.raises(TransportError) as gone:
            await liveness.while_broker_lives(tmp_path, anyio.sleep_forever, same=True)
    assert gone.value.code == "no_broker"
    held.pop().close()
    assert not held

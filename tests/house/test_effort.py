import pytest

import support.effort as module
from support.effort import effort


@pytest.mark.parametrize(("share", "expected"), [(0.0, 50), (1.0, 1_000), (0.1, 100), (0.01, 50)])
def test_the_long_run_is_scaled_and_never_shorter_than_the_short_one(
    share: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TORTURE", share)
    assert effort(50, 1_000) == expected

from pathlib import Path

import pytest

from support.clients.hook_box import HookBox


@pytest.fixture
def box(tmp_path: Path) -> HookBox:
    return HookBox(tmp_path)

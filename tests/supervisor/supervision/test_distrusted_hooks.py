"""Why a harness does not run its installed hooks is read from its own files, and again when they change."""

from pathlib import Path

import msgspec
import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.codex.trust import hook_hash
from lifebus_adapters.shared.assets import hook_command
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_supervisor.supervision.distrusted_hooks import DistrustedHooks

HANDLER = {"type": "command", "command": hook_command("/d/lifebus-hook", "codex", "Stop"), "timeout": 5}
NOT_TRUSTED = "the hooks are installed and not trusted"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a user whose Codex has one hook of ours, and trusts none."""
    (tmp_path / ".codex").mkdir()
    hooks = {"hooks": {"Stop": [{"hooks": [HANDLER]}]}}
    (tmp_path / ".codex/hooks.json").write_bytes(msgspec.json.encode(hooks))
    return tmp_path


def distrusted(home: Path) -> DistrustedHooks:
    return DistrustedHooks(ADAPTERS, Surroundings(home=str(home), environ={}))


def configure(home: Path, text: str) -> None:
    (home / ".codex/config.toml").write_text(text)


def trust(home: Path, digest: str, more: str = "") -> None:
    key = f"{home}/.codex/hooks.json:stop:0:0"
    configure(home, f'[hooks.state."{key}"]\ntrusted_hash = "{digest}"\n{more}')


def test_hooks_without_a_word_of_trust_do_not_run(home: Path) -> None:
    assert distrusted(home)("codex") == NOT_TRUSTED


def test_trust_is_noticed_when_it_is_given_and_when_it_is_lost(home: Path) -> None:
    why = distrusted(home)
    assert why("codex") == NOT_TRUSTED
    trust(home, hook_hash("Stop", None, HANDLER))
    assert why("codex") is None
    trust(home, "sha256:other")
    assert why("codex") == "the hooks are installed, and were changed since they were trusted"


def test_what_is_switched_off_does_not_run(home: Path) -> None:
    trust(home, hook_hash("Stop", None, HANDLER), "enabled = false\n")
    assert distrusted(home)("codex") == "the hooks are installed and switched off"
    configure(home, "[features]\nhooks = false\n")
    assert distrusted(home)("codex") == "the hooks are installed, and all hooks are turned off"


def test_what_cannot_be_read_keeps_nothing_from_running(home: Path) -> None:
    configure(home, "no = = toml")
    assert distrusted(home)("codex") is None
    (home / ".codex/hooks.json").unlink()
    assert distrusted(home)("codex") is None


def test_a_harness_that_asks_nobody_runs_what_is_installed(home: Path) -> None:
    assert distrusted(home)("claude") is None

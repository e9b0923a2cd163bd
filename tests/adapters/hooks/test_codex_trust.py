"""Which hooks Codex trusts: hashes as 0.169.0 gave them, and what config.toml says about ours."""

from typing import Any

import pytest

from lifebus_adapters.codex.trust import hook_hash, hook_trust
from lifebus_adapters.shared.assets import hook_command

PATH = "/home/dev/.codex/hooks.json"
COMMAND = hook_command("/home/dev/.local/share/lifebus/lifebus-hook", "codex", "Stop")
HANDLER = {"type": "command", "command": COMMAND, "timeout": 5}
KEY = f"{PATH}:stop:1:0"
HOOKS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo"}]}, {"hooks": [HANDLER]}]}}


@pytest.mark.parametrize(
    ("event", "matcher", "handler", "digest"),
    [
        ("Stop", None, {"command": "true"}, "2ba34c7a02841fada06b868a093d041fd3d9de81883c789a321916b0aa118851"),
        (
            "Stop",
            None,
            {"command": "true", "timeout": 5},
            "99551a51b888f6dc725f1199663b7b1e1ef9bb9b9cab0612d84e5e9218aca6f5",
        ),
        (
            "SessionEnd",
            None,
            {"command": "true", "timeout": 3},
            "0408973db4c606ef0b942b13de03431201c09e7746a6fbf2d078370f1af83d68",
        ),
        (
            "PreToolUse",
            "Bash",
            {"command": "echo é", "timeout": 7, "statusMessage": "x"},
            "e465907372633268a795bfd05ccd518941cb4166984482e93167e3a6a046bac7",
        ),
        (
            "PreToolUse",
            "Bash",
            {"command": "true", "async": True},
            "f7ff3beb8a77cf8e805d0c33d0405c2deec20da48912c674bd618c2fab619162",
        ),
    ],
)
def test_a_hash_is_the_one_that_codex_computes(
    event: str, matcher: str | None, handler: dict[str, Any], digest: str
) -> None:
    assert hook_hash(event, matcher, handler) == f"sha256:{digest}"


def test_what_codex_normalises_does_not_change_the_hash() -> None:
    assert hook_hash("SessionEnd", None, {"command": "x", "timeout": 9}) == hook_hash(
        "SessionEnd", None, {"command": "x", "timeout": 3}
    )
    assert hook_hash("UserPromptSubmit", "x", {"command": "x"}) == hook_hash("UserPromptSubmit", None, {"command": "x"})


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        (None, "untrusted"),
        ({"trusted_hash": hook_hash("Stop", None, HANDLER)}, "trusted"),
        ({"trusted_hash": "sha256:00"}, "modified"),
        ({"trusted_hash": hook_hash("Stop", None, HANDLER), "enabled": False}, "off"),
    ],
)
def test_a_hook_of_ours_is_looked_up_by_its_place(entry: dict[str, Any] | None, state: str) -> None:
    config = {} if entry is None else {"hooks": {"state": {KEY: entry}}}
    (found,) = hook_trust([PATH], HOOKS, config)
    assert (found.event, found.key, found.state) == ("Stop", KEY, state)


def test_a_home_behind_a_link_is_known_by_both_its_names() -> None:
    config = {"hooks": {"state": {KEY: {"trusted_hash": hook_hash("Stop", None, HANDLER)}}}}
    (found,) = hook_trust(["/link/hooks.json", PATH], HOOKS, config)
    assert found.state == "trusted"


@pytest.mark.parametrize("nonsense", [None, [], {"hooks": []}, {"hooks": {"state": 1}}, {"hooks": {"Stop": [1]}}])
def test_nonsense_is_no_trust_and_no_error(nonsense: Any) -> None:
    assert hook_trust([PATH], nonsense, {}) == ()
    assert [found.state for found in hook_trust([PATH], HOOKS, nonsense)] == ["untrusted"]

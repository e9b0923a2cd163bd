"""What may not be recorded of where a session works is taken away before anything else happens to an emission."""

from typing import Any

import pytest
from msgspec import structs

import lifebus
from lifebus_broker.privacy import MAX_TITLE, CwdPrivacy, Privacy
from lifebus_contract import Emission
from lifebus_contract.fields import FactValue


def emission_with(**facts: FactValue) -> Emission:
    return Emission(request=lifebus.make_request("session.started", "codex", session="s1"), telemetry=facts)


@pytest.mark.parametrize(
    ("setting", "said", "recorded"),
    [
        ("full", "/home/ann/work/shop", "/home/ann/work/shop"),
        ("name", "/home/ann/work/shop", "shop"),
        ("name", "/home/ann/work/shop/", "shop"),
        ("name", "shop", "shop"),
        ("name", "/home/ann", "~"),
        ("name", "/home/ann/", "~"),
        ("name", "/", "/"),
        ("none", "/home/ann/work/shop", None),
        ("name", "", None),
    ],
)
def test_a_directory_is_recorded_as_the_setting_says(setting: CwdPrivacy, said: str, recorded: str | None) -> None:
    kept = Privacy(cwd=setting, home="/home/ann").apply(emission_with(cwd=said, source_hook="SessionStart"))
    assert kept.telemetry == {"source_hook": "SessionStart"} | ({} if recorded is None else {"cwd": recorded})


@pytest.mark.parametrize(("setting", "recorded"), [("full", "fix/it"), ("name", "fix/it"), ("none", None)])
def test_without_its_directory_a_branch_says_nothing(setting: CwdPrivacy, recorded: str | None) -> None:
    assert Privacy(cwd=setting).apply(emission_with(git_branch="fix/it")).telemetry.get("git_branch") == recorded


@pytest.mark.parametrize(
    ("said", "recorded"),
    [("Fix it", "Fix it"), (" a\nb\x1b[31m\tc ", "a b [31m c"), ("\n", None), ("x" * 500, "x" * (MAX_TITLE - 1) + "…")],
)
def test_a_title_is_one_line_of_bounded_length(said: str, recorded: str | None) -> None:
    assert Privacy(cwd="none").apply(emission_with(title=said)).telemetry.get("title") == recorded
    assert "title" not in Privacy(title="none").apply(emission_with(title=said)).telemetry


@pytest.mark.parametrize("facts", [{}, {"source_hook": "Stop"}, {"cwd": "shop", "title": "Fix it"}, {"cwd": 7}])
def test_an_emission_that_says_nothing_more_is_the_same_one(facts: dict[str, Any]) -> None:
    emission = emission_with(**facts)
    assert Privacy().apply(emission) is emission
    assert structs.asdict(emission)["telemetry"] == facts

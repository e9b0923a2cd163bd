"""Renewal profiles in the configuration: read, checked, and enabled for their adapter."""

import re
from pathlib import Path

import pytest

from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.configuration.settings import Settings
from support.paths import DOCS
from support.supervisor.scripted import CONFIGURED

HOME = {"HOME": "/home/dev"}


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load({}, HOME, path)[0]


def problem(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        configured_adapters(loaded(tmp_path, text))
    (found,) = caught.value.problems
    return found


def test_an_enabled_profile_counts_for_its_adapter_alone(tmp_path: Path) -> None:
    adapters = configured_adapters(loaded(tmp_path, CONFIGURED))
    assert adapters.require("codex").profiles == {"codex-renewal"}
    assert adapters.require("claude").profiles == frozenset()
    assert configured_adapters(loaded(tmp_path, "")).require("codex").profiles == frozenset()


def test_paths_into_the_answers_and_limits_are_read(tmp_path: Path) -> None:
    text = CONFIGURED + 'ttl_s = 60\n[renewals.answers]\naction = "boundary.action"\nrenew = "yes"\n'
    (found,) = loaded(tmp_path, text).renewals
    assert (found.answers.action, found.answers.renew, found.ttl_s) == ("boundary.action", "yes", 60)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"codex"', '"codx"', "no adapter `codx`"),
        ('"codex"', '"claude"', "the adapter `claude` has not evaluated renewal"),
        ('"example"\n', '"lifebus.x"\n', "must not begin with `lifebus.`"),
        ('"codex-renewal"', '"other"', "claims no profile `other`; it claims codex-renewal"),
        ('["example", "status"]', "[]", "length >= 1"),
        ('["example", "status"]', '["./example"]', "absolute path or found in PATH"),
        ('["example", "prepare"]', '["example", "{token}"]', "gets no `{token}`"),
        ('["example", "start"]', '["example", "{token}"]', "must not hold `{token}`"),
        ('["example", "start"]', '["example"]\nhand_over = "argument"', "needs `{token}`"),
        ('["example", "start"]', '["example"]\nmax_bytes = 1000000', "<= 65536"),
        ('["example", "start"]', '["example"]\nsurprise = 1', "surprise"),
        ('["example", "start"]', '["example"]\n[renewals.answers]\ntoken = "a..b"', "`token` is a path"),
    ],
)
def test_a_wrong_profile_is_refused_and_the_reason_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    found = problem(tmp_path, CONFIGURED.replace(old, new))
    assert "renewals" in found
    assert said in found


def test_a_wrong_profile_is_named_with_its_line(tmp_path: Path) -> None:
    found = problem(tmp_path, '[log]\nlevel = "debug"\n' + CONFIGURED.replace('"codex"', "7"))
    assert found.startswith(f"{tmp_path}/config.toml:6: `renewals[0].adapter` is 7: Expected `str`, got `int`")


def test_two_profiles_of_one_name_or_client_are_refused(tmp_path: Path) -> None:
    assert "same `profile`" in problem(tmp_path, CONFIGURED + CONFIGURED.replace('"example"', '"other"'))
    again = CONFIGURED.replace("codex-renewal", "codex-other")
    assert "same `client_id`" in problem(tmp_path, CONFIGURED + again)


def test_profiles_come_from_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIGURED)
    _, origins = load({}, {**HOME, "LIFEBUS_RENEWALS": "x"}, path)
    assert (origins["renewals"].source, len(origins["renewals"].value)) == ("file", 1)


def test_the_examples_of_the_documentation_can_be_configured(tmp_path: Path) -> None:
    text = (DOCS / "renewal.md").read_text(encoding="utf-8")
    plain, specified = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for example in (plain, specified):
        assert configured_adapters(loaded(tmp_path, example)).require("codex").profiles == {"codex-renewal"}
    (found,) = loaded(tmp_path, specified).renewals
    assert (found.hand_over, found.answers.action) == ("argument", "session_boundary.action")

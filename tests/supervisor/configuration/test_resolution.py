"""Settings: precedence, origins, and complaints that name key, line and remedy (docs/configuration.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import OVERRIDES
from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.resolution import KEYS, load, variable_of

HOME = {"HOME": "/home/dev"}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def problems(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, path: Path | None = None
) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(flags, {**HOME, **(environ or {})}, path)
    return caught.value.problems


def test_without_anything_the_defaults_hold_and_say_so() -> None:
    settings, origins = load({}, HOME)
    assert settings.runtime_dir == Path("/home/dev/.local/state/lifebus/run")
    assert settings.ledger_path == Path("/home/dev/.local/state/lifebus/ledger.db")
    assert {origin.source for origin in origins.values()} == {"default"}
    assert set(origins) == set(KEYS)


def test_the_xdg_directories_are_used_where_they_are_absolute() -> None:
    settings, _ = load({}, {**HOME, "XDG_RUNTIME_DIR": "/run/user/7", "XDG_STATE_HOME": "relative"})
    assert settings.runtime_dir == Path("/run/user/7/lifebus")
    assert settings.state_dir == Path("/home/dev/.local/state/lifebus")


def test_a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, '[log]\nlevel = "debug"\nformat = "json"\n[limits]\nbackfills = 3\ndispatches = 5\n')
    environ = {**HOME, "LIFEBUS_LOG_LEVEL": "warning", "LIFEBUS_LIMITS_BACKFILLS": "4"}
    settings, origins = load({"log.level": "error", "log.format": None}, environ, path)
    assert (settings.log.level, settings.log.format) == ("error", "json")
    assert (settings.limits.backfills, settings.limits.dispatches, settings.limits.beacon_ms) == (4, 5, 1_000)
    level = origins["log.level"]
    assert (level.source, level.where) == ("flag", "--log-level")
    assert [(weak.source, weak.value) for weak in level.overridden] == [
        ("environment", "warning"),
        ("file", "debug"),
        ("default", "info"),
    ]
    assert level.overridden[1].where == f"{path}:2"


def test_every_key_has_a_variable_of_its_own() -> None:
    assert variable_of("limits.beacon_ms") == "LIFEBUS_LIMITS_BEACON_MS"
    assert len({variable_of(key) for key in KEYS}) == len(KEYS)


def test_manifests_come_from_file_variable_and_flag(tmp_path: Path) -> None:
    path = written(tmp_path, 'manifests = ["~/one.json", "/two.json"]\n')
    assert [found.name for found in load({}, HOME, path)[0].manifests] == ["one.json", "two.json"]
    assert load({}, HOME, path)[0].manifests[0].is_absolute()
    assert load({}, {**HOME, "LIFEBUS_MANIFESTS": "/a:/b"}, path)[0].manifests == (Path("/a"), Path("/b"))
    assert load({"manifests": ("c.json",)}, HOME, path)[0].manifests == (Path.cwd() / "c.json",)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[ledger]\nbackend = "sqlite"\nbackedn = "memory"', 3, "unknown key `ledger.backedn`; did you mean"),
        ("[limits]\nbeacon_ms = 'soon'", 2, "`limits.beacon_ms` is 'soon': Expected `int`, got `str`"),
        ("[limits]\nbeacon_ms = true", 2, "`limits.beacon_ms`"),
        ("[limits]\nbackfills = 0", 2, "Expected `int` >= 1"),
        ("[limits]\nhook_answer_ms = 9000", 2, "Expected `int` <= 220"),
        ('\n[ledger]\n# which\nbackend = "mysql"', 4, "one of sqlite, memory"),
        ('[ledger]\npath = "ledger.db"', 2, "a path here is absolute"),
        ('manifests = ["mine.json"]', 1, "a path here is absolute"),
        ("manifests = [7]", 1, "Expected a path"),
        ('runtime_dir = "/run/x"', 1, "set LIFEBUS_RUNTIME_DIR"),
        ('state_dir = "/run/x"', 1, "set LIFEBUS_STATE_DIR"),
        ("zzz = 1", 1, "unknown key `zzz`; known are manifests, ledger.backend"),
        ("ledger = 1", 1, "unknown key `ledger`"),
    ],
)
def test_a_wrong_value_in_the_file_is_refused_with_its_line_and_the_rule(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    path = written(tmp_path, text)
    (problem,) = problems(path=path)
    assert problem.startswith(f"{path}:{line}: ")
    assert said in problem


def test_a_named_file_that_is_not_there_says_what_can_be_done_and_the_default_one_need_not_be(
    tmp_path: Path,
) -> None:
    load({}, {"HOME": str(tmp_path)})
    path = tmp_path / "none.toml"
    for given in (None, path):
        (problem,) = problems(environ={"LIFEBUS_CONFIG": str(path)}, path=given)
        assert problem.startswith(f"LIFEBUS_CONFIG names {path}, which does not exist: ")
        assert problem.endswith("create it, unset the variable, or name /dev/null")
    assert problems(path=path) == (f"{path} does not exist: create it, or name another file",)


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "[log]\nlevel = 'loud'\n[limits]\nbackfill = 1\n")
    found = problems({"ledger.backend": "redis"}, {"LIFEBUS_LIMITS_DISPATCHES": "many"}, path)
    assert [problem.split(": ")[0] for problem in found] == [
        "--ledger-backend",
        "LIFEBUS_LIMITS_DISPATCHES",
        f"{path}:2",
        f"{path}:4",
    ]


def test_a_mistyped_variable_is_refused_and_a_stranger_is_let_be() -> None:
    (problem,) = problems({}, {"LIFEBUS_LEDGER_BACKED": "memory"})
    assert problem == "environment: unknown variable LIFEBUS_LEDGER_BACKED; did you mean LIFEBUS_LEDGER_BACKEND?"
    load({}, {**HOME, "LIFEBUS_SOMETHING_ELSE_ENTIRELY": "1"})


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({}, {**HOME, "LIFEBUS_LEDGER_BACKEND": ""})[1]["ledger.backend"].source == "default"


@pytest.mark.parametrize("variable", ["LIFEBUS_RUNTIME_DIR", "LIFEBUS_STATE_DIR", "LIFEBUS_MANIFESTS"])
def test_a_relative_path_in_the_environment_is_refused_because_it_would_follow_the_project(variable: str) -> None:
    (problem,) = problems({}, {variable: "here"})
    assert problem.startswith(variable)


def test_a_flags_relative_path_is_taken_from_where_the_user_stands() -> None:
    assert load({"runtime_dir": "here"}, HOME)[0].runtime_dir == Path.cwd() / "here"


@pytest.mark.parametrize(
    "text", ["[ledger", "a = 1\na = 2", "a = \ud800".encode("utf-8", "surrogatepass"), b"\xff\xfe"]
)
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (problem,) = problems(path=path)
    assert problem.startswith(f"{path}: not valid TOML: ")


def test_the_default_file_is_read_where_it_exists(tmp_path: Path) -> None:
    path = tmp_path / ".config/lifebus/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[limits]\nbackfills = 2\n")
    settings, origins = load({}, {"HOME": str(tmp_path)})
    assert settings.limits.backfills == 2
    assert origins["limits.backfills"].where == f"{path}:2"


def test_nothing_is_read_from_the_project_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.toml", "lifebus.toml", ".lifebus.toml"):
        (tmp_path / name).write_text("nonsense = 1")
    monkeypatch.chdir(tmp_path)
    load({}, HOME)


def test_overrides_of_the_adapters_are_no_misspelt_settings() -> None:
    environ = {"HOME": "/home/dev", **dict.fromkeys(OVERRIDES, "x"), "LIFEBUS_HOST_ADAPTER": "codex"}
    settings, _ = load({}, environ)
    assert settings == load({}, {"HOME": "/home/dev"})[0]


def test_thresholds_that_do_not_rise_are_refused_together() -> None:
    with pytest.raises(ConfigurationError, match="thresholds must rise"):
        load({}, {"HOME": "/home/dev", "LIFEBUS_PRESSURE_HIGH_PCT": "50"})

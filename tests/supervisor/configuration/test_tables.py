"""`[[clients]]` in the configuration file: read, shown, and complained about by file, line and key."""

from pathlib import Path

import msgspec
import pytest

from lifebus_contract import LifecycleEvent, RequirementLevel
from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.resolution import load
from support.command_line import Shell
from support.running import short_directory

HOME = {"HOME": "/home/dev"}
CLIENT = """
[[clients]]
client_id = "notes"
command = ["/usr/bin/env", "notes"]
events = ["frame.opening", "session.ended"]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load({}, HOME, written(tmp_path, text))
    return tuple(problem.removeprefix(f"{tmp_path}/config.toml:") for problem in caught.value.problems)


def test_a_client_needs_three_keys_and_may_have_more(tmp_path: Path) -> None:
    more = 'protocol = "jsonl"\nworkers = 3\ndeadline_ms = 50\nbackground = true\nadapters = ["codex"]\n'
    more += 'environment = ["MY_*"]\nrequirements = [{capability = "context_pressure", level = "required"}]\n'
    plain, full = load({}, HOME, written(tmp_path, CLIENT + CLIENT.replace("notes", "more") + more))[0].clients
    assert plain.command == ("/usr/bin/env", "notes")
    assert plain.events == (LifecycleEvent.FRAME_OPENING, LifecycleEvent.SESSION_ENDED)
    assert (plain.protocol, plain.workers, plain.deadline_ms, plain.background) == ("oneshot", 2, 2_000, False)
    assert (full.protocol, full.workers, full.deadline_ms, full.background) == ("jsonl", 3, 50, True)
    assert full.requirements[0].level is RequirementLevel.REQUIRED


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[clients]]", "[clients]", "`clients.client_id`: `clients` is a list of tables; write [[clients]]"),
        ("client_id", "client_di", "3: unknown key `clients[0].client_di`; did you mean `client_id`?"),
        ('client_id = "notes"\n', "", "2: `clients[0]` lacks `client_id`"),
        ('"notes"\nc', '""\nc', "3: `clients[0].client_id` is ''"),
        ('"notes"\nc', '"lifebus.hook"\nc', "3: `clients[0]`: `client_id` is printable and does not begin with"),
        ('["/usr/bin/env", "notes"]', '"notes"', "4: `clients[0].command` is 'notes': Expected `array`"),
        ('["/usr/bin/env", "notes"]', "[]", "4: `clients[0].command` is []"),
        ('"/usr/bin/env"', '"bin/env"', "4: `clients[0]`: `command`: a program is an absolute path or found in PATH"),
        ('"/usr/bin/env"', '"a\\u0000"', "4: `clients[0]`: `command` has an empty program or a NUL character"),
        ("frame.opening", "frame.open", "5: `clients[0].events` is ['frame.open', 'session.ended']: a list of sess"),
        ("events =", 'protocol = "json"\nevents =', "5: `clients[0].protocol` is 'json': one of oneshot, jsonl, msgp"),
        ("events =", "workers = 0\nevents =", "5: `clients[0].workers` is 0: Expected `int` >= 1"),
        ("events =", "workers = 2.5\nevents =", "5: `clients[0].workers` is 2.5"),
        ("events =", 'environment = ["A B"]\nevents =', "5: `clients[0]`: `environment`: 'A B' is no variable"),
        ("events =", 'requirements = [{capability = "x"}]\nevents =', "5: `clients[0].requirements`"),
        ("[[clients]]", "clients = 7\n[x]", "`clients`: `clients` is a list of tables; write [[clients]]"),
    ],
)
def test_every_mistake_is_named_with_its_line_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    found = problems(tmp_path, CLIENT.replace(old, new, 1))
    assert any(said in problem for problem in found), found


def test_the_second_of_two_tables_is_named_by_its_own_lines(tmp_path: Path) -> None:
    text = CLIENT + CLIENT.replace("notes", "others").replace("events", "event")
    assert problems(tmp_path, text) == (
        "10: unknown key `clients[1].event`; did you mean `events`?",
        "7: `clients[1]` lacks `events`",
    )


def test_two_clients_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="clients: two of them have the same `client_id`"):
        load({}, HOME, written(tmp_path, CLIENT + CLIENT))


def test_config_shows_and_checks_clients() -> None:
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_CONFIG=str(written(directory, CLIENT)))
        assert "notes" in shell.call("config", "show").out
        shown = shell.call("config", "show", "--origin", "--json").json["clients"]
        assert (shown["source"], shown["where"]) == ("file", f"{directory}/config.toml:2")
        assert [one["client_id"] for one in shown["value"]] == ["notes"]
        assert shell.call("config", "check").code == 0
        written(directory, CLIENT + "worker = 3\n")
        refused = shell.call("config", "check")
        assert refused.code == 78
        assert "config.toml:6: unknown key `clients[0].worker`; did you mean `workers`?" in refused.err


def test_a_number_of_clients_is_kept_in_order(tmp_path: Path) -> None:
    text = "".join(CLIENT.replace("notes", f"c{number}") for number in range(5))
    clients = load({}, HOME, written(tmp_path, text))[0].clients
    assert [client.client_id for client in clients] == ["c0", "c1", "c2", "c3", "c4"]
    assert msgspec.json.encode(clients)

"""What the documents say is true: the example runs, what they name exists, their tables are those of the code."""

import importlib
import json
import os
import re
import sys
from pathlib import Path

import anyio
import msgspec

import lifebus
from lifebus.cli.command_table import COMMANDS
from lifebus.cli.old_names import present_words
from lifebus_adapters import ADAPTERS
from lifebus_supervisor.configuration.resolution import KEYS, LISTS, load, variable_of
from lifebus_supervisor.configuration.settings import ClientSettings
from lifebus_supervisor.renewal.profile import AnswerPaths, RenewalSettings
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from lifebus_transports.messages.verbs import VERBS
from support.e2e.results import live_matrix
from support.harness_matrix import README, matrix, placements, split
from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.running import connected, running_bus
from support.sources import DOCUMENTS, offenders, text_of

IMPORT = re.compile(r"^from ([\w.]+) import ([\w, ]+)$", re.MULTILINE)


def examples(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


async def test_the_example_runs_against_a_real_broker() -> None:
    (example,) = examples(README.read_text())
    async with running_bus() as daemon:
        environment = os.environ | {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir)}
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process([sys.executable, "-c", example], env=environment)

    assert done.stdout.decode() == "1 session.started observed\n2 session.ended observed\n"
    assert len([line for line in example.splitlines() if line]) <= 10


async def test_the_hook_line_for_a_harness_reaches_the_broker() -> None:
    text = (REPOSITORY / "docs/hooks.md").read_text()
    (settings,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    ((hook, (entry,)),) = json.loads(settings)["hooks"].items()
    command = entry["hooks"][0]["command"].replace("/the/place/lifebus", lifebus.__path__[0])
    payload = {"session_id": "s1", "hook_event_name": hook, "source": "startup", "cwd": "/home/dev/project"}

    async with running_bus() as daemon, connected(daemon) as bus:
        variables = {"LIFEBUS_RUNTIME_DIR": daemon.settings.runtime_dir, "LIFEBUS_STATE_DIR": daemon.settings.state_dir}
        environment = os.environ | {name: str(path) for name, path in variables.items()}
        with anyio.fail_after(PATIENCE_S):
            done = await anyio.run_process(command, input=json.dumps(payload).encode(), env=environment)
            while not (sessions := await bus.sessions(("claude", "s1"))):  # a late call goes to the spool
                done = await anyio.run_process(command, input=json.dumps(payload).encode(), env=environment)

    assert (done.returncode, done.stdout) == (0, b"")
    assert sessions[0].last_event == "session.started"


def test_every_command_that_the_documents_show_exists() -> None:
    shown = {word for path in DOCUMENTS for word in re.findall(r"`lifebus ([a-z][a-z-]+)[ `]", path.read_text())}
    assert shown
    # The changelog tells of commands by the names that they had.
    assert {present_words([word])[0][0] for word in shown} <= set(COMMANDS)


def test_the_table_of_harnesses_is_that_of_the_manifests() -> None:
    assert split(README.read_text())[1] == matrix()
    assert split(README.read_text(), "placements")[1] == placements()


def test_the_table_of_real_harnesses_is_that_of_the_recorded_results() -> None:
    assert split(README.read_text(), "live")[1] == live_matrix()


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    text = (REPOSITORY / "docs/configuration.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `(LIFEBUS_\w+)` \|", text, re.MULTILINE))
    defaults = dict(re.findall(r"^\| `(\w+\.\w+)` \| `\w+` \| `([\w-]+)` \|", text, re.MULTILINE))
    _, origins = load({}, {"HOME": "/nowhere"})

    assert rows == {key: variable_of(key) for key in KEYS if key not in LISTS}
    assert defaults == {key: _shown(origins[key].value) for key in KEYS if "." in key and key not in LISTS}


def _shown(value: object) -> str:
    """Return a default as the document has it; a list as a variable would have it."""
    if isinstance(value, tuple):
        return os.pathsep.join(map(str, value)) or "none"
    return str(value).lower()


def test_every_key_of_a_client_is_documented_with_its_default() -> None:
    text = (REPOSITORY / "docs/configuration.md").read_text().partition("## Clients")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`|needed|none) \|", text, re.MULTILINE))
    fields = {field.name: field.default for field in msgspec.structs.fields(ClientSettings)}

    assert list(rows) == list(fields)
    for key, default in fields.items():
        assert rows[key] == ("" if default in {msgspec.NODEFAULT, ()} else str(default).lower())


def test_every_key_of_a_channel_is_documented_with_its_default() -> None:
    text = (REPOSITORY / "docs/configuration.md").read_text().partition("## Channels")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`|needed|none) \|", text, re.MULTILINE))
    fields = {field.name: field.default for field in msgspec.structs.fields(ChannelSettings)}

    assert list(rows) == list(fields)
    for key, default in fields.items():
        assert rows[key] == ("" if default in {msgspec.NODEFAULT, None} else {True: "true"}.get(default, str(default)))


def test_every_key_of_a_renewal_is_documented_with_its_default() -> None:
    text = (REPOSITORY / "docs/configuration.md").read_text().partition("## Renewals")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (?:`(.*?)`|needed|none) \|", text, re.MULTILINE))
    fields = {field.name: field.default for field in msgspec.structs.fields(RenewalSettings)}
    paths = {f"answers.{field.name}": field.default for field in msgspec.structs.fields(AnswerPaths)}
    del fields["answers"]

    assert list(rows) == [*fields, *paths]
    for key, default in {**fields, **paths}.items():
        assert rows[key] == ("" if default in {msgspec.NODEFAULT, "", ()} else str(default))


def test_the_example_of_a_configuration_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (REPOSITORY / "docs/configuration.md").read_text(), re.DOTALL)
    (tmp_path / "config.toml").write_text(example)

    settings, _ = load({}, {"HOME": "/nowhere"}, tmp_path / "config.toml")

    assert settings.limits.hook_answer_ms == 150


def test_every_verb_is_documented_with_the_keys_of_its_body() -> None:
    text = (REPOSITORY / "docs/wire-protocol.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| `{(.*?)}` \|", text, re.MULTILINE))
    fields = {name: msgspec.structs.fields(verb.body) for name, verb in VERBS.items()}
    keys = {name: [f.encode_name if f.required else f"{f.encode_name}?" for f in fields[name]] for name in fields}

    assert {name: rows.get(name) for name in VERBS} == {name: ", ".join(keys[name]) for name in VERBS}


def test_every_file_that_a_document_names_exists() -> None:
    named = re.compile(r"`((?:broker|transports|supervisor|clients|tests|bench|docs)/[\w/.]*)`")
    assert (
        offenders(DOCUMENTS, lambda text: [name for name in named.findall(text) if not (REPOSITORY / name).exists()])
        == {}
    )


def test_every_import_in_an_example_of_the_documents_resolves() -> None:
    found = [line for path in DOCUMENTS for block in examples(text_of(path)) for line in IMPORT.findall(block)]
    assert ("lifebus_broker.state.stores", "Stores") in {(module, names.split(",")[0]) for module, names in found}
    for module, names in found:
        missing = [name for name in re.split(r",\s*", names) if not hasattr(importlib.import_module(module), name)]
        assert missing == [], module


def test_every_make_target_that_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    written = [document for document in DOCUMENTS if document.name != "commands.md"]  # a block of which is a help page
    named = {word for document in written for word in re.findall(r"\bmake (\w+)", code_of(document.read_text()))}
    assert named - targets == set()
    assert "test" in named


def code_of(text: str) -> str:
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def test_the_table_of_aliases_is_that_of_the_harnesses() -> None:
    table = text_of(REPOSITORY / "docs/contract.md").partition("### 3.7 Aliases")[2].partition("\n## ")[0]
    shown = {
        adapter: names.split(", ") for adapter, names in re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE)
    }
    assert shown == {name: [f"`{one}`" for one in sorted(harness.aliases)] for name, harness in ADAPTERS.items()}

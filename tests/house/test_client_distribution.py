"""`lifebus-client` is the library and the hook of the same tree, and needs nothing beside what it declares."""

import json
import tarfile
import tomllib
import zipfile
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path

import anyio.to_thread
import pytest

import lifebus
from support.client_environment import CLIENT, build, installed, run_in
from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.running import connected, running_bus

WHOLE = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
ALONE = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
FOLLOW = """
import lifebus.blocking

with lifebus.blocking.connect("slim") as bus:
    for receipt in bus.receipts(since="start", until_head=True):
        print(receipt.event, receipt.adapter_id, receipt.harness_session_id)
    with bus.consume("slim", since="start") as deliveries:
        first = next(deliveries)
        deliveries.ack([first])
        print(first.position)
"""
IMPORT_ALL = """
import importlib, pkgutil, lifebus, lifebus_adapters, lifebus_contract, lifebus_transports

for package in (lifebus, lifebus_adapters, lifebus_contract, lifebus_transports):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
            print(found.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CLIENT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("site"))


def test_it_has_the_version_the_license_and_no_other_needs_than_the_whole(site: Path) -> None:
    (metadata,) = site.glob("lifebus_client-*.dist-info")
    found = Distribution.at(metadata).metadata
    assert (found["Name"], found["Version"]) == ("lifebus-client", WHOLE["version"])
    assert set(ALONE["dependencies"]) < set(WHOLE["dependencies"])
    assert (metadata / "licenses" / "LICENSE").read_text() == (REPOSITORY / "LICENSE").read_text()
    assert {key: ALONE[key] for key in ("authors", "license", "requires-python")} == {
        key: WHOLE[key] for key in ("authors", "license", "requires-python")
    }
    assert set(ALONE["classifiers"]) <= set(WHOLE["classifiers"])


def test_an_archive_of_its_sources_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(CLIENT, tmp_path / "sdist", "sdist")) as archive:
        for member in archive.getmembers():
            path = tmp_path / "sources" / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_content(archive, member))
    (sources,) = (tmp_path / "sources").iterdir()
    assert build(sources, tmp_path / "again").read_bytes() == wheel.read_bytes()


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read()


def test_it_has_files_of_the_tree_as_they_are_and_one_of_its_own(wheel: Path) -> None:
    own = {"lifebus/cli/__init__.py"}
    roots = {"lifebus": "clients", "lifebus_contract": "broker"}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        for name in names - own:
            root = roots.get(name.partition("/")[0], "transports")
            assert archive.read(name) == (REPOSITORY / root / name).read_bytes()
    assert own < names
    assert {name.partition("/")[0] for name in names} == {*roots, "lifebus_adapters", "lifebus_transports"}
    assert {"lifebus/hook.py", "lifebus/blocking.py", "lifebus/py.typed"} < names


def test_every_module_of_it_can_be_imported_with_what_it_declares(site: Path) -> None:
    done = run_in(site, "-c", IMPORT_ALL)
    assert done.stderr.decode() == ""
    assert {"lifebus.client", "lifebus.blocking", "lifebus.flows.runs"} < set(done.stdout.decode().split())


async def test_it_carries_a_hook_call_and_follows_and_consumes_what_a_broker_recorded(site: Path) -> None:
    call = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/home/dev"}
    async with running_bus() as daemon, connected(daemon) as bus:
        variables = {
            "LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir),
            "LIFEBUS_STATE_DIR": str(daemon.settings.state_dir),
        }
        run = partial(run_in, site, variables=variables)
        hook = partial(run, "-I", str(site / "lifebus" / "hook.py"), "claude", stdin=json.dumps(call).encode())
        with anyio.fail_after(PATIENCE_S):
            while not await bus.sessions(("claude", "s1")):  # a call that is late goes to the spool
                done = await anyio.to_thread.run_sync(hook)
                assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
            await bus.emit(lifebus.make_request("session.started", "claude-code", session="s2"))
            followed = await anyio.to_thread.run_sync(partial(run, "-c", FOLLOW))
    assert followed.stderr.decode() == ""
    lines = followed.stdout.decode().splitlines()
    assert {"session.started claude s1", "session.started claude s2"} <= set(lines)
    assert lines[-1] == "1"


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_it_knows_the_names_that_people_use_for_harnesses(site: Path, name: str) -> None:
    program = f"from lifebus_transports.adapter_names import adapter_id_of; print(adapter_id_of({name!r}))"
    assert run_in(site, "-c", program).stdout.decode().strip() == {"claude-code": "claude"}.get(name, name)


@pytest.mark.parametrize(("arguments", "named"), [(["up"], "`lifebus up`"), (["--help"], "the command `lifebus`")])
def test_who_asks_for_a_command_is_sent_to_the_whole_of_lifebus(site: Path, arguments: list[str], named: str) -> None:
    done = run_in(site, "-m", "lifebus", *arguments)
    assert (done.returncode, done.stdout) == (69, b"")
    first, second = done.stderr.decode().splitlines()
    assert first.endswith("pip uninstall lifebus-client, then pip install lifebus")
    assert named in second
    as_json = run_in(site, "-m", "lifebus", *arguments, "--json")
    assert json.loads(as_json.stderr)["error"]["exit_code"] == 69


def test_it_says_its_version(site: Path) -> None:
    done = run_in(site, "-m", "lifebus", "version")
    assert (done.returncode, done.stdout.decode().strip()) == (0, f"lifebus-client {WHOLE['version']}")

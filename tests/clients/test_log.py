"""What the library logs goes to `logging`, below "lifebus"; by itself it prints nothing."""

import logging
import subprocess
import sys

import pytest
import structlog

from lifebus._internal.log import ClientLogger
from lifebus.cli.connection import configure_logs
from support.command_line import Shell, broker_up
from support.patience import PATIENCE_S
from support.running import short_directory

_SERVER = """
import asyncio, contextlib, logging, sys
import lifebus

if sys.argv[3:]:
    logging.basicConfig(format="%(name)s %(levelname)s %(message)s", level=logging.INFO)

async def fail(dispatch):
    raise RuntimeError("the handler is broken")

async def main():
    async with lifebus.connect("worker", runtime_dir=sys.argv[1], timeout=float(sys.argv[2])) as bus:
        ready = asyncio.Event()
        serving = asyncio.create_task(bus.serve(["session.started"], fail, on_ready=ready.set))
        await ready.wait()
        await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving

asyncio.run(main())
"""


def _served(shell: Shell, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _SERVER, str(shell.directory / "run"), str(PATIENCE_S), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)


def test_a_library_prints_nothing_and_its_user_sees_everything_where_he_asks_for_it() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            quiet = _served(shell)
            assert (quiet.stdout, quiet.stderr) == ("", "")
            asked = _served(shell, "log")
    assert asked.stdout == ""
    assert "lifebus.worker ERROR handler_failed fault='RuntimeError'" in asked.stderr
    assert "RuntimeError: the handler is broken" in asked.stderr


def test_an_event_is_its_name_with_its_facts_and_names_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    log = ClientLogger("lifebus.consumer")
    with caplog.at_level(logging.INFO, logger="lifebus"):
        log.info("lease_lost", code="100%", count=2)
    (record,) = caplog.records
    assert record.getMessage() == "lease_lost code='100%' count=2"
    assert (record.name, record.levelno, record.filename) == ("lifebus.consumer", logging.INFO, "test_log.py")


def test_a_command_shows_what_the_library_warns_of(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(logging.getLogger("lifebus").handlers)
    try:
        for _ in range(2):
            configure_logs()
        ClientLogger("lifebus.worker").warning("response_dropped", reason="the broker does not read")
        said = capsys.readouterr().err
    finally:
        logging.getLogger("lifebus").handlers[:] = before
        structlog.reset_defaults()
    assert said.count("response_dropped") == 1
    assert "reason='the broker does not read'" in said

"""docs/command-clients.md: its programs run, its table of failures is true."""

import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from lifebus_contract import CallbackResponse, DispatchEnvelope
from lifebus_transports.processes.fresh import FreshInvoker
from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.outcomes import Failure, Finished, fault_of
from lifebus_transports.processes.spec import PASSED_ON, CommandSpec
from lifebus_transports.processes.warm import WarmInvoker
from support.bus_box import request
from support.paths import DOCS
from support.patience import PATIENCE_S
from support.transports.children import nothing_left

TEXT = (DOCS / "command-clients.md").read_text()
PROGRAMS = dict(re.findall(r"```(sh|python|js)\n(.*?)```", TEXT, re.DOTALL))
RUNNERS = {"sh": "/bin/sh", "python": sys.executable, "js": shutil.which("node")}
ROWS = {
    code: (failure, retry)
    for failure, code, retry in re.findall(r"^\| .* \| `(\w+)` \| `(\w+)` \| `(\w+)` \|$", TEXT, re.MULTILINE)
}


@pytest.mark.parametrize("language", PROGRAMS)
async def test_each_program_of_the_page_is_a_client(language: str, tmp_path: Path) -> None:
    runner = RUNNERS[language]
    if runner is None:
        pytest.skip("there is no such program here")
    script = tmp_path / f"client.{language}"
    script.write_text(PROGRAMS[language])
    spec = CommandSpec(argv=(runner, str(script)))
    envelope = DispatchEnvelope(schema_version="lifeloop.v0.2", request=request())
    async with nothing_left(), anyio.create_task_group() as tasks:
        for invoker in (FreshInvoker(spec, 1, Commands(tasks)), WarmInvoker(spec, "jsonl", 1, tasks)):
            for _ in range(2):
                with anyio.fail_after(PATIENCE_S):
                    assert isinstance(await invoker.invoke(envelope, {}), CallbackResponse)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("failure", Failure)
def test_the_table_of_failures_is_true(failure: Failure) -> None:
    fault = fault_of(Finished(failure=failure, exit_code=3, signal=9))
    assert fault.code == failure.value
    assert ROWS[failure.value] == (fault.failure_class.value, fault.retry_class.value)


def test_the_variables_that_are_passed_on_are_all_named() -> None:
    assert [name for name in PASSED_ON if f"`{name}`" not in TEXT] == []

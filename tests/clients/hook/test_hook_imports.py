"""The hook pays for every module it imports, on the harness's critical path."""

import ast
import subprocess
import sys

from support.clients.hook_box import COMMAND, HOOK, HookBox, answering, scripted_broker
from support.patience import PATIENCE_S

ALLOWED = {"_signal", "_socket", "posix", "time"}
"""What a call with an answer may load beyond what every Python start loads."""


def loaded(command: list[str], box: HookBox) -> set[str]:
    command = [command[0], "-X", "importtime", *command[1:]]
    run = subprocess.run(command, env=box.env, input=b"{}", capture_output=True, check=True, timeout=PATIENCE_S)
    return {line.rpartition("|")[2].strip() for line in run.stderr.decode().splitlines()}


def test_a_call_loads_built_in_modules_only(box: HookBox) -> None:
    with scripted_broker(box, answering(b"0 0\n")):
        hook = box.in_time(lambda: loaded([*COMMAND, "codex", "Stop"], box))
    assert "_socket" in hook
    assert hook - loaded([sys.executable, "-I", "-S", "-c", "pass"], box) <= ALLOWED
    assert box.spooled() == []


def test_a_call_for_the_spool_loads_no_more(box: HookBox) -> None:
    hook = loaded([*COMMAND, "codex", "Stop"], box)
    assert hook - loaded([sys.executable, "-I", "-S", "-c", "pass"], box) <= ALLOWED
    assert len(box.spooled(1)) == 1


def test_the_file_names_standard_modules_only() -> None:
    nodes = list(ast.walk(ast.parse(HOOK.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names

"""The JavaScript plugins under node: a module that plays the harness, in a directory of its own."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lifebus
from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.assets import InstallRequest, OwnedFile
from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import IntegrationMode
from support.clients.hook_box import spooled_in
from support.patience import PATIENCE_MS, PATIENCE_S

NODE = shutil.which("node")
LIMIT_S = 0.28
LIMIT = f"const LIMIT_MS = {LIMIT_S * 1000:.0f}"


def plugin_text(adapter_id: str, launcher: str, events: tuple[str, ...] | None = None) -> str:
    request = InstallRequest(
        mode=IntegrationMode.NATIVE_HOOK,
        scope="user",
        surroundings=Surroundings(home="/home/dev", environ={}),
        launcher=launcher,
        events=events,
    )
    texts = [item for item in ADAPTERS[adapter_id].assets.make(request) if isinstance(item, OwnedFile)]
    return next(item.contents for item in texts if item.path.endswith(".js"))


class PluginRun:
    """A directory with a plugin and a launcher, and how to run node in it.

    The plugin waits for a broker as long as a test does; a `hurried` one has the limit that users get.
    """

    def __init__(
        self, directory: Path, adapter_id: str, events: tuple[str, ...] | None = None, *, hurried: bool = False
    ) -> None:
        self.directory = directory
        data = directory / "data"
        sources = Path(lifebus.__file__).parent
        hook, wrapper = (sources.joinpath(name).read_text() for name in ("hook.py", "wrapper.py"))
        for item in launcher_files(str(data), python=sys.executable, hook=hook, wrapper=wrapper):
            path = Path(item.path)
            path.parent.mkdir(exist_ok=True)
            path.write_text(item.contents)
            path.chmod(item.mode)
        self.launcher = Path(launcher_path(str(data)))
        self.plugin = directory / "plugin.mjs"
        text = plugin_text(adapter_id, str(self.launcher), events)
        if text.count(LIMIT) != 1:
            raise RuntimeError(f"the plugin has no line: {LIMIT}")
        self.plugin.write_text(text if hurried else text.replace(LIMIT, f"const LIMIT_MS = {PATIENCE_MS}"))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.directory),
            "LIFEBUS_RUNTIME_DIR": str(self.directory / "run"),
            "LIFEBUS_STATE_DIR": str(self.directory / "state"),
        }

    def play(self, script: str) -> tuple[Any, float]:
        """Run a script that has the plugin as `plugin`; return what it gives to `say`, and the seconds of `work`.

        The script is the body of an async function.
        """
        body = (
            f'import * as plugin from "{self.plugin}"\n'
            "const began = performance.now()\n"
            f"const said = await (async () => {{ {script} }})()\n"
            "process.stdout.write(JSON.stringify([said ?? null, performance.now() - began]))\n"
        )
        player = self.directory / "player.mjs"
        player.write_text(body)
        ran = subprocess.run(
            [NODE or "node", str(player)],
            capture_output=True,
            env=self.environment,
            timeout=PATIENCE_S,
            check=False,
        )
        if ran.returncode or ran.stderr:
            raise RuntimeError(ran.stderr.decode())
        said, milliseconds = json.loads(ran.stdout)
        return said, milliseconds / 1000

    def spooled(self, count: int) -> bytes:
        """Wait until so many calls are in the spool, and return it.

        A call may be there twice, under one id: where the time of its hook is over when it has been written.
        """
        calls = self.directory / "state" / "spool" / "calls"
        until, found = time.monotonic() + PATIENCE_S, 0
        while time.monotonic() < until:
            found = len(spooled_in(calls.parent)[0])
            if found == count:
                return calls.read_bytes()
            time.sleep(0.01)
        there = sorted(path.name for path in calls.parent.iterdir())
        raise TimeoutError(f"{found} and not {count} calls in {calls}, beside {there}")

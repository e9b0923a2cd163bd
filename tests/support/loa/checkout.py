"""A project with the scripts of a real Loa checkout, which somebody names, and a `gh` that asks nobody."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "LIFEBUS_LOA_CHECKOUT"
CHECKOUT = os.environ.get(VARIABLE)
PULL_REQUEST = "https://github.com/o/r/pull/1"
FILE = "changed.js"

_MAKEFILE = "build:\n\ttrue\ntest:\n\ttrue\n"
_GH = """\
#!/bin/sh
case "$1 $2" in
    "auth status") exit 0 ;;
    "pr view") cat "{folder}/pull.json" ;;
    "pr diff") cat "{folder}/pull.diff" ;;
    *) exit 1 ;;
esac
"""


@dataclass(frozen=True)
class LoaProject:
    """A project in which Loa's scripts can be run; `path` is the PATH that they need."""

    root: Path
    path: str

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "PATH": self.path, "LOA_CYCLES_LOG": str(self.root / ".run" / "cycles.jsonl")}

    def code_by_hand(self, *command: str) -> int:
        """Return what a command ends with when nobody but this test runs it."""
        ran = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, check=False)
        return ran.returncode


def loa_project(folder: Path, line: str = "plain", *, gh_works: bool = True) -> LoaProject:
    """Return a new project whose pull request adds one line."""
    if CHECKOUT is None:
        raise RuntimeError(f"{VARIABLE} is not set")
    root, tools = folder / "project", folder / "tools"
    shutil.copytree(Path(CHECKOUT) / ".claude", root / ".claude", symlinks=True)
    (root / ".run").mkdir()
    (root / "Makefile").write_text(_MAKEFILE)
    (root / FILE).write_text(f"{line}\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    pull = {
        "number": 1,
        "url": PULL_REQUEST,
        "title": "t",
        "body": "b",
        "state": "OPEN",
        "headRefName": "head",
        "baseRefName": "main",
        "additions": 1,
        "deletions": 0,
        "changedFiles": 1,
        "files": [{"path": FILE, "additions": 1, "deletions": 0}],
    }
    tools.mkdir()
    (folder / "pull.json").write_text(json.dumps(pull))
    (folder / "pull.diff").write_text(f"--- a/{FILE}\n+++ b/{FILE}\n@@ -0,0 +1 @@\n+{line}\n")
    gh = tools / "gh"
    gh.write_text(_GH.format(folder=folder) if gh_works else "#!/bin/sh\nexit 1\n")
    gh.chmod(0o755)
    # Not a link: what an environment's Python finds depends on the path by which it is called.
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    _link_tools(tools)
    return LoaProject(root=root, path=str(tools))


def _link_tools(folder: Path) -> None:
    """Give a folder every program of the PATH but another `yq` than mikefarah's, which Loa's scripts cannot use."""
    for directory in os.get_exec_path():
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / program.name
            if program.name != "yq" and not link.is_symlink() and not link.exists():
                link.symlink_to(program)
    yq = shutil.which("yq")
    if yq and "mikefarah" in subprocess.run([yq, "--version"], capture_output=True, text=True, check=False).stdout:
        (folder / "yq").symlink_to(yq)

"""The Python code of the documentation, and an environment in which a user's project would be checked."""

import re
import subprocess
import sys
import venv
from pathlib import Path

from support.client_environment import installed
from support.paths import EXAMPLES, REPOSITORY
from support.patience import PATIENCE_S
from support.sources import DOCUMENTS, name_of

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def programs(target: Path) -> list[Path]:
    """Write the programs of the documentation into a directory, each as a module of its own, and return the files."""
    found = {name_of(path): path.read_text() for path in sorted(EXAMPLES.rglob("*.py"))}
    for page in (*DOCUMENTS, REPOSITORY / "distributions" / "client" / "README.md"):
        blocks = [block for block in _BLOCK.findall(page.read_text()) if is_program(block)]
        found |= {f"{name_of(page)} {number}": block for number, block in enumerate(blocks, 1)}
    written = {target / f"{re.sub(r'[^a-z0-9]', '_', name.lower())}.py": text for name, text in found.items()}
    for path, text in written.items():
        path.write_text(text)
    return list(written)


def is_program(block: str) -> bool:
    """Whether a block is a program, and not a few lines out of one, which await outside of a function."""
    try:
        compile(block, "block", "exec")
    except SyntaxError:
        return False
    return "import " in block


def environment(directory: Path, wheel: Path) -> Path:
    """Make a virtual environment with a wheel and what it declares, and return its Python."""
    venv.create(directory, with_pip=False, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    installed(wheel, site)
    return directory / "bin" / "python"


def check(python: Path, *paths: Path) -> tuple[int, str]:
    """Check files as `mypy --strict` does in a project that has this environment; return its exit code and words."""
    arguments = ["--strict", "--python-executable", str(python), "--cache-dir", str(python.parents[1] / "cache")]
    # Whatever the environment says of colours.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-color-output", *arguments, *map(str, paths)]
    done = subprocess.run(
        command, cwd=python.parents[1], capture_output=True, check=False, timeout=PATIENCE_S, text=True
    )
    return done.returncode, done.stdout + done.stderr

"""The launcher that every installed hook runs, and what stands beside it: files of ours that all harnesses share.

They are copies, outside of any virtual environment, so that hooks go on working, or at least do no harm, when lifebus
is upgraded, moved or gone.

    <data directory>/lifebus-hook          the launcher: runs hook.py with a Python that is there
    <data directory>/hook.py               a copy of lifebus/hook.py
    <data directory>/wrapper.py            a copy of lifebus/wrapper.py, which the launcher wrappers run
    <data directory>/bin/lifebus-run-…     a launcher wrapper
"""

from typing import Final

from lifebus_adapters.shared.assets import LAUNCHER, InstallRequest, OwnedFile
from lifebus_adapters.shared.templates import fill, for_shell, template

_EXECUTABLE: Final = 0o700


def launcher_path(directory: str) -> str:
    """Return the launcher's absolute path in the data directory."""
    return f"{directory.rstrip('/')}/{LAUNCHER}"


def data_directory(request: InstallRequest) -> str:
    """Return the data directory of a request: where its launcher lies."""
    return request.launcher.rpartition("/")[0]


def launcher_files(directory: str, *, python: str, hook: str, wrapper: str) -> tuple[OwnedFile, ...]:
    """Return the shared files.

    Args:
        directory: The data directory.
        python: An absolute path of an interpreter, better not of a virtual environment.
        hook: The text of lifebus/hook.py.
        wrapper: The text of lifebus/wrapper.py.
    """
    base = directory.rstrip("/")
    launcher = fill(template("texts", "launcher.sh"), hook=for_shell(f"{base}/hook.py"), python=for_shell(python))
    return (
        # The launcher is last: it must not be there before its hook.py.
        OwnedFile(path=f"{base}/hook.py", contents=hook),
        OwnedFile(path=f"{base}/wrapper.py", contents=wrapper),
        OwnedFile(path=launcher_path(base), contents=launcher, mode=_EXECUTABLE),
    )


def wrapper_path(request: InstallRequest, adapter_id: str) -> str:
    """Return the absolute path of a harness's launcher wrapper."""
    return f"{data_directory(request)}/bin/lifebus-run-{adapter_id}"


def wrapper_file(request: InstallRequest, adapter_id: str, program: str) -> OwnedFile:
    """Return a harness's launcher wrapper: a script to start the harness with."""
    text = fill(
        template("texts", "run.sh"),
        launcher=for_shell(request.launcher),
        wrapper=for_shell(f"{data_directory(request)}/wrapper.py"),
        python=for_shell(request.python),
        adapter=adapter_id,
        program=program,
    )
    return OwnedFile(path=wrapper_path(request, adapter_id), contents=text, mode=_EXECUTABLE)

"""`make e2e`: install the harness programs that are not there yet, leave the network, and run the tests.

    python tests/e2e/run.py [--cached] [HARNESS …] [-- PYTEST-ARGUMENT …]

Without names all six harnesses and the app-server of Codex are tested; with `--cached` nothing is installed, and
harnesses that are not there are left out.  On Linux the tests run in a network namespace
that has loopback alone; where that is not permitted, all proxies point nowhere instead.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from lifebus.live.sandbox import only_loopback  # noqa: E402
from support.e2e.app_server import PACKAGES  # noqa: E402  the path is set up above
from support.e2e.pinned import PINNED  # noqa: E402  the path is set up above
from support.e2e.programs import cache, install, is_installed  # noqa: E402

TESTED = {name: pinned.packages for name, pinned in PINNED.items()} | {"app_server": PACKAGES}
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_FLAGS, _UP = 0x8914, 0x1 | 0x40


def main(arguments: list[str]) -> None:
    """Install, leave the network, and become pytest."""
    cached = arguments[:1] == ["--cached"]
    chosen, _, options = _split(arguments[cached:])
    names = [name for name in chosen or TESTED if _is_there(name, cached=cached)]
    if not names:
        return
    if not _leave_network():
        say("no network namespace of our own: proxies point nowhere instead")
    files = [str(path) for name in names for path in sorted((TESTS / "e2e").glob(f"test_{name}*.py"))]
    if cells := [name for name in names if name in PINNED]:
        # `-k` has to leave the other files as they are, so the matrix takes its harnesses from the environment.
        os.environ["LIFEBUS_E2E_MATRIX"] = ",".join(cells)
        files.append(str(TESTS / "e2e/test_matrix.py"))
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", *options, *files])


def _is_there(name: str, *, cached: bool) -> bool:
    """Install what a harness needs, unless only `cached` ones are asked for; return whether it is to be tested."""
    packages = TESTED[name]
    if cached and not all(map(is_installed, packages)):
        say(f"{name}: not in {cache()}, left out")
        return False
    for package in packages:
        say(f"{package}: {install(package) or 'installed'} ({cache()})")
    return True


def _split(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    unknown = set(arguments[:at]) - set(TESTED)
    if unknown:
        sys.exit(f"no such harness: {', '.join(sorted(unknown))}; there are {', '.join(TESTED)}")
    return arguments[:at], "--", arguments[at + 1 :]


def _leave_network() -> bool:
    """Move this process into a network namespace with loopback up; False where the system has or permits none."""
    if only_loopback():
        return True
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    user, group = os.geteuid(), os.getegid()
    if unshare is None or unshare(_NEW_USER | _NEW_NET if user else _NEW_NET) != 0:
        return False
    if user:  # keep the ids: files and sockets are checked for their owner
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
    return True


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

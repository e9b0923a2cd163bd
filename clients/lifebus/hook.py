"""The hook: carries one call of a harness to the broker, and the broker's answer back (docs/hooks.md).

Run as ``python -I -S hook.py ADAPTER [HOOK [CALL_ID]]`` by the harness, with the hook's payload on stdin, which is
never parsed here.  It ends within 300 ms.  It exits 0 and prints nothing, whatever goes wrong: harnesses read exit 2 as
a refusal, so only an answer of the broker may cause it.  A call that got no whole answer goes to the spool, by a child
where that takes longer.

The whole file is start-up cost, because a script is compiled at each start: so it is short, takes built-in modules
only (no `os`, `json`, `socket`, `signal`), and joins strings with `+`, which compiles faster than formatting.
"""

import sys

try:
    import posix
    from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, socket
    from time import time

    TYPE_CHECKING = False  # `typing` costs more than the whole hook
except ImportError:  # a Python that is not CPython on a POSIX system has no way to the broker
    sys.exit(0)

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # `signal` itself would import `enum`

_EXCHANGE_S = 0.24
"""Seconds for stdin, connection and answer together, counted from the start of this file."""

_SPOOL_S = 0.04
"""Seconds for the spool, beside what the exchange has left."""

_LATE_S = 30.0
"""Seconds for a spool that takes longer, on a machine under load: in a child, while the harness goes on."""

_MAX_STDIN = 1_048_576
"""Bytes of stdin that are carried; of a larger payload only the size is."""

_MAX_HEADER = 16_384
"""Bytes of the header line."""

_MAX_ANSWER = 1_048_576
"""Bytes of an answer."""

_MAX_SPOOL = 16 * 1_048_576
"""Bytes of the whole spool; calls beyond are lost and counted."""

_MAX_TEXT = 4096
"""Bytes of the working directory, or of one variable; longer ones are left out, never cut."""

_VARIABLES = (
    b"CLAUDE_CODE_ENTRYPOINT",
    b"CLAUDE_CODE_SESSION_ID",
    b"CLAUDE_PROJECT_DIR",
    b"CODEX_HOME",
    b"GEMINI_CWD",
    b"GEMINI_PROJECT_DIR",
    b"GEMINI_SESSION_ID",
    b"HERMES_HOME",
    b"OPENCLAW_SESSION_ID",
    b"OPENCLAW_STATE_DIR",
    b"OPENCODE_CONFIG_DIR",
    b"OPENCODE_SESSION_ID",
)
"""What is carried of the environment: paths and session ids, by name, never a key or token."""

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""How harnesses end a hook.  Claude Code does it to every other hook of an event as soon as one of them blocks."""

_end = posix._exit  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  skips a clean-up that costs time


class _Call:
    """One hook call: who calls, and what came on stdin."""

    def __init__(self, adapter: str, hook: str = "", call_id: str = "") -> None:
        self.adapter = adapter
        self.hook = hook
        self.pid = posix.getppid()
        self.call_id = call_id or "hook-" + hex(int(time() * 1000))[2:] + "-" + posix.urandom(8).hex()  # noqa: FURB116
        self.stdin, self.size = b"", 0

    def read_stdin(self) -> None:
        """Read until the harness closes stdin, or what is there when the time is over; beyond the limit, count only."""
        chunks: list[bytes] = []
        try:
            while not posix.isatty(0) and (chunk := posix.read(0, 65_536)):
                self.size += len(chunk)
                if self.size <= _MAX_STDIN:
                    chunks.append(chunk)
                elif not signal.getitimer(signal.ITIMER_REAL)[0]:
                    break
        except OSError:  # the harness gave no stdin, or no more of it in time
            pass
        self.stdin = b"".join(chunks) if self.size <= _MAX_STDIN else b""

    def message(self, marks: str = "") -> bytes:
        """Return the header line and stdin as the hook server reads them; `marks` are more members of the header."""
        if self.size > _MAX_STDIN:
            marks += ',"oversized":' + str(self.size)
        header = self.header(_working_directory(), _environment(), marks)
        if len(header) > _MAX_HEADER:
            header = self.header("", "", marks)
        return header.encode() + self.stdin

    def header(self, cwd: str, env: str, marks: str) -> str:
        """Return the header line, all ASCII; `env` and `marks` are JSON members already."""
        text = '{"v":1,"call_id":' + _quoted(self.call_id) + ',"adapter":' + _quoted(self.adapter)
        text += ',"hook":' + _quoted(self.hook) + ',"pid":' + str(self.pid) + ',"cwd":' + _quoted(cwd)
        return text + ',"env":{' + env + '},"size":' + str(len(self.stdin)) + marks + "}\n"


def _quoted(text: str) -> str:
    """Return a text as a JSON string, all ASCII."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    from _json import encode_basestring_ascii  # noqa: PLC0415  rare, and to load it takes longer than to send the call

    return encode_basestring_ascii(text)


def _working_directory() -> str:
    """Return the working directory, or nothing when it is gone or too long."""
    try:
        path = posix.getcwdb()
    except OSError:
        return ""
    return path.decode("utf-8", "replace") if len(path) <= _MAX_TEXT else ""


def _environment() -> str:
    """Return the selected variables as the members of a JSON object."""
    members: list[str] = []
    for name in _VARIABLES:
        value = posix.environ.get(name, b"")
        if 0 < len(value) <= _MAX_TEXT:
            members.append(_quoted(name.decode()) + ":" + _quoted(value.decode("utf-8", "replace")))
    return ",".join(members)


def _directory(own: bytes, xdg: bytes, default: bytes) -> bytes:
    """Return the directory that variable `own` names, else `lifebus` below `xdg`, else `default` below home."""
    explicit, base = posix.environ.get(own, b""), posix.environ.get(xdg, b"")
    if explicit:
        return explicit
    if base.startswith(b"/"):
        return base + b"/lifebus"
    return _home() + default


def _home() -> bytes:
    """Return the user's home directory; the account's own where the harness gave none."""
    given = posix.environ.get(b"HOME", b"")
    if given.startswith(b"/"):
        return given
    import pwd  # noqa: PLC0415  rare, and it reads the account database

    return pwd.getpwuid(posix.geteuid()).pw_dir.encode("utf-8", "surrogateescape")


def _ask(message: bytes) -> tuple[int, bytes]:
    """Return the exit code and the stdout that the broker answers.

    Raises:
        OSError: the broker is away, refuses or hangs up; it or its directory is another user's, or open to others.
        ValueError: the answer is not whole.
    """
    runtime = _directory(b"LIFEBUS_RUNTIME_DIR", b"XDG_RUNTIME_DIR", b"/.local/state/lifebus/run")
    _refuse_open(posix.stat(runtime))
    broker = socket(AF_UNIX, SOCK_STREAM)
    broker.connect(runtime + b"/hook.sock")
    _refuse_stranger(broker)
    broker.sendall(message)
    answer = b""
    while len(answer) <= _MAX_ANSWER and (chunk := broker.recv(65_536)):
        answer += chunk
    broker.close()
    return _parse(answer)


def _refuse_open(found: posix.stat_result) -> None:
    """Refuse a directory that another user made or may enter."""
    if found.st_uid != posix.geteuid() or found.st_mode & 0o077:
        raise PermissionError


def _refuse_stranger(broker: socket) -> None:
    """Refuse a broker of another user, where the kernel knows (Linux): its answer would reach the model.

    This is asked of the connection itself, so that the directories above ours need no check here.
    """
    try:
        from _socket import SO_PEERCRED  # noqa: PLC0415  other systems rely on the directory's mode
    except ImportError:
        return
    uid = int.from_bytes(broker.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], sys.byteorder)
    if uid != posix.geteuid():
        raise PermissionError


def _parse(answer: bytes) -> tuple[int, bytes]:
    """Return exit code and stdout of an answer: ``<exit code> <stdout length>`` and a newline, then stdout.

    Raises:
        ValueError: the answer is cut off, too long or something else.
    """
    line, newline, stdout = answer.partition(b"\n")
    code, length = line.split(b" ")
    if not newline or not (code.isdigit() and length.isdigit()) or int(code) > 255 or int(length) != len(stdout):  # noqa: PLR2004
        raise ValueError
    return int(code), stdout


def _spool(call: _Call) -> None:
    """Append the call to the spool; one that does not fit any more, or for which the disk is too full, is counted.

    Raises:
        OSError: the spool cannot be written, or is not ours alone.
    """
    message = call.message(',"spooled_at_epoch_s":' + str(int(time()))) + b"\n"
    folder = _open_folder(_directory(b"LIFEBUS_STATE_DIR", b"XDG_STATE_HOME", b"/.local/state/lifebus") + b"/spool")
    file = _open_locked(b"calls", folder)
    before = posix.fstat(file).st_size
    if before + _stat(b"calls.claimed", folder)[1] + len(message) <= _MAX_SPOOL:
        try:
            if posix.write(file, message) == len(message):
                return
        except OSError:  # the disk is full
            pass
        posix.ftruncate(file, before)
    _count_lost(call.adapter, folder)


def _spool_in_time(call: _Call) -> None:
    """Spool the call; where it takes longer than the harness may wait, in a child.

    Raises:
        OSError: as `_spool`.
        _GivenUp: the time of the exchange was over before that of the spool had begun.
    """
    try:
        _handle_ending(_go_on)
        _arm(signal.getitimer(signal.ITIMER_REAL)[0] + _SPOOL_S, _detach)
        _spool(call)
    except _Detached:  # a lock that was held does not pass to a child, and a call that comes twice counts once
        _spool(call)


def _count_lost(adapter: str, folder: int) -> None:
    """Count a call that is lost, by the size of a file that is all hole: it grows on a full disk, too."""
    plain = adapter.replace("-", "").replace("_", "").isalnum()
    file = _open_locked(b"dropped." + adapter.encode() if plain else b"dropped", folder)
    posix.ftruncate(file, posix.fstat(file).st_size + 1)


def _open_folder(path: bytes) -> int:
    """Return the spool's folder, made where missing; refuse one that others may enter."""
    parts = path.split(b"/")
    for depth in range(1, len(parts) + 1):
        try:
            posix.mkdir(b"/".join(parts[:depth]), 0o700)
        except OSError:  # it is there, or opening it says what is wrong
            continue
    folder = posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    _refuse_open(posix.fstat(folder))
    return folder


def _open_locked(name: bytes, folder: int) -> int:
    """Return a file of the spool, locked, and not one that the broker has just claimed by renaming it."""
    while True:
        file = _open_file(name, folder)
        posix.lockf(file, posix.F_LOCK, 0)
        if _stat(name, folder)[0] == posix.fstat(file).st_ino:
            return file
        posix.close(file)


def _stat(name: bytes, folder: int) -> tuple[int, int]:
    """Return inode number and size of a file in the folder, zeros where there is none."""
    try:
        found = posix.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size


def _open_file(name: bytes, folder: int) -> int:
    """Return a regular file of ours in the folder, open for appending."""
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
    file = posix.open(name, flags, 0o600, dir_fd=folder)
    found = posix.fstat(file)
    if found.st_uid != posix.geteuid() or found.st_mode & 0o170_000 != 0o100_000:  # noqa: PLR2004  S_IFREG
        raise PermissionError
    return file


class _GivenUp(BaseException):
    """The time is over, or the harness wants the hook to end; not an OSError, so that nothing swallows it."""


class _Detached(_GivenUp):
    """This process is the child that spools while the harness goes on."""


def _give_up(*_: object) -> None:
    """Signal handler: end the exchange with the broker."""
    # A second signal must not interrupt the spooling that follows.
    _handle_ending(_go_on)
    raise _GivenUp


def _stop_waiting(*_: object) -> None:
    """Signal handler: wait for no more of stdin.  To raise here would lose what a read has just returned."""
    posix.set_blocking(0, False)


def _go_on(*_: object) -> None:
    """Signal handler: do nothing; not SIG_IGN, which complains on stderr where a signal is pending already."""


def _detach(*_: object) -> None:
    """Signal handler: let the harness go on, and have a child of ours spool the call from the beginning.

    Raises:
        OSError: no child can be had.
        _Detached: this is the child.
    """
    if posix.fork():
        _end(0)
    posix.setsid()  # what ends the harness's group, or waits for its streams, has nothing to do with the child
    posix.closerange(0, 3)
    _arm(_LATE_S, lambda *_: _end(0))
    raise _Detached


def _handle_ending(handler: "Callable[..., None]") -> None:
    """Have `handler` called as soon as the harness wants the hook to end."""
    for number in _ENDING:
        signal.signal(number, handler)


def _arm(seconds: float, handler: "Callable[..., None]") -> None:
    """Have `handler` called after so many seconds."""
    signal.signal(signal.SIGALRM, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, *_ENDING))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _print_out(stdout: bytes) -> None:
    """Write the answer to stdout for as long as the harness reads it in time."""
    try:
        while stdout:
            stdout = stdout[posix.write(1, stdout) :]
    except (OSError, _GivenUp):
        return


def main(arguments: list[str]) -> int:
    """Carry one call; return the exit code that the broker answered, else 0.

    Raises:
        BaseException: the call could not be spooled either.
    """
    if not 1 <= len(arguments) <= 3 or not all(len(word) <= 128 and word.isascii() for word in arguments):  # noqa: PLR2004
        posix.write(2, b"usage: hook.py ADAPTER [HOOK [CALL_ID]]\n")
        return 0
    call = _Call(*arguments)
    try:
        # A payload that is cut off is worth nothing, so the harness waits until stdin has been read.
        _handle_ending(_go_on)
        _arm(_EXCHANGE_S, _stop_waiting)
        call.read_stdin()
        _handle_ending(_give_up)
        signal.signal(signal.SIGALRM, _give_up)
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            posix.set_blocking(0, True)  # whoever shares it finds it as it was
            _give_up()
        code, stdout = _ask(call.message())
    except BaseException:  # noqa: BLE001  the harness must not see it, and the call must not be lost
        try:
            _spool_in_time(call)
        except _GivenUp:  # the time was over in the very moment in which the exchange failed
            _spool_in_time(call)
        return 0
    _print_out(stdout)
    return code


if __name__ == "__main__":
    status = 0
    try:
        status = main(sys.argv[1:])
    finally:
        _end(status)

"""`lifebus dashboard`: a link that logs a browser in, once, and the browser that opens it."""

import os
import time
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import Struct

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put_json, say
from lifebus_contract import LifebusError

_REDIRECT: Final = "dashboard.html"


class DashboardLink(Struct, frozen=True):
    """A link that logs one page in, once; `scope` is ``read`` or ``write``, and it works until `expires_at_ms`."""

    url: str
    scope: str
    expires_at_ms: int


class _Gateway(Struct, frozen=True, rename="camel"):
    """What the file of a gateway says: its address, and the file with its token."""

    url: str
    token_file: str


def dashboard(
    *,
    runtime_dir: Annotated[Path | None, Parameter(env_var="LIFEBUS_RUNTIME_DIR")] = None,
    write: bool = False,
    print_only: Annotated[bool, Parameter(name="--print")] = False,
    json: bool = False,
) -> ExitCode:
    """Open the dashboard in a browser; exit code 69 when no broker with a gateway runs.

    The link logs a page in once, within ten minutes. The page reads; with `--write` it may also answer questions and
    cancel jobs, and asks before it does.

    Args:
        runtime_dir: The directory with the broker's sockets.
        write: Let the page answer, cancel and the like.
        print_only: Print the link, and open nothing.
        json: Print the link as JSON, and open nothing.
    """
    from lifebus_transports.directories import default_runtime_dir  # noqa: PLC0415

    directory = (runtime_dir or default_runtime_dir()).absolute()
    link = make_link(directory, write=write)
    if json:
        put_json(link)
        return ExitCode.OK
    if not print_only and _open(directory, link.url):
        say("opened in your browser; if it shows nothing, open this link, which works once:")
    say(link.url)
    return ExitCode.OK


def make_link(runtime_dir: Path, *, write: bool = False) -> DashboardLink:
    """Return a link to the gateway that runs at a directory.

    Raises:
        LifebusError: `no_gateway`: none runs there; `gateway_secret`: its token cannot be read.
    """
    import msgspec  # noqa: PLC0415

    from lifebus_transports.http.access.page_logins import CODE_MS, PageScope, link_of, make_code  # noqa: PLC0415
    from lifebus_transports.http.access.tokens import read_secret  # noqa: PLC0415

    try:
        found = msgspec.json.decode((runtime_dir / "gateway.json").read_bytes(), type=_Gateway)
    except (OSError, msgspec.MsgspecError) as fault:
        raise LifebusError(f"no broker with a gateway runs at {runtime_dir}", code="no_gateway") from fault
    scope = PageScope.WRITE if write else PageScope.READ
    now_ms = time.time_ns() // 1_000_000
    code = make_code(read_secret(Path(found.token_file)), scope, now_ms, os.urandom)
    return DashboardLink(link_of(found.url, code), scope.value, now_ms + CODE_MS)


def _open(directory: Path, url: str) -> bool:
    """Have the browser open a link; by a private file, because others can read the arguments of a process."""
    import html  # noqa: PLC0415
    import webbrowser  # noqa: PLC0415

    page = directory / _REDIRECT
    page.unlink(missing_ok=True)
    descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">\n')
    return webbrowser.open(page.as_uri())

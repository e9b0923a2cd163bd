"""How the demonstration is shown: a coloured table on a terminal, plain lines elsewhere, nothing for `--check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from lifebus.cli.printing import short_line
from lifebus.cli.terminal import clean
from lifebus.cli.wording.receipt_text import COLUMNS
from lifebus.demo.checks import Check
from lifebus.demo.participants import CLIENTS
from lifebus.demo.replay import HARNESSES, HookResult
from lifebus_contract import Receipt

_COLUMNS: Final = COLUMNS[1:]
"""Those of `tail` but the time: recorded calls are played faster than they came."""

_STATUS_STYLES: Final = {"delivered": "green", "skipped": "dim", "degraded": "yellow", "failed": "red"}
_HARNESS_STYLES: Final = {"codex": "cyan", "claude": "magenta", "gemini": "blue"}
_NEXT: Final = (
    ("lifebus up", "a broker of your own, in this terminal"),
    ("lifebus tail", "its receipts, in another one"),
    ("lifebus emit session.started --adapter codex --session hello", ""),
    ("lifebus doctor", "if anything seems wrong"),
)


class PipeConsole(Console):
    """A console that lets its caller decide what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Pass it on; rich would exit with its own code.

        Raises:
            BrokenPipeError: always.
        """
        raise BrokenPipeError


class DemoView:
    """Prints what happens as it happens; with a console that is quiet, nothing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._payload_shown = False

    def opened(self, home: Path, broker_pid: int, calls: int, sessions: int) -> None:
        """Say what is going to happen."""
        self._print(Text("lifebus demo", "bold"))
        self._print(Text(f"{calls} recorded hook calls of {', '.join(HARNESSES.values())}"))
        self._print(Text(f"broker: process {broker_pid}, ledger below {home}", "dim"))
        for client in CLIENTS:
            self._print(Text.assemble((f"{client.client_id} ", "bold"), client.shows))
        self._print(Text(f"followers: everything, each of {sessions} sessions, and `late`, which will hang up"))
        self._print(Text())
        self._print(Text(" ".join(title.ljust(width) for title, width in _COLUMNS).rstrip(), "bold"))

    def receipt(self, receipt: Receipt) -> None:
        """Show a receipt as a row."""
        session, sequence, event, status, note = (clean(cell) for cell in short_line(receipt)[1:])
        widths = [width for _, width in _COLUMNS]
        style = _STATUS_STYLES.get(status, "")
        row = Text.assemble(
            (f"{session:<{widths[0]}} ", _HARNESS_STYLES.get(receipt.adapter_id, "")),
            (f"{sequence:>{widths[1]}} ", "dim"),
            f"{event:<{widths[2]}} ",
            (f"{status:<{widths[3]}} ", style),
            (note, style or "dim"),
        )
        row.rstrip()
        self._print(row)

    def note(self, text: str) -> None:
        """Show a remark between the rows."""
        self._print(Text(f"  {text}", "italic"))

    def hook_answered(self, result: HookResult) -> None:
        """Show what a harness would have read: the first time whole, then in a line."""
        printed = clean(result.stdout.decode(errors="replace").strip())
        if printed in {"", "{}"}:
            return
        head = f"  {HARNESSES[result.adapter]}'s {result.hook} hook printed "
        self._print(Text(head + ("the payload again" if self._payload_shown else "this for the model:"), "green"))
        if not self._payload_shown:
            self._print(Text(printed, "green"), wrap=True)
        self._payload_shown = True

    def summary(self, checks: Sequence[Check]) -> None:
        """Say what is proved, and what to type next."""
        width = max(len(check.name) for check in checks)
        self._print(Text("\nWhat is proved", "bold"))
        for check in checks:
            sign = Text("ok    ", "green") if check.holds else Text("FAILED", "bold red")
            self._print(Text.assemble("  ", sign, " ", (check.name.ljust(width), "bold"), "  ", check.text), wrap=True)
        self._print(Text("\nWhat to type next", "bold"))
        for command, why in _NEXT:
            self._print(Text.assemble("  ", (command.ljust(15), "cyan"), " ", (why, "dim")), wrap=True)
        self._print(Text("Nothing was left behind.", "dim"))

    def _print(self, line: Text, *, wrap: bool = False) -> None:
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True, highlight=False)  # a pipe gets lines whole
        else:
            self._console.print(line, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis", highlight=False)

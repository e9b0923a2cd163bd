"""How the demonstration looks: calm and coloured on a terminal, plain lines elsewhere, silent for `--check`."""

from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from lifebus.cli.printing import COLUMNS, short_line
from lifebus.cli.terminal import clean
from lifebus.demo.checks import Check
from lifebus.demo.participants import CLIENTS
from lifebus.demo.recordings import HARNESSES
from lifebus.demo.replay import HookResult
from lifebus.demo.scenario import Stage
from lifebus_contract import Receipt, ReceiptStatus

_STYLES: Final = {
    ReceiptStatus.OBSERVED: "",
    ReceiptStatus.DELIVERED: "green",
    ReceiptStatus.SKIPPED: "dim",
    ReceiptStatus.DEGRADED: "yellow",
    ReceiptStatus.FAILED: "red",
}
_HARNESS_STYLES: Final = {"codex": "cyan", "claude": "magenta", "gemini": "blue"}
_NEXT: Final = (
    ("lifebus up", "a broker of your own, in this terminal"),
    ("lifebus tail", "its receipts, in another one"),
    ("lifebus emit session.started --adapter codex --session hello", ""),
    ("lifebus doctor", "if anything seems wrong"),
)


class SilentView:
    """Shows nothing."""

    def opened(self, stage: Stage) -> None:
        """Show nothing."""

    def receipt(self, receipt: Receipt) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def hook_answered(self, result: HookResult) -> None:
        """Show nothing."""


class PipeConsole(Console):
    """A console that lets its caller decide what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Pass it on.

        Raises:
            BrokenPipeError: always.
        """
        raise BrokenPipeError


class TableView:
    """Receipts scroll by in a table; on a terminal a line below says how far each follower is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage: Stage | None = None
        self._shown = False
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def opened(self, stage: Stage) -> None:
        """Say what is going to happen."""
        self._stage = stage
        calls = sum(len(recording.steps) for recording in stage.recordings)
        self._print(Text("lifebus demo", "bold"))
        self._print(Text(f"{calls} recorded hook calls of {', '.join(HARNESSES.values())}"))
        self._print(Text(f"broker: process {stage.broker_pid}, ledger below {stage.home}", "dim"))
        for client in CLIENTS:
            self._print(Text.assemble((f"{client.client_id} ", "bold"), client.story))
        sessions = sum(follower.session is not None for follower in stage.followers)
        self._print(Text(f"followers: everything, each of {sessions} sessions, and `late`, which will hang up"))
        self._print(Text())
        self._print(Text(" ".join(title.ljust(width) for title, width in COLUMNS).rstrip(), "bold"))

    def receipt(self, receipt: Receipt) -> None:
        """Show a receipt as a row."""
        cells = [clean(cell) for cell in short_line(receipt)]
        widths = [width for _, width in COLUMNS]
        style = _STYLES[receipt.status]
        row = Text.assemble(
            (cells[0].ljust(widths[0]), _HARNESS_STYLES.get(receipt.adapter_id, "")),
            " ",
            (cells[1].rjust(widths[1]), "dim"),
            " ",
            cells[2].ljust(widths[2]),
            " ",
            (cells[3].ljust(widths[3]), style),
            " ",
            (cells[4], style or "dim"),
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
        self._print(Text(head + ("the payload again" if self._shown else "this for the model:"), "green"))
        if not self._shown:
            self._print(Text(printed, "green"), wrap=True)
        self._shown = True

    def _print(self, line: RenderableType, *, wrap: bool = False) -> None:
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True, highlight=False)
            return
        if self._live is not None and self._stage is not None:
            self._live.update(self._followers(self._stage))
        self._console.print(line, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis", highlight=False)

    def _followers(self, stage: Stage) -> RenderableType:
        everything, late, *others = stage.followers
        state = f"stopped at {late.stopped_at}" if late.stopped else f"{len(late.seen)}"
        seen = sum(len(follower.seen) for follower in others)
        line = f"followers have seen: everything {len(everything.seen)}, per session {seen}, late {state}"
        return Group(Text(), Text(line, "dim", no_wrap=True, overflow="ellipsis"))


def print_summary(console: Console, checks: list[Check]) -> None:
    """Say what is proved, and what to type next."""
    width = max(len(check.name) for check in checks)
    console.print()
    console.print(Text("What is proved", "bold"))
    for check in checks:
        sign = Text("ok    ", "green") if check.holds else Text("FAILED", "bold red")
        line = Text.assemble("  ", sign, " ", (check.name.ljust(width), "bold"), "  ", check.text)
        console.print(line, highlight=False, soft_wrap=not console.is_terminal)
    console.print()
    console.print(Text("What to type next", "bold"))
    for command, why in _NEXT:
        console.print(Text.assemble("  ", (command.ljust(15), "cyan"), " ", (why, "dim")), highlight=False)
    console.print(Text("Nothing was left behind.", "dim"))

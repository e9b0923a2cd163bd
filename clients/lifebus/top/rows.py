"""The rows of the tables of `lifebus top`.  Pure."""

from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from lifebus._internal.view import Gap
from lifebus.cli.printing import gap_text, short_line
from lifebus.cli.session_names import SessionNames
from lifebus.cli.terminal import clean
from lifebus.cli.wording.receipt_line import name_of
from lifebus.cli.wording.receipt_text import COLUMNS
from lifebus.top.facts import QUIET_MS, age_text, urgent_wait
from lifebus_contract import Receipt
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.views import SessionHead

BAR: Final = 10
"""Columns of a pressure bar."""

TITLE: Final = Style(bold=True)
DIM: Final = Style(dim=True)
SELECTED: Final = Style(reverse=True)
WARNING: Final = Style(color="yellow")
BAD: Final = Style(color="red", bold=True)
GOOD: Final = Style(color="green")
PLAIN: Final = Style.null()

_LEVELS: Final = {"low": GOOD, "moderate": PLAIN, "high": WARNING, "critical": BAD}
_STATUSES: Final = {"delivered": GOOD, "skipped": DIM, "degraded": WARNING, "failed": BAD}
_FOLDER: Final = 15
_WIDE: Final = 110
"""Columns from which on a session's title and branch have room."""
_NARROW, _NARROWEST = 72, 56
"""Columns below which the bar, then harness and turns make room for what a session waits for."""
_PERCENT: Final = 5
_TITLE_WIDTH: Final = 32
_NUMBERS: Final = 8
_NAME: Final = 24


def fitted(text: object, width: int) -> str:
    """Return a text of exactly so many columns, cut with a sign; what others wrote steers no terminal."""
    shown = clean(text)
    if cell_len(shown) > width:
        shown = set_cell_size(shown, width - 1) + "…"
    return set_cell_size(shown, width)


def session_titles(width: int) -> Text:
    """Return the heads of the columns of sessions."""
    cells = [fitted("session", _FOLDER)]
    cells += [fitted("harness", 8), "turns"] if width >= _NARROWEST else []
    cells += [fitted("pressure", BAR + _PERCENT) if width >= _NARROW else "full".rjust(_PERCENT), "last"]
    cells += [fitted("title", _TITLE_WIDTH)] if width >= _WIDE else []
    return Text("  " + " ".join([*cells, "state"]), TITLE)


def session_row(head: SessionHead, now_ms: int, width: int, *, selected: bool) -> Text:
    """Return a session: its name, harness, turns, pressure, last sign of life, and what it does or waits for."""
    words, style = state_of(head, now_ms)
    row = Text("> " if selected else "  ")
    row.append(_folder_cut(name_of(head), _FOLDER), TITLE if selected else PLAIN)
    if width >= _NARROWEST:
        row.append(f" {fitted(head.adapter_id, 8)} {'-' if head.turns is None else head.turns:>5}")
    row.append(" ")
    row.append_text(pressure_bar(head, BAR if width >= _NARROW else 0))
    row.append(f" {age_text(head.last_at_epoch_s * 1_000, now_ms):>4} ", DIM)
    if width >= _WIDE:
        row.append(fitted(" ".join(one for one in (head.git_branch, head.title) if one), _TITLE_WIDTH) + " ")
    row.append(clean(words), style)
    if selected:
        row.stylize(SELECTED)
    return row


def pressure_bar(head: SessionHead, columns: int = BAR) -> Text:
    """Return how full the context was when it was measured last: a bar of so many columns and a number."""
    style = _LEVELS.get(head.pressure.value, PLAIN) if head.pressure else PLAIN
    if head.used_pct is None:
        return Text(fitted(_tokens(head.used_tokens, short=not columns), columns + _PERCENT), style)
    full = min(columns, round(head.used_pct * columns / 100))
    bar = Text("█" * full, style)
    bar.append("·" * (columns - full), DIM)
    bar.append(f" {head.used_pct:>3}%", style)
    return bar


def _tokens(count: int | None, *, short: bool) -> str:
    if count is None:
        return "-"
    return f"{count // 1_000}k".rjust(_PERCENT) if short else f"{count} tokens"


def state_of(head: SessionHead, now_ms: int) -> tuple[str, Style]:
    """Return in words what a session does or waits for, and how that looks."""
    if head.ended:
        return "ended", DIM
    wait = urgent_wait(head)
    if wait is not None:
        kind = f" ({wait.kind})" if wait.kind else ""
        return f"waits for {wait.waiting_for}{kind} {age_text(wait.since_ms, now_ms)}", WARNING
    if head.waiting:
        return f"idle {age_text(head.waiting[0].since_ms, now_ms)}", DIM
    if not head.open_frames:
        return "open", PLAIN
    quiet = now_ms - head.last_at_epoch_s * 1_000 >= QUIET_MS
    nested = f", {len(head.open_frames) - 1} nested" if len(head.open_frames) > 1 else ""
    return f"{'quiet' if quiet else 'works'}{nested}", WARNING if quiet else GOOD


def receipt_titles() -> Text:
    """Return the heads of the columns of receipts."""
    return Text(" ".join(fitted(title, width) for title, width in COLUMNS), TITLE)


def receipt_row(item: Receipt | Gap, names: SessionNames) -> Text:
    """Return a receipt as `lifebus tail` shows it, or a gap."""
    if isinstance(item, Gap):
        return Text(gap_text(item), WARNING)
    cells = short_line(item, names)
    *before, status, note = [fitted(cell, width) for cell, (_, width) in zip(cells[:5], COLUMNS, strict=False)] + [
        clean(cells[5])
    ]
    style = _STATUSES.get(item.status.value, PLAIN)
    row = Text(f"{before[0]} ", DIM)
    row.append(f"{' '.join(before[1:])} ")
    row.append(f"{status} {note}", style)
    return row


def consumer_titles() -> Text:
    """Return the heads of the columns of consumers."""
    numbers = "".join(f"{title:>{_NUMBERS}}" for title in ("lag", "open", "dead"))
    return Text(f"{fitted('consumer', _NAME)}{numbers}  state", TITLE)


def consumer_row(one: ConsumerInfo) -> Text:
    """Return a named consumer: how far behind it is, what it holds, and its dead letters."""
    row = Text(fitted(one.cursor, _NAME))
    row.append(f"{one.lag:>{_NUMBERS}}{one.open:>{_NUMBERS}}")
    row.append(f"{one.dead:>{_NUMBERS}}", BAD if one.dead else PLAIN)
    state = "attached" if one.attached else "away"
    row.append(f"  {state}{', a gap is not acknowledged' if one.lost else ''}", WARNING if one.lost else DIM)
    return row


def question_row(info: QuestionInfo, now_ms: int, *, selected: bool) -> Text:
    """Return a question: how old it is, of what kind, who asks, and its title."""
    asked = info.question
    row = Text(f"{'> ' if selected else '  '}{age_text(asked.asked_at_ms, now_ms):>4} {fitted(asked.kind.value, 10)} ")
    row.append(f"{fitted(asked.run_id or asked.client_id, 18)} ", DIM)
    row.append(clean(asked.title))
    if selected:
        row.stylize(SELECTED)
    return row


def _folder_cut(name: str, width: int) -> str:
    """Return a short name in so many columns; its number tells it from others, so the folder is what is cut."""
    folder, mark, number = clean(name).rpartition("#")
    if not mark or cell_len(clean(name)) <= width:
        return fitted(name, width)
    return fitted(f"{set_cell_size(folder, max(1, width - len(number) - 2))}…#{number}", width)

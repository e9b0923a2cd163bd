"""A whole screen: facts and what is looked at in, lines out.

Nothing is changed but how far down is scrolled, which is held within what there is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from lifebus._internal.view import Gap
from lifebus.cli.terminal import clean
from lifebus.cli.wording.receipt_line import name_of
from lifebus.top import rows
from lifebus.top.facts import TopFacts, age_text, urgent_wait
from lifebus.top.lines import scrolled, wrapped
from lifebus.top.navigation import (
    ScreenName,
    TopChoice,
    chosen_question,
    chosen_session,
    listed_sessions,
    open_questions,
)
from lifebus_contract import Receipt
from lifebus_contract.questions import AnswerAction, QuestionInfo
from lifebus_contract.views import SessionHead

T = TypeVar("T")

_KEYS: Final = {
    "sessions": "enter look  / filter  p pause  r receipts  c consumers  i inbox  w waiting  e ended  ? keys  q quit",
    "session": "up, down scroll  esc back  p pause  q quit",
    "receipts": "up, down scroll  / filter  esc back  p pause  q quit",
    "consumers": "up, down scroll  / filter  esc back  q quit",
    "inbox": "enter open  / filter  esc back  q quit",
    "question": "a number answers  up, down scroll  esc back  q quit",
    "help": "up, down scroll  esc back  q quit",
}
_LAST_KEYS: Final = 2
"""How many of the keys stand there at any width: how to go on, and how to end."""
_NARROW: Final = 70
"""Columns below which a key and what it does are two lines."""
_FEWEST: Final = 3
"""Lines of a screen at least: its head, one of its body, its foot."""

HELP: Final = (
    ("up, down, k, j", "select a session or a question; scroll receipts"),
    ("page up, page down, home, end", "the same, further"),
    ("enter", "look at the selected session, open the selected question"),
    ("esc", "back; on the list of sessions: drop the filter"),
    ("/", "filter by words: enter keeps it, esc drops it"),
    ("p or space", "pause: the screen stands still, nothing is missed"),
    ("w", "only sessions that wait for a person"),
    ("e", "also sessions that have ended"),
    ("s, r, c, i", "sessions, receipts, consumers, inbox"),
    ("1 to 4, then y", "answer the open question"),
    ("ctrl-l", "draw the screen again"),
    ("q or ctrl-c", "quit"),
)
"""Keys, and what they do."""


def screen_lines(facts: TopFacts, choice: TopChoice, size: tuple[int, int], now_ms: int) -> list[Text]:
    """Return exactly as many lines as the screen has; `size` is columns and lines."""
    width, height = size
    shown = choice.paused or facts
    room = max(height, _FEWEST) - 2
    body = _body(shown, choice, width, room, now_ms)[:room]
    body += [Text()] * (room - len(body))
    return [_head(facts, choice, width, now_ms), *body, _foot(choice, width)][:height]


def _body(facts: TopFacts, choice: TopChoice, width: int, room: int, now_ms: int) -> list[Text]:
    makers: dict[ScreenName, Callable[[], list[Text]]] = {
        "sessions": lambda: _sessions(facts, choice, width, room, now_ms),
        "session": lambda: _session(facts, choice, room, now_ms),
        "receipts": lambda: _receipts(facts, choice, facts.receipts, room),
        "consumers": lambda: _consumers(facts, choice, room),
        "inbox": lambda: _inbox(facts, choice, room, now_ms),
        "question": lambda: _question(facts, choice, width, room, now_ms),
        "help": lambda: scrolled(_help(width), choice, room),
    }
    return makers[choice.screen]()


def _head(facts: TopFacts, choice: TopChoice, width: int, now_ms: int) -> Text:
    """Return the first line: how many of what, and what is wrong, which stands first where not all has room."""
    name, counts = Text(" lifebus ", rows.SELECTED), _counts(facts, now_ms)
    words, style = _trouble(facts, choice, now_ms)
    trouble = Text(f"  {clean(words)}" if words else "", style)
    has_room = name.cell_len + counts.cell_len + trouble.cell_len <= width
    return Text.assemble(name, *((counts, trouble) if has_room or not words else (trouble, " ", counts)))


def _counts(facts: TopFacts, now_ms: int) -> Text:
    opened = [head for head in facts.sessions.values() if not head.ended]
    waiting = sum(urgent_wait(head) is not None for head in opened)
    dead = sum(one.dead for one in facts.consumers)
    line = Text(f" {len(opened)} open  ")
    line.append(f"{waiting} waiting  ", rows.WARNING if waiting else rows.PLAIN)
    line.append(f"inbox {len(facts.questions)}  ", rows.WARNING if facts.questions else rows.PLAIN)
    line.append(f"lag {max((one.lag for one in facts.consumers), default=0)}  ")
    line.append(f"dead {dead}  ", rows.BAD if dead else rows.PLAIN)
    line.append(f"{facts.rate(now_ms):.1f}/s")
    return line


def _trouble(facts: TopFacts, choice: TopChoice, now_ms: int) -> tuple[str, Style]:
    """Return the one thing of the whole broker that is most worth saying."""
    if facts.away_since_ms is not None:
        return f"no broker since {age_text(facts.away_since_ms, now_ms)}", rows.BAD
    if choice.paused is not None:
        return "PAUSED", rows.SELECTED
    if facts.status is not None and not facts.status.ledger.writable:
        return "the ledger takes no writes", rows.BAD
    if facts.fault:
        return facts.fault, rows.WARNING
    harnesses = facts.status.harnesses if facts.status else ()
    silent = [f"{one.adapter_id} ({', '.join(one.silent)})" for one in harnesses if one.silent]
    return (f"silent: {' '.join(silent)}", rows.WARNING) if silent else ("", rows.PLAIN)


def _foot(choice: TopChoice, width: int) -> Text:
    """Return the last line: the filter that is typed, the question that is asked, what happened, else the keys."""
    if choice.is_editing:
        return Text(f"/{choice.words}_", rows.TITLE)
    if choice.asked is not None:
        return Text(f"answer `{choice.asked.value}`? y answers, any other key does not", rows.WARNING)
    if choice.note:
        return Text(clean(choice.note), rows.WARNING)
    filtered = f"[{choice.words}{' waiting' * choice.only_waiting}] ".replace("[ ", "[")
    if not (choice.words or choice.only_waiting):
        filtered = ""
    keys = _KEYS[choice.screen].split("  ")
    while len(keys) > _LAST_KEYS and cell_len(filtered + "  ".join(keys)) > width:
        del keys[-_LAST_KEYS - 1]
    return Text.assemble(Text(filtered, rows.TITLE), Text("  ".join(keys), rows.DIM))


def _help(width: int) -> list[Text]:
    if width >= _NARROW:
        return [Text(f"  {keys:30} {what}") for keys, what in HELP]
    return [part for keys, what in HELP for part in (Text(keys, rows.TITLE), *wrapped(f"  {what}", width))]


def _sessions(facts: TopFacts, choice: TopChoice, width: int, room: int, now_ms: int) -> list[Text]:
    """Return the sessions, and below them the newest receipts of all."""
    found = listed_sessions(facts, choice)
    chosen = chosen_session(facts, choice)
    at = next((index for index, one in enumerate(found) if _pair(one) == chosen), 0)
    # Receipts get what the sessions leave, and some lines in any case.
    most = max(1, min(len(found), (room - 4) * 3 // 5))
    table = [rows.session_row(one, now_ms, width, selected=_pair(one) == chosen) for one in _window(found, at, most)]
    hidden = len(found) - len(table)
    lines = [rows.session_titles(width), *(table or [Text("  no sessions", rows.DIM)])]
    lines += [Text(f"  and {hidden} more", rows.DIM)] if hidden else []
    lines.append(Text())
    return lines + _receipts(facts, choice, facts.receipts, room - len(lines))


def _session(facts: TopFacts, choice: TopChoice, room: int, now_ms: int) -> list[Text]:
    """Return what is known of one session, and its receipts."""
    head = facts.sessions.get(choice.session) if choice.session is not None else None
    if head is None:
        return [Text("this session is not known any more", rows.DIM)]
    lines = list(_session_facts(head, now_ms))
    history = facts.history[1] if facts.history is not None and facts.history[0] == choice.session else ()
    return lines + _receipts(facts, TopChoice(back=choice.back), history, room - len(lines))


def _session_facts(head: SessionHead, now_ms: int) -> Iterable[Text]:
    words, style = rows.state_of(head, now_ms)
    yield Text.assemble(Text(clean(name_of(head)), rows.TITLE), "  ", Text(clean(words), style))
    yield Text(f"{head.adapter_id}/{clean(head.harness_session_id)}", rows.DIM)
    place = [one for one in (head.cwd, head.git_branch, head.title) if one]
    if place:
        yield Text(clean("  ".join(place)))
    counts = {
        "turns": head.turns,
        "agents": head.subagents,
        "compacted": head.compactions,
        "failed": head.failures,
        "frames open": len(head.open_frames),
        "receipts": head.receipts,
    }
    said = "  ".join(f"{name} {count}" for name, count in counts.items() if count is not None)
    began, last = (age_text(at * 1_000, now_ms) for at in (head.started_at_epoch_s, head.last_at_epoch_s))
    yield Text.assemble(rows.pressure_bar(head), f"  {said}")
    yield Text(f"began {began}, last sign of life {last}: {head.last_event.value} {head.last_status.value}")


def _receipts(facts: TopFacts, choice: TopChoice, items: Iterable[Receipt | Gap], room: int) -> list[Text]:
    """Return the newest receipts that have room, the newest last."""
    found = [one for one in items if _is_shown(one, facts, choice)]
    end = max(1, len(found) - choice.back) if found else 0
    return [rows.receipt_titles(), *(rows.receipt_row(one, facts.names) for one in found[max(0, end - room + 1) : end])]


def _is_shown(item: Receipt | Gap, facts: TopFacts, choice: TopChoice) -> bool:
    if isinstance(item, Gap) or not choice.words:
        return True
    session = item.harness_session_id
    name = None if session is None else facts.names.get((item.adapter_id, session))
    return choice.matches(name, item.adapter_id, session, item.event.value, item.status.value, item.client_id)


def _consumers(facts: TopFacts, choice: TopChoice, room: int) -> list[Text]:
    found = [one for one in facts.consumers if choice.matches(one.cursor, one.client_id)]
    if not found:
        return [Text("no consumers")]
    return [rows.consumer_titles(), *scrolled([rows.consumer_row(one) for one in found], choice, room - 1)]


def _inbox(facts: TopFacts, choice: TopChoice, room: int, now_ms: int) -> list[Text]:
    found = open_questions(facts, choice)
    chosen = chosen_question(facts, choice)
    if chosen is None:
        return [Text("no question waits for an answer")]
    shown = _window(found, found.index(chosen), room - 1)
    titles = Text(f"  {'age':>4} {'kind':10} {'run or client':18} question", rows.TITLE)
    return [titles, *(rows.question_row(one, now_ms, selected=one == chosen) for one in shown)]


def _question(facts: TopFacts, choice: TopChoice, width: int, room: int, now_ms: int) -> list[Text]:
    """Return a question with its reason, and the numbers that answer it, which stand there however long that is."""
    info = chosen_question(facts, choice)
    if info is None:
        return [Text("this question is settled")]
    answers = [Text()]
    for number, action in enumerate(info.question.actions, 1):
        by_command = " (by a command, which takes the values)" if action is AnswerAction.MODIFY else ""
        answers.append(Text(f"  {number}  {action.value}{by_command}"))
    above = max(1, room - len(answers))
    return [*scrolled(list(_question_text(info, width, now_ms)), choice, above), *answers]


def _question_text(info: QuestionInfo, width: int, now_ms: int) -> Iterable[Text]:
    asked = info.question
    yield from wrapped(clean(asked.title), width, rows.TITLE)
    yield Text()
    for line in asked.reason.splitlines():
        yield from wrapped(clean(line), width)
    facts = {"kind": asked.kind.value, "run": asked.run_id, "phase": asked.step_id, "asked by": asked.client_id}
    said = "  ".join(f"{name} {clean(value)}" for name, value in facts.items() if value)
    yield Text()
    yield from wrapped(f"{said}  {age_text(asked.asked_at_ms, now_ms)}", width, rows.DIM)
    for one in asked.suggested_actions:
        yield from wrapped(f"- {clean(one)}", width)


def _window(items: Sequence[T], at: int, most: int) -> Sequence[T]:
    """Return as many items as have room, with the one at a place among them."""
    begin = min(max(0, at - most // 2), max(0, len(items) - most))
    return items[begin : begin + most]


def _pair(head: SessionHead) -> tuple[str, str]:
    return head.adapter_id, head.harness_session_id

"""What a user looks at, and what a key changes of that.  Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from lifebus.top.facts import Pair, TopFacts, urgent_wait
from lifebus_contract.questions import AnswerAction, QuestionInfo
from lifebus_contract.views import SessionHead

T = TypeVar("T")

ScreenName = Literal["sessions", "session", "receipts", "consumers", "inbox", "question", "help"]
"""What fills the screen."""

_SCREEN_KEYS: Final[dict[str, ScreenName]] = {
    "s": "sessions",
    "r": "receipts",
    "c": "consumers",
    "i": "inbox",
    "?": "help",
}
_STEPS: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
_TO_ENDS: Final = {"home": -1, "end": 1}
_FAR: Final = 1_000_000
_BACK: Final = {"escape", "left", "backspace"}
_LONGEST_FILTER: Final = 64
_FROM_TOP: Final = {"consumers", "question", "help"}
"""Screens that are read from their beginning."""


class ShowSession(NamedTuple):
    """The receipts of a session are to be read."""

    pair: Pair


class GiveAnswer(NamedTuple):
    """A question is to be answered."""

    question_id: str
    action: AnswerAction


class Quit(NamedTuple):
    """The program is to end."""


Order = ShowSession | GiveAnswer | Quit
"""What a key asks for that the screen alone cannot do."""


@dataclass
class TopChoice:
    """What a user looks at: the screen, what is selected, what is left out.

    `paused` has the facts that are shown meanwhile.  `back` counts the newest receipts that are scrolled past, `down`
    the lines above, where a screen is read from its beginning.  `asked` is the answer that waits to be confirmed;
    `note` is what the last order came to.  Where nobody presses keys, nothing is selected (`selects`).
    """

    screen: ScreenName = "sessions"
    words: str = ""
    is_editing: bool = False
    paused: TopFacts | None = None
    session: Pair | None = None
    question: str | None = None
    asked: AnswerAction | None = None
    back: int = 0
    down: int = 0
    shows_ended: bool = False
    only_waiting: bool = False
    note: str = ""
    selects: bool = True

    def matches(self, *texts: object) -> bool:
        """Whether every word of the filter is in one of the texts; a text that is not known is None."""
        whole = " ".join(str(text) for text in texts if text is not None).lower()
        return all(word in whole for word in self.words.lower().split())


def listed_sessions(facts: TopFacts, choice: TopChoice) -> list[SessionHead]:
    """Return the sessions that are shown: who waits for a person first, the longest first, then the newest."""
    found = [head for head in facts.sessions.values() if _is_listed(head, choice)]
    return sorted(found, key=_urgency)


def open_questions(facts: TopFacts, choice: TopChoice) -> list[QuestionInfo]:
    """Return the questions that are shown."""
    return [
        one
        for one in facts.questions
        if choice.matches(one.question.title, one.question.run_id, one.question.client_id, one.question.question_id)
    ]


def chosen_question(facts: TopFacts, choice: TopChoice) -> QuestionInfo | None:
    """Return the question that is selected; in a list else the first one; None where there is none."""
    found = open_questions(facts, choice)
    # A question that is read must not become another one when somebody else settles it.
    other = found[0] if found and choice.screen != "question" else None
    return next((one for one in found if one.question.question_id == choice.question), other)


def chosen_session(facts: TopFacts, choice: TopChoice) -> Pair | None:
    """Return the session that is selected, else the first one; None where there is none."""
    if not choice.selects:
        return None
    found = [(one.adapter_id, one.harness_session_id) for one in listed_sessions(facts, choice)]
    return choice.session if choice.session in found else (found[0] if found else None)


def press(choice: TopChoice, facts: TopFacts, key: str) -> Order | None:
    """Change what is looked at by a key, and return what is to be done besides."""
    shown = choice.paused or facts
    choice.note = ""
    if choice.is_editing:
        _edit(choice, key)
        return None
    if choice.asked is not None:
        return _confirm(choice, key)
    if choice.screen == "question" and (key.isdigit() or key == "enter"):
        _ask(choice, shown, key)
        return None
    if key == "q":
        return Quit()
    return _look(choice, shown, key)


def _look(choice: TopChoice, facts: TopFacts, key: str) -> Order | None:
    if key in _BACK:
        _go_back(choice)
    elif key in _SCREEN_KEYS:
        choice.screen, choice.back, choice.down = _SCREEN_KEYS[key], 0, 0
    elif key in {"enter", "right"}:
        return _open(choice, facts)
    elif key in _STEPS:
        _move(choice, facts, _STEPS[key])
    elif key in _TO_ENDS:
        _move(choice, facts, _TO_ENDS[key] * _FAR)
    elif key == "/":
        choice.is_editing = True
    elif key in {"p", " "}:
        choice.paused, choice.back = (facts.copy(), choice.back) if choice.paused is None else (None, 0)
    elif key == "e":
        choice.shows_ended = not choice.shows_ended
    elif key == "w":
        choice.only_waiting = not choice.only_waiting
    return None


def _go_back(choice: TopChoice) -> None:
    if choice.screen == "question":
        choice.screen = "inbox"
    elif choice.screen != "sessions":
        choice.screen, choice.back = "sessions", 0
    else:
        choice.words, choice.only_waiting = "", False


def _open(choice: TopChoice, facts: TopFacts) -> Order | None:
    if choice.screen == "sessions":
        choice.session = chosen_session(facts, choice)
        if choice.session is not None:
            choice.screen, choice.back = "session", 0
            return ShowSession(choice.session)
    elif choice.screen == "inbox":
        info = chosen_question(facts, choice)
        if info is not None:
            choice.screen, choice.question, choice.down = "question", info.question.question_id, 0
    return None


def _move(choice: TopChoice, facts: TopFacts, step: int) -> None:
    if choice.screen == "sessions":
        pairs = [(one.adapter_id, one.harness_session_id) for one in listed_sessions(facts, choice)]
        choice.session = _moved(pairs, chosen_session(facts, choice), step)
    elif choice.screen == "inbox":
        ids = [one.question.question_id for one in open_questions(facts, choice)]
        info = chosen_question(facts, choice)
        choice.question = _moved(ids, None if info is None else info.question.question_id, step)
    elif choice.screen in _FROM_TOP:
        choice.down = max(0, choice.down + step)
    else:
        # Whoever scrolls back reads: what comes must not move the lines.
        if step < 0 and choice.paused is None:
            choice.paused = facts.copy()
        history = facts.history[1] if choice.screen == "session" and facts.history else facts.receipts
        choice.back = min(max(0, choice.back - step), max(0, len(history) - 1))


def _moved(items: Sequence[T], at: T | None, step: int) -> T | None:
    if not items:
        return None
    index = items.index(at) if at in items else 0
    return items[min(max(0, index + step), len(items) - 1)]


def _edit(choice: TopChoice, key: str) -> None:
    """Change the filter: Enter keeps it, Esc drops it."""
    if key == "backspace":
        choice.words = choice.words[:-1]
    elif key in {"enter", "escape"}:
        choice.is_editing = False
        choice.words = choice.words if key == "enter" else ""
    elif len(key) == 1 and len(choice.words) < _LONGEST_FILTER:
        choice.words += key


def _ask(choice: TopChoice, facts: TopFacts, key: str) -> None:
    """Have an answer confirmed; `modify` needs values, which a command takes."""
    info = chosen_question(facts, choice)
    actions = info.question.actions if info is not None else ()
    if not key.isdigit() or not 1 <= int(key) <= len(actions) or info is None:
        return
    action = actions[int(key) - 1]
    if action is AnswerAction.MODIFY:
        choice.note = f"lifebus inbox answer {info.question.question_id} modify --set NAME=VALUE"
    else:
        choice.asked, choice.question = action, info.question.question_id


def _confirm(choice: TopChoice, key: str) -> Order | None:
    action, choice.asked = choice.asked, None
    if key not in {"y", "Y"} or action is None or choice.question is None:
        choice.note = "not answered"
        return None
    choice.screen = "inbox"
    return GiveAnswer(choice.question, action)


def _is_listed(head: SessionHead, choice: TopChoice) -> bool:
    return (
        (choice.shows_ended or not head.ended)
        and (not choice.only_waiting or urgent_wait(head) is not None)
        and choice.matches(head.name, head.adapter_id, head.harness_session_id, head.cwd, head.git_branch, head.title)
    )


def _urgency(head: SessionHead) -> tuple[bool, bool, int, str]:
    wait = urgent_wait(head)
    order = -head.last_at_epoch_s if wait is None else wait.since_ms
    return head.ended, wait is None, order, head.harness_session_id

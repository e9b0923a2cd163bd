"""What stands on a screen, and what keys change of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.top.facts import TopFacts, age_text
from lifebus.top.layout import screen_lines
from lifebus.top.navigation import GiveAnswer, Quit, ShowSession, TopChoice, press
from lifebus_contract import LifecycleEvent, PressureLevel, ReceiptStatus
from lifebus_contract.questions import AnswerAction, QuestionInfo
from lifebus_contract.views import SessionHead, Wait
from support.inbox.questions import question

NOW_S = 1_790_000_000
NOW_MS = NOW_S * 1_000


def head(name: str, **fields: Any) -> SessionHead:
    known: dict[str, Any] = {
        "adapter_id": "claude",
        "harness_session_id": f"id-{name}",
        "sequence": 1,
        "receipts": 1,
        "first_position": 1,
        "last_position": 1,
        "last_event": LifecycleEvent.FRAME_OPENED,
        "last_status": ReceiptStatus.OBSERVED,
        "started_at_epoch_s": NOW_S - 60,
        "last_at_epoch_s": NOW_S - 10,
        "ended": False,
        "open_frames": (),
        "harness_sequence": None,
        "name": name,
        "turns": 4,
        **fields,
    }
    return SessionHead(**known)


def facts_of(*heads: SessionHead, questions: int = 0) -> TopFacts:
    facts = TopFacts()
    facts.note_sessions(heads, all_of_them=True)
    facts.questions = tuple(QuestionInfo(question=question(f"q_{number}")) for number in range(questions))
    return facts


def shown(facts: TopFacts, choice: TopChoice | None = None, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain.rstrip() for line in screen_lines(facts, choice or TopChoice(), (width, height), NOW_MS)]


WAITING = Wait(waiting_for="permission", kind="Bash", since_ms=NOW_MS - 180_000)


def test_who_waits_for_a_person_stands_first_and_says_for_what() -> None:
    works = head("api#1", open_frames=("f1", "f2"), used_pct=83, pressure=PressureLevel.HIGH)
    lines = shown(facts_of(works, head("web#2", waiting=(WAITING,)), head("old#1", ended=True)))
    assert lines[0].split()[1:7] == ["2", "open", "1", "waiting", "inbox", "0"]
    assert lines[2] == "> web#2           claude       4 -                10s waits for permission (Bash) 3m"
    assert lines[3] == "  api#1           claude       4 ████████··  83%  10s works, 1 nested"
    assert not any("old#1" in line for line in lines)


def test_a_turn_without_a_sign_of_life_is_quiet_and_a_wait_for_a_prompt_is_idle() -> None:
    quiet = head("a#1", open_frames=("f",), last_at_epoch_s=NOW_S - 300)
    idle = head("b#1", waiting=(Wait(waiting_for="idle", since_ms=NOW_MS - 7_200_000),))
    text = "\n".join(shown(facts_of(quiet, idle)))
    assert "   5m quiet" in text
    assert "idle 2h" in text
    assert "0 waiting" in text


def test_a_wide_screen_has_branch_and_title() -> None:
    facts = facts_of(head("api#1", git_branch="main", title="repair the build"))
    assert "main repair the build" in "\n".join(shown(facts, width=120))
    assert "repair" not in "\n".join(shown(facts))


def test_what_others_wrote_steers_no_terminal() -> None:
    facts = facts_of(head("a\x1b[2J#1", waiting=(msgspec.structs.replace(WAITING, kind="\x1b]0;x\x07"),)))
    assert not any("\x1b" in line or "\x07" in line for line in shown(facts))


names = st.text(alphabet="ab漢#\n\x1b", min_size=1, max_size=40)


@given(
    st.lists(names, unique=True, max_size=30),
    st.integers(1, 130),
    st.integers(1, 50),
    st.lists(
        st.sampled_from([*"srci?/pwekjq12yx ", "up", "down", "page-up", "home", "end", "enter", "escape", "backspace"]),
        max_size=20,
    ),
)
def test_any_keys_at_any_size_fill_the_screen_and_no_more(
    titles: list[str], width: int, height: int, keys: list[str]
) -> None:
    facts = facts_of(*[head(name) for name in titles], questions=len(titles) % 3)
    choice = TopChoice()
    for key in keys:
        order = press(choice, facts, key)
        assert len(screen_lines(facts, choice, (width, height), NOW_MS)) == height
        if isinstance(order, GiveAnswer):
            assert key == "y"


def test_a_selection_moves_and_opens_the_session() -> None:
    facts = facts_of(head("a#1", last_at_epoch_s=NOW_S), head("b#1", last_at_epoch_s=NOW_S - 5), head("c#1"))
    choice = TopChoice()
    assert press(choice, facts, "down") is None
    assert press(choice, facts, "enter") == ShowSession(("claude", "id-b#1"))
    assert shown(facts, choice)[1].startswith("b#1  open")
    press(choice, facts, "escape")
    # It is the session that stays selected, not its line.
    facts.note_sessions([head("b#1", last_at_epoch_s=NOW_S + 1)], all_of_them=False)
    assert "> b#1" in shown(facts, choice)[2]
    assert press(choice, facts, "q") == Quit()


def test_a_filter_is_typed_kept_and_dropped() -> None:
    facts = facts_of(head("api#1"), head("web#1"))
    choice = TopChoice()
    for key in ("/", "w", "q", "backspace", "enter"):
        assert press(choice, facts, key) is None
    text = "\n".join(shown(facts, choice))
    assert "web#1" in text
    assert "api#1" not in text
    assert text.rpartition("\n")[2].startswith("[w]")
    press(choice, facts, "escape")
    assert "api#1" in "\n".join(shown(facts, choice))


def test_a_paused_screen_stands_still_until_it_goes_on() -> None:
    facts, choice = facts_of(head("a#1")), TopChoice()
    press(choice, facts, "p")
    facts.note_sessions([head("b#1")], all_of_them=False)
    assert "b#1" not in "\n".join(shown(facts, choice))
    assert "PAUSED" in shown(facts, choice)[0]
    press(choice, facts, " ")
    assert "b#1" in "\n".join(shown(facts, choice))


def test_a_question_is_answered_by_its_number_and_y_alone() -> None:
    facts, choice = facts_of(questions=2), TopChoice(screen="inbox")
    press(choice, facts, "down")
    press(choice, facts, "enter")
    number = str([one.value for one in facts.questions[1].question.actions].index("retry") + 1)
    assert press(choice, facts, number) is None
    assert "answer `retry`?" in shown(facts, choice)[-1]
    assert press(choice, facts, "x") is None
    press(choice, facts, number)
    assert press(choice, facts, "y") == GiveAnswer("q_1", AnswerAction.RETRY)


def test_a_question_that_somebody_settled_does_not_become_another_one() -> None:
    facts, choice = facts_of(questions=2), TopChoice(screen="inbox")
    press(choice, facts, "enter")
    facts.questions = facts.questions[1:]
    assert "this question is settled" in shown(facts, choice)
    press(choice, facts, "1")
    assert press(choice, facts, "y") is None


def test_modify_names_the_command_that_takes_values() -> None:
    facts, choice = facts_of(questions=1), TopChoice(screen="inbox")
    press(choice, facts, "enter")
    number = str(facts.questions[0].question.actions.index(AnswerAction.MODIFY) + 1)
    press(choice, facts, number)
    assert shown(facts, choice)[-1] == "lifebus inbox answer q_0 modify --set NAME=VALUE"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "now"), (4, "now"), (9, "5s"), (59, "55s"), (61, "1m"), (7_300, "2h"), (200_000, "2d")]
)
def test_ages_are_coarse(seconds: int, text: str) -> None:
    assert age_text(NOW_MS - seconds * 1_000, NOW_MS) == text

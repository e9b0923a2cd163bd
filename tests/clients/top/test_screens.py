"""What stands on a screen, and what keys change of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lifebus.top.facts import TopFacts, age_text
from lifebus.top.layout import screen_lines
from lifebus.top.navigation import GiveAnswer, Quit, ScreenName, ShowSession, TopChoice, press
from lifebus_contract import LifecycleEvent, PressureLevel, ReceiptStatus
from lifebus_contract.consumers import ConsumerInfo, ConsumerSettings
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


def asked(title: str, reason: str) -> tuple[TopFacts, TopChoice]:
    """A question that is looked at."""
    facts = TopFacts()
    facts.questions = (QuestionInfo(question=msgspec.structs.replace(question("q"), title=title, reason=reason)),)
    choice = TopChoice(screen="inbox")
    press(choice, facts, "enter")
    return facts, choice


def test_the_answers_stand_there_however_long_the_reason_is_and_all_of_it_can_be_read() -> None:
    words = [f"word{number}" for number in range(300)]
    facts, choice = asked("May it?", " ".join(words))
    actions = facts.questions[0].question.actions
    seen: set[str] = set()
    for _ in range(100):
        lines = shown(facts, choice, height=12)
        assert [line.split()[:2] for line in lines[-1 - len(actions) : -1]] == [
            [str(number), action.value] for number, action in enumerate(actions, 1)
        ]
        seen.update(word for line in lines for word in line.split())
        press(choice, facts, "down")
    assert seen >= set(words)
    assert "the end" in "\n".join(shown(facts, choice, height=12))
    # Not a hundred times down, but to the end: the next key up is seen.
    press(choice, facts, "up")
    assert "1 more below" in "\n".join(shown(facts, choice, height=12))


@pytest.mark.parametrize("width", [10, 41, 80])
def test_no_letter_of_a_question_is_lost_where_letters_are_wide_or_words_long(width: int) -> None:
    letters = "".join(chr(0x4E00 + number) for number in range(60))
    facts, choice = asked(letters[:30], f"{letters} {'x' * 200}")
    lines = shown(facts, choice, width=width, height=100)[1:]
    assert all(cell_len(line) <= width for line in lines if set(line) <= {*letters, "x", " "})
    whole = "".join(line.strip() for line in lines)
    assert letters[:30] + letters + "x" * 200 in whole


@pytest.mark.parametrize(("width", "height"), [(40, 10), (60, 24), (80, 24), (80, 10), (200, 24)])
def test_what_matters_most_is_seen_at_any_size(width: int, height: int) -> None:
    facts, choice = facts_of(head("web#2", waiting=(WAITING,), used_pct=41), questions=1), TopChoice()
    lines = shown(facts, choice, width, height)
    assert "web#2" in lines[2]
    assert "41%" in lines[2]
    assert "waits for p" in lines[2]
    assert lines[-1].endswith("? keys  q quit")
    facts.away_since_ms = NOW_MS - 60_000
    assert "no broker since 1m" in shown(facts, choice, width, height)[0][:width]
    facts.away_since_ms = None
    press(choice, facts, "p")
    assert "PAUSED" in shown(facts, choice, width, height)[0][:width]


def test_tokens_without_a_window_have_room_in_each_width() -> None:
    facts = facts_of(head("a#1", used_tokens=90_012))
    assert "90012 tokens" in shown(facts)[2]
    assert "  90k  10s open" in shown(facts, width=40)[2]


def consumer(name: str) -> ConsumerInfo:
    return ConsumerInfo(
        cursor=name,
        client_id="x",
        attached=False,
        fetching=False,
        settings=ConsumerSettings(),
        epoch="e",
        position=1,
        scanned=1,
        head=1,
        lag=0,
        open=0,
        in_flight=0,
        dead=0,
        lost=False,
    )


@pytest.mark.parametrize("screen", ["help", "consumers"])
@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 10), (80, 24)])
def test_what_has_no_room_can_be_scrolled_to(screen: ScreenName, width: int, height: int) -> None:
    facts, choice = facts_of(), TopChoice(screen=screen)
    facts.consumers = tuple(consumer(f"c{number}") for number in range(100))
    seen: set[str] = set()
    for _ in range(110):
        seen.update(word for line in shown(facts, choice, width, height) for word in line.split())
        press(choice, facts, "down")
    assert seen >= ({f"c{number}" for number in range(100)} if screen == "consumers" else {"ctrl-l", "quit", "filter"})


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "now"), (4, "now"), (9, "5s"), (59, "55s"), (61, "1m"), (7_300, "2h"), (200_000, "2d")]
)
def test_ages_are_coarse(seconds: int, text: str) -> None:
    assert age_text(NOW_MS - seconds * 1_000, NOW_MS) == text

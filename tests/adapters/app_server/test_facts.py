"""What an app-server reports of threads, turns, contexts, errors and people, as facts."""

from typing import Any

import msgspec
import pytest

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.facts import (
    AppServerFact,
    ErrorSeen,
    OperatorAnswered,
    OperatorAsked,
    ThreadClosed,
    ThreadOpened,
)
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted, Usage
from support.adapters.app_server_recordings import (
    RECORDINGS,
    chunks_of,
    facts,
    feed,
    notice,
    read_messages,
    started,
    thread,
    turn,
)

OPENED = ThreadOpened(session="t1", how="started", method="thread/started", model="m")
STARTED = TurnStarted(session="t1", frame_id="u1")
BEGIN = [started(), turn("turn/started")]


def after_begin(*messages: Any) -> list[AppServerFact]:
    """What follows once a thread and a turn have begun."""
    first, second, *rest = facts(read_messages(*BEGIN, *messages))
    assert (first, second) == (OPENED, STARTED)
    return rest


def ended(how: str, **details: Any) -> TurnEnded:
    evidence = f"app_server:turn/completed.{how}"
    return TurnEnded(session="t1", frame_id="u1", frame_end=how, evidence=evidence, details=details)


@pytest.mark.parametrize(
    ("method", "how"), [("thread/start", "started"), ("thread/resume", "resumed"), ("thread/fork", "forked")]
)
def test_the_answer_to_a_client_says_that_a_thread_is_open_and_the_notice_does_not_report_it_again(
    method: str, how: str
) -> None:
    request = ({"id": 0, "method": method, "params": {"threadId": "t0"}},)
    seen = facts(read_messages(request, {"id": 0, "result": {"thread": thread()}}, started()))
    assert seen == [msgspec.structs.replace(OPENED, how=how, method=method)]


def test_an_answer_with_an_error_or_to_nobody_opens_nothing() -> None:
    result = {"id": 1, "result": {"thread": thread()}}
    request = ({"id": 1, "method": "thread/resume", "params": {}},)
    assert facts(read_messages(result, request, {"id": 1, "error": {"code": -32600}}, result)) == []
    assert facts(read_messages(({"id": "1", "method": "thread/resume"},), result)) == []


def test_a_forked_thread_that_another_client_made_is_reported_as_forked() -> None:
    (fact,) = facts(read_messages(started(forkedFromId="t0")))
    assert isinstance(fact, ThreadOpened)
    assert fact.how == "forked"


def test_a_thread_is_reported_with_its_directory_branch_and_name_and_never_with_what_was_said() -> None:
    record = {"cwd": "/srv/shop", "gitInfo": {"branch": "fix/it", "sha": "0a"}, "name": "My chat", "preview": "secret"}
    (fact,) = facts(read_messages(started(**record)))
    about = {"cwd": "/srv/shop", "git_branch": "fix/it", "title": "My chat"}
    assert fact == msgspec.structs.replace(OPENED, **about)


@pytest.mark.parametrize(
    "record",
    [
        {"cwd": None, "gitInfo": None, "name": None},
        {"cwd": 5, "gitInfo": [], "name": ["x"]},
        {"cwd": "/x" * 600, "gitInfo": {"branch": "x" * 300}, "name": "a\nb"},
        {"cwd": "/a\nb", "gitInfo": {"branch": None}, "name": ""},
    ],
)
def test_of_a_record_of_another_form_nothing_is_reported(record: dict[str, Any]) -> None:
    assert facts(read_messages(started(**record))) == [OPENED]


@pytest.mark.parametrize("how", ["completed", "interrupted", "failed"])
def test_a_turn_ends_as_the_server_says(how: str) -> None:
    assert after_begin(turn("turn/completed", status=how)) == [ended(how)]


@pytest.mark.parametrize("status", ["inProgress", "", 7, None])
def test_a_turn_that_did_not_end_is_no_end(status: object) -> None:
    assert after_begin(turn("turn/completed", status=status)) == []


ERRORS: list[tuple[Any, dict[str, Any]]] = [
    ("other", {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
    (
        "unauthorized",
        {"error": "unauthorized", "failure_class": "operator_required", "retry_class": "retry_after_operator"},
    ),
    ("badRequest", {"error": "badRequest", "failure_class": "invalid_request", "retry_class": "do_not_retry"}),
    (
        "contextWindowExceeded",
        {"error": "contextWindowExceeded", "failure_class": "payload_too_large", "retry_class": "do_not_retry"},
    ),
    ("cyberPolicy", {"error": "cyberPolicy", "failure_class": "payload_rejected", "retry_class": "do_not_retry"}),
    ("newKind", {"error": "newKind", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
    (
        {"httpConnectionFailed": {"httpStatusCode": 401}},
        {
            "error": "httpConnectionFailed",
            "http_status": 401,
            "failure_class": "operator_required",
            "retry_class": "retry_after_operator",
        },
    ),
    (
        {"responseTooManyFailedAttempts": {"httpStatusCode": 429}},
        {
            "error": "responseTooManyFailedAttempts",
            "http_status": 429,
            "failure_class": "transport_error",
            "retry_class": "safe_retry",
        },
    ),
    (
        {"httpConnectionFailed": {"httpStatusCode": None}},
        {"error": "httpConnectionFailed", "failure_class": "transport_error", "retry_class": "safe_retry"},
    ),
    ({"a": 1, "b": 2}, {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
    (None, {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
    ("x" * 300, {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
]


@pytest.mark.parametrize(("info", "expected"), ERRORS)
def test_a_failed_turn_carries_its_error_and_the_retry_posture_and_no_word_of_it(
    info: Any, expected: dict[str, Any]
) -> None:
    error = {"message": "secret words", "codexErrorInfo": info}
    notices = [
        notice("error", threadId="t1", turnId="u1", willRetry=False, error=error),
        turn("turn/completed", status="failed", error=error),
    ]
    assert after_begin(*notices) == [ended("failed", will_retry=False, **expected)]


def test_the_error_that_was_reported_before_stands_in_for_one_that_the_end_does_not_name() -> None:
    error = notice("error", threadId="t1", turnId="u1", error={"codexErrorInfo": "serverOverloaded"})
    (fact,) = after_begin(error, turn("turn/completed", status="failed", error=None))
    assert isinstance(fact, TurnEnded)
    assert fact.details["error"] == "serverOverloaded"


def test_an_error_that_the_server_tries_to_get_over_is_reported_at_each_change_and_not_each_time() -> None:
    def failing(info: Any) -> dict[str, Any]:
        return notice("error", threadId="t1", turnId="u1", willRetry=True, error={"codexErrorInfo": info})

    lost: Any = {"httpConnectionFailed": {"httpStatusCode": None}}
    seen = after_begin(*[failing(lost)] * 5, failing("serverOverloaded"), *[failing(lost)] * 3)
    assert [one.key for one in seen if isinstance(one, ErrorSeen)] == ["u1:1", "u1:2", "u1:3"]
    assert len(seen) == 3
    (first, *_) = seen
    assert isinstance(first, ErrorSeen)
    assert first.details["will_retry"] is True


def test_the_tokens_of_the_last_request_are_reported_and_never_the_total() -> None:
    def usage(last: Any, window: Any = 1_000) -> dict[str, Any]:
        tokens = {"total": {"totalTokens": 999_999}, "last": last, "modelContextWindow": window}
        return notice("thread/tokenUsage/updated", threadId="t1", turnId="u1", tokenUsage=tokens)

    seen = after_begin(
        usage({"totalTokens": 600, "inputTokens": 500, "outputTokens": 100}),
        usage({"totalTokens": 70, "inputTokens": 0, "outputTokens": 0}, window=None),
        usage({"totalTokens": -1}),
        usage({"totalTokens": "many"}),
        usage(None),
    )
    source, window = "app_server:last.totalTokens", "app_server:modelContextWindow"
    assert seen == [
        Usage(session="t1", used_tokens=600, used_source=source, window_tokens=1_000, window_source=window, model="m"),
        Usage(session="t1", used_tokens=70, used_source=f"{source}:estimated", model="m"),
    ]


ITEM = notice("item/completed", threadId="t1", turnId="u1", item={"id": "i1", "type": "contextCompaction"})
NOTICE = notice("thread/compacted", threadId="t1", turnId="u1")


@pytest.mark.parametrize(
    ("messages", "times"),
    [
        ([ITEM], 1),
        ([NOTICE], 1),
        ([ITEM, NOTICE], 1),
        ([NOTICE, ITEM], 1),
        ([ITEM, NOTICE, ITEM, NOTICE], 2),
        ([ITEM, ITEM], 2),
    ],
)
def test_a_compaction_is_reported_once_by_its_item_or_its_notice(messages: list[Any], times: int) -> None:
    keys = [f"turn:u1:{number}" for number in range(1, times + 1)]
    assert after_begin(*messages) == [Compacted(session="t1", key=key) for key in keys]


def test_other_items_are_no_compactions() -> None:
    item = notice("item/completed", threadId="t1", turnId="u1", item={"id": "i1", "type": "agentMessage"})
    begun = notice("item/started", threadId="t1", turnId="u1", item={"id": "i1", "type": "contextCompaction"})
    assert after_begin(item, begun) == []


def test_a_turn_that_a_client_asked_to_compact_is_marked_and_the_next_is_not() -> None:
    compact = ({"id": 1, "method": "thread/compact/start", "params": {"threadId": "t1"}},)
    ask = ({"id": 2, "method": "turn/start", "params": {"threadId": "t1"}},)
    seen = facts(read_messages(started(), compact, turn("turn/started"), ask, turn("turn/started", "t1", "u2")))
    assert [one.compacting for one in seen if isinstance(one, TurnStarted)] == [True, False]
    both = facts(read_messages(started(), compact, ask, turn("turn/started")))
    assert [one.compacting for one in both if isinstance(one, TurnStarted)] == [False]
    refused = facts(read_messages(started(), compact, {"id": 1, "error": {}}, turn("turn/started")))
    assert [one.compacting for one in refused if isinstance(one, TurnStarted)] == [False]


def ask(method: str, number: int | str = 0, **params: Any) -> dict[str, Any]:
    return {"id": number, "method": method, "params": {"threadId": "t1", "itemId": "i1", **params}}


RESOLVED = notice("serverRequest/resolved", threadId="t1", requestId=0)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("item/commandExecution/requestApproval", "command_approval"),
        ("execCommandApproval", "command_approval"),
        ("item/fileChange/requestApproval", "file_change_approval"),
        ("applyPatchApproval", "file_change_approval"),
        ("item/permissions/requestApproval", "permissions_approval"),
        ("item/tool/requestUserInput", "user_input"),
        ("mcpServer/elicitation/request", "elicitation"),
    ],
)
def test_a_question_to_a_person_and_its_answer_are_reported_once_each(method: str, kind: str) -> None:
    asked, answered = after_begin(ask(method), ({"id": 0, "result": {"decision": "accept"}},), RESOLVED)
    assert isinstance(asked, OperatorAsked)
    assert isinstance(answered, OperatorAnswered)
    assert (asked.session, asked.frame_id, asked.request_id, asked.item_id) == ("t1", "u1", 0, "i1")
    assert (asked.method, asked.kind) == (method, kind)
    # When it was asked stands in both: who is waited for is known by it.
    assert asked.at_ms is not None
    assert answered.asked_at_ms == asked.at_ms
    assert (answered.outcome, answered.decision, answered.waited_ms, answered.kind) == ("answered", "accept", 0, kind)


@pytest.mark.parametrize(
    ("result", "decision"),
    [
        ({"decision": "decline"}, "decline"),
        ({"action": "cancel", "content": "secret"}, "cancel"),
        ({"decision": {"acceptWithExecpolicyAmendment": {"x": 1}}}, "acceptWithExecpolicyAmendment"),
        ({"decision": {"denied": {"rejection": "secret"}}}, "denied"),
        ({"decision": "secret words"}, None),
        ({"answers": {"q": "secret"}}, None),
        ([], None),
        (None, None),
    ],
)
def test_only_the_protocols_own_words_for_a_decision_are_reported(result: Any, decision: str | None) -> None:
    _, answered = after_begin(ask("item/tool/requestUserInput"), ({"id": 0, "result": result},))
    assert isinstance(answered, OperatorAnswered)
    assert answered.decision == decision


def test_a_question_that_another_client_answered_is_resolved_and_a_late_answer_is_no_news() -> None:
    _, resolved = after_begin(ask("execCommandApproval"), RESOLVED, ({"id": 0, "result": {"decision": "accept"}},))
    assert isinstance(resolved, OperatorAnswered)
    assert (resolved.outcome, resolved.decision) == ("resolved", None)


def test_ids_of_another_kind_or_thread_answer_nothing() -> None:
    elsewhere = notice("serverRequest/resolved", threadId="t2", requestId=0)
    assert len(after_begin(ask("execCommandApproval"), ({"id": "0", "result": {}},), elsewhere)) == 1


def test_requests_for_programs_ask_nobody() -> None:
    assert after_begin(ask("item/tool/call"), ask("currentTime/read", "a"), ({"id": 0, "result": {}},)) == []


@pytest.mark.parametrize("method", ["thread/closed", "thread/deleted"])
def test_a_thread_that_the_server_lets_go_is_over_and_so_is_what_it_asked(method: str) -> None:
    reader = AppServerStream()
    *_, unanswered, over = facts(
        read_messages(*BEGIN, ask("execCommandApproval"), notice(method, threadId="t1"), reader=reader)
    )
    assert isinstance(unanswered, OperatorAnswered)
    assert (unanswered.outcome, unanswered.waited_ms) == ("unanswered", None)
    assert over == ThreadClosed(session="t1", evidence=f"app_server:{method}")
    assert reader.close({}) == []


@pytest.mark.parametrize(
    ("evidence", "told_as", "how"),
    [
        ({"exit_code": 0}, "exit_code 0", "completed"),
        ({"exit_code": 1}, "exit_code 1", "abandoned"),
        ({"signal": 9}, "signal 9", "abandoned"),
        ({}, "unknown how", "abandoned"),
    ],
)
def test_the_end_of_the_server_is_the_end_of_every_thread_once(evidence: Any, told_as: str, how: Any) -> None:
    reader = AppServerStream()
    read_messages(started(), started("t2"), started("t3"), notice("thread/closed", threadId="t2"), reader=reader)
    closed = facts(reader.close(evidence))
    text = f"the app-server is gone: {told_as}"
    assert closed == [ThreadClosed(session=name, evidence=text, how=how, details=evidence) for name in ("t1", "t3")]
    assert reader.close(evidence) == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_facts_go_over_the_wire_and_come_back(recording: Any) -> None:
    reader = AppServerStream()
    seen = facts([*feed(reader, chunks_of(recording)), *reader.close({})])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=list[AppServerFact]) == seen
    assert "hello" not in repr(seen).lower()

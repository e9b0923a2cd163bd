"""A renewal under the profile of Codex, from the end of a turn to the next start of a session."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_contract import Emission, FrameClass, FrameContext, Receipt, encode_json, validate
from lifebus_supervisor.renewal.profile import AnswerPaths
from lifebus_transports.processes.outcomes import Failure, Finished
from support.broker_process import until
from support.golden import golden
from support.supervisor.scripted import SECRET, Renewing, ScriptedClient, failing, late, renewing


def payloads(receipt: Receipt) -> list[tuple[str, str | None, str, int]]:
    return [
        (one.payload_kind, one.placement and one.placement.value, one.status.value, one.byte_size)
        for one in receipt.payload_receipts
    ]


def outcome(receipt: Receipt) -> tuple[str, str | None, str | None]:
    code = receipt.warnings[-1].code if receipt.failure_class else None
    return receipt.status.value, receipt.failure_class and receipt.failure_class.value, code


def everything(on: Renewing) -> str:
    return b"\n".join(encode_json(one) for one in on.bus.published).decode()


async def test_a_turn_ends_the_client_prepares_and_the_next_session_gets_its_token_back(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        prepared, used = await on.stop("s1"), await on.start("s2")
        assert on.client.steps == ["recommend", "prepare", "consume"]
        assert payloads(prepared) == [("renewal.reset_prepare", "receipt_only", "observed", len(SECRET))]
        assert payloads(used) == [("renewal.continuation", "receipt_only", "observed", len(SECRET))]
        assert prepared.payload_receipts[0].payload_id == used.payload_receipts[0].payload_id
        assert b"content_digest" not in encode_json(prepared)
        assert prepared.telemetry_summary["client_reset_path"] == "wrapper_mediated"
        assert on.states == ["consumed"]


async def test_the_receipts_are_the_clients_in_the_invocation_of_the_hook(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        for receipt in (await on.stop(), await on.start()):
            hook = next(
                one
                for one in on.bus.published
                if one.invocation_id == receipt.invocation_id and one.client_id == "lifebus.hook"
            )
            assert (receipt.client_id, receipt.harness_session_id) == ("example", hook.harness_session_id)


async def test_a_client_is_told_ids_and_where_and_only_at_the_end_its_token(tmp_path: Path) -> None:
    async with renewing(tmp_path, run_in="session") as on:
        await on.stop("s1", str(tmp_path))
        await on.start("s2", str(tmp_path))
        recommend, prepare, consume = on.client.asked
        assert {question["cwd"] for question in on.client.asked} == {str(tmp_path)}
        assert {spec.cwd for spec in on.client.specs} == {str(tmp_path)}
        assert (recommend["session"], prepare["reset_path"]) == ("s1", "wrapper_mediated")
        assert prepare["prepare_id"] == consume["payload_id"]
        assert (consume["token"], consume["thread"], consume["session"], consume["attempt"]) == (SECRET, "t-1", "s2", 1)
        assert consume["claim_id"].startswith("clm_")
        settings = [dict(spec.setting) for spec in on.client.specs]
        assert settings[1]["LIFEBUS_RENEWAL_PREPARE_ID"] == prepare["prepare_id"]
        assert settings[2]["LIFEBUS_RENEWAL_CLAIM_ID"] == consume["claim_id"]
        assert SECRET not in str(on.client.specs)


async def test_commands_run_in_the_root_unless_the_session_has_a_directory_and_the_profile_says_so(
    tmp_path: Path,
) -> None:
    async with renewing(tmp_path) as on:
        await on.stop("s1", str(tmp_path))
        assert {spec.cwd for spec in on.client.specs} == {"/"}
    async with renewing(tmp_path, run_in="session") as on:
        await on.stop("s2", "/no/such/place")
        assert {spec.cwd for spec in on.client.specs} == {"/"}


async def test_a_token_goes_into_the_argument_list_only_where_the_profile_says_so(tmp_path: Path) -> None:
    command = ("example", "start", "--continuation={token}")
    async with renewing(tmp_path, consume=command, hand_over="argument") as on:
        await on.stop()
        on.client.fails["consume"] = Finished(stdout=b'{"thread": "t-1"}', exit_code=0, failure=Failure.STDIN_IGNORED)
        assert outcome(await on.start()) == ("observed", None, None)
        assert on.client.specs[-1].argv == ("example", "start", f"--continuation={SECRET}")
        assert "token" not in on.client.asked[-1]


@pytest.mark.parametrize("answer", [{"action": "keep"}, {}, {"action": None}, {"action": {"renew": True}}])
async def test_without_a_recommendation_nothing_is_prepared(tmp_path: Path, answer: dict[str, Any]) -> None:
    async with renewing(tmp_path) as on:
        on.client.answers["recommend"] = answer
        receipt = await on.stop()
        assert (receipt.status, receipt.telemetry_summary["client_decision"]) == ("observed", "none")
        assert (on.client.steps, on.states) == (["recommend"], [])


async def test_a_start_without_anything_waiting_asks_nobody(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        assert outcome(await on.start()) == ("observed", None, None)
        assert on.client.steps == []


@pytest.mark.parametrize(
    ("finished", "failure"),
    [
        (failing(), "transport_error"),
        (late(), "timeout"),
        (Finished(failure=Failure.SPAWN, detail="no such file"), "transport_error"),
        (Finished(stdout=b"[]", exit_code=0), "invalid_request"),
    ],
)
async def test_a_client_that_cannot_be_asked_fails_as_any_client(
    tmp_path: Path, finished: Finished, failure: str
) -> None:
    async with renewing(tmp_path) as on:
        on.client.fails["recommend"] = finished
        assert outcome(await on.stop())[:2] == ("failed", failure)


async def test_while_a_token_waits_the_client_is_not_asked_for_another(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        await on.stop()
        again = await on.stop()
        assert again.telemetry_summary["client_decision"] == "waiting"
        assert on.client.steps == ["recommend", "prepare"]


async def test_sub_agents_and_facts_from_files_renew_nothing(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        inner = {"session_id": "s1", "turn_id": "t1", "agent_id": "a1", "agent_type": "x"}
        assert outcome(await on.receipt_of({"hook_event_name": "SubagentStop", **inner})) == ("observed", None, None)
        frame = FrameContext(frame_id="t1", frame_class=FrameClass.TOP_LEVEL)
        request = lifebus.make_request(
            "frame.ended", "codex", session="s1", frame=frame, integration_mode="telemetry_only"
        )
        await on.bus.bus.emit("watcher", [Emission(request=request)])
        await until(lambda: len(on.published) == 2)
        assert on.client.steps == []


async def lose(on: Renewing, session: str, **support: str) -> None:
    """Report that a session lost a capability."""
    report = golden("emission", "report")
    request = {**report["request"], "adapter_id": "codex", "adapter_version": "0.1.0", "harness_session_id": session}
    lost = [
        report["degradations"][0]
        | {"capability": name.replace("__", "."), "previous_support": "synthesized", "current_support": now}
        for name, now in support.items()
    ]
    await on.bus.bus.emit("watcher", [validate({"request": request, "degradations": lost}, Emission)])


async def test_what_the_session_lost_meanwhile_refuses_before_anything_is_prepared(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        await lose(on, "s1", renewal__continuation__payload_delivery="unavailable")
        receipt = await on.stop("s1")
        assert outcome(receipt) == ("failed", "capability_degraded", "renewal_capability_degraded")
        assert receipt.retry_class == "retry_after_reread"
        assert (on.client.steps, on.states) == (["recommend"], [])
        assert payloads(await on.stop("s2")) != []


async def test_a_token_waits_while_its_session_cannot_take_it(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        await on.stop("s1")
        await lose(on, "s2", renewal__reset__wrapper_mediated="manual")
        assert outcome(await on.start("s2"))[1] == "capability_degraded"
        assert on.states == ["pending"]
        assert payloads(await on.start("s3")) != []


@pytest.mark.parametrize(
    ("reset", "failure", "retry"),
    [
        ({"wrapper_mediated": "unavailable", "manual": "unavailable"}, "capability_unsupported", "do_not_retry"),
        ({"wrapper_mediated": "unavailable"}, "operator_required", "retry_after_operator"),
    ],
)
async def test_an_adapter_without_a_reset_path_refuses_by_its_condition(
    tmp_path: Path, reset: dict[str, str], failure: str, retry: str
) -> None:
    async with renewing(tmp_path) as on:
        on.claim_reset(**reset)
        receipt = await on.stop()
        assert (outcome(receipt)[1], receipt.retry_class) == (failure, retry)
        assert on.client.steps == ["recommend"]


@pytest.mark.parametrize("thread", ["t-2", None, "", 7])
async def test_another_thread_or_none_is_a_rejected_payload_and_the_token_is_gone(
    tmp_path: Path, thread: object
) -> None:
    async with renewing(tmp_path) as on:
        await on.stop()
        on.client.answers["consume"] = {"thread": thread}
        found = outcome(await on.start())
        assert found == ("failed", "payload_rejected", "other_thread" if thread == "t-2" else "no_thread")
        assert on.states == ["rejected"]
        await on.start()
        assert on.client.steps.count("consume") == 1


@pytest.mark.parametrize("finished", [failing(3), late(), Finished(stdout=b"no", exit_code=0)])
async def test_a_failed_step_leaves_the_token_claimed_for_the_same_session_under_the_same_id(
    tmp_path: Path, finished: Finished
) -> None:
    async with renewing(tmp_path) as on:
        await on.stop()
        on.client.fails["consume"] = finished
        assert outcome(await on.start("s2"))[:2] == ("failed", "payload_rejected")
        assert on.states == ["claimed"]
        assert outcome(await on.start("s3")) == ("observed", None, None)
        del on.client.fails["consume"]
        assert outcome(await on.start("s2")) == ("observed", None, None)
        first, second = [question for question in on.client.asked if question["step"] == "consume"]
        assert first["claim_id"] == second["claim_id"]
        assert (first["attempt"], second["attempt"]) == (1, 2)
        assert on.states == ["consumed"]


@pytest.mark.parametrize("finished", [failing(3), late(), Finished(stdout=b"{}", exit_code=0)])
async def test_a_failed_preparation_is_tried_again_under_the_same_id(tmp_path: Path, finished: Finished) -> None:
    async with renewing(tmp_path) as on:
        on.client.fails["prepare"] = finished
        assert outcome(await on.stop())[:2] == ("failed", "payload_rejected")
        assert on.states == ["preparing"]
        del on.client.fails["prepare"]
        assert outcome(await on.stop())[0] == "observed"
        first, second = [question for question in on.client.asked if question["step"] == "prepare"]
        assert first["prepare_id"] == second["prepare_id"]
        assert on.states == ["pending"]


async def test_a_preparation_that_is_no_longer_recommended_is_forgotten(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        on.client.fails["prepare"] = failing()
        await on.stop()
        on.client.answers["recommend"] = {"action": "keep"}
        await on.stop()
        assert on.states == []


UNTIL = {"answers": AnswerPaths(expires_at="until")}


@pytest.mark.parametrize(
    ("answer", "changes", "failure", "code"),
    [
        ({"token": "x" * 65, "thread": "t"}, {"max_bytes": 64}, "payload_too_large", "token_too_large"),
        ({"token": "x", "thread": "t", "until": 5}, UNTIL, "payload_rejected", "expired"),
        ({"token": "x", "thread": "t", "until": "soon"}, UNTIL, "payload_rejected", "bad_expiry"),
        ({"token": 7, "thread": "t"}, {}, "payload_rejected", "no_token"),
        ({"token": "x", "thread": "a\nb"}, {}, "payload_rejected", "no_thread"),
        (b"SECRET-in-no-json", {}, "payload_rejected", "bad_answer"),
    ],
)
async def test_a_token_that_cannot_be_kept_is_refused(
    tmp_path: Path, answer: object, changes: dict[str, Any], failure: str, code: str
) -> None:
    async with renewing(tmp_path, **changes) as on:
        on.client.answers["prepare"] = answer
        assert outcome(await on.stop())[1:] == (failure, code)
        assert "SECRET" not in everything(on)


async def test_two_tokens_in_one_directory_need_an_operator_and_none_is_used(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        await on.stop("s1")
        on.client.answers["prepare"] = {"token": "other", "thread": "t-2"}
        await on.stop("s2")
        assert outcome(await on.start("s3")) == ("failed", "operator_required", "several_continuations")
        assert on.states == ["pending", "pending"]
        on.client.answers["consume"] = {"thread": "t-2"}
        assert outcome(await on.start("s2")) == ("observed", None, None)


async def test_a_second_token_of_one_thread_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        await on.stop("s1")
        on.client.answers["prepare"] = {"token": "other", "thread": "t-1"}
        assert outcome(await on.stop("s2"))[1] == "state_conflict"
        assert [one.token for one in on.flow.store.records()[0]] == [SECRET]


async def test_a_hook_is_answered_while_the_client_still_thinks_and_the_next_start_waits_for_it(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        on.client.holds["prepare"] = anyio.Event()
        await on.call({"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1", "cwd": "/work"})
        answer = await on.call(
            {"hook_event_name": "SessionStart", "session_id": "s2", "source": "startup", "cwd": "/work"}
        )
        assert (answer.stdout, on.published) == (b"", [])
        on.client.holds["prepare"].set()
        await until(lambda: len(on.published) == 2)
        assert [payloads(one)[0][0] for one in on.published] == ["renewal.reset_prepare", "renewal.continuation"]


async def test_a_slow_client_in_one_directory_holds_up_no_other(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        hold = on.client.holds["recommend"] = anyio.Event()
        await on.call({"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1", "cwd": "/one"})
        await until(lambda: on.client.steps == ["recommend"])
        del on.client.holds["recommend"]
        assert payloads(await on.stop("s2", "/two")) != []
        hold.set()


async def test_no_receipt_says_a_token_whatever_the_client_writes_to_stderr(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        on.client.fails["prepare"] = failing(stderr=f"have {SECRET}")
        await on.stop()
        del on.client.fails["prepare"]
        await on.stop()
        on.client.fails["consume"] = failing(stderr=f"cannot use {SECRET[4:15]}")
        assert outcome(await on.start())[1] == "payload_rejected"
        on.client.fails["consume"] = failing(stderr="disk full")
        assert (await on.start()).telemetry_summary["client_stderr"] == "disk full"
        assert not any(SECRET[at : at + 8] in everything(on) for at in range(len(SECRET) - 7))


async def test_a_store_that_cannot_be_used_fails_and_is_tried_again(tmp_path: Path) -> None:
    async with renewing(tmp_path) as on:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "continuations").write_text("in the way")
        assert outcome(await on.stop())[0] == "failed"
        (tmp_path / "state" / "continuations").unlink()
        assert payloads(await on.stop()) != []


async def test_what_was_claimed_when_the_broker_ended_is_handed_over_again_under_the_same_id(tmp_path: Path) -> None:
    client = ScriptedClient()
    async with renewing(tmp_path, client) as on:
        await on.stop()
        client.fails["consume"] = late()
        await on.start()
    client.fails.clear()
    async with renewing(tmp_path, client) as on:
        await until(lambda: len(on.published) >= 2)
        kinds = [payloads(one)[0][0] for one in on.published]
        assert kinds == ["renewal.reset_prepare", "renewal.continuation"]  # a new ledger knows of neither
        assert on.states == ["consumed"]
    claims = {question["claim_id"] for question in client.asked if question["step"] == "consume"}
    assert len(claims) == 1


async def test_what_was_being_prepared_when_the_broker_ended_is_prepared_again(tmp_path: Path) -> None:
    client = ScriptedClient()
    client.fails["prepare"] = late()
    async with renewing(tmp_path, client) as on:
        await on.stop()
    client.fails.clear()
    async with renewing(tmp_path, client) as on:
        await until(lambda: bool(on.published))
        assert on.published[0].telemetry_summary["client_after_restart"] is True
        assert outcome(await on.start()) == ("observed", None, None)
        assert on.states == ["consumed"]
    assert len({question["prepare_id"] for question in client.asked if question["step"] == "prepare"}) == 1

"""What every host of extensions promises, in a process of its own or not."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_contract import LifebusError
from lifebus_contract.extensions import LoadErrorCode
from support.extensions.scene import HostBox, Kind, opened_host, source_of, write_extension
from support.patience import PATIENCE_S


class ExtensionHostSuite:
    """Inherit, and say which kind of host is meant."""

    kind: Kind

    async def load(self, box: HostBox, *folders: Path) -> None:
        found = await box.host.load([source_of(folder) for folder in folders])
        assert [one.fault for one in found] == [None] * len(folders)

    async def test_handlers_are_registered_in_the_order_in_which_they_stand(self, tmp_path: Path) -> None:
        folder = write_extension(
            tmp_path,
            "m",
            """
            from lifebus.extensions import on
            from .names import NAME

            @on("b", priority=5)
            async def first(event): ...

            @on(NAME, timeout=3 / 2)
            @on("c")
            async def second(event, tools): ...
            """,
            names='NAME = "a"',
        )
        async with opened_host(self.kind) as box:
            (module,) = await box.host.load([source_of(folder)])
        assert [(one.event_type, one.priority, one.timeout_ms) for one in module.registrations] == [
            ("b", 5, None),
            ("c", None, None),
            ("a", None, 1_500),
        ]

    async def test_a_handler_gets_the_event_and_its_value_comes_back_as_json(self, tmp_path: Path) -> None:
        folder = write_extension(
            tmp_path,
            "m",
            """
            from lifebus.extensions import Event, TurnCompleted, on, request_action

            @on("e")
            async def plain(event):
                return {"type": event.type, "payload": event.payload, "at": event.emitted_at}

            @on("e")
            async def typed(event: Event[TurnCompleted]):
                return request_action("x", {"turn": event.payload.context.turn_id}, idempotency_key="k")
            """,
        )
        context = {"projectId": "p", "sourceSessionId": "s", "threadId": "s", "turnId": "t9"}
        payload = {"context": context, "hadFileChangeRequests": True, "turnTranscriptSnapshot": ""}
        async with opened_host(self.kind) as box:
            await self.load(box, folder)
            plain = await box.call("m", {"a": [1, "ü"]})
            typed = await box.call("m", payload, number=1)
            wrong = await box.call("m", {"a": 1}, number=1)
        assert plain.value == {"type": "e", "payload": {"a": [1, "ü"]}, "at": "2026-11-23T12:00:00.000Z"}
        assert typed.value == {
            "kind": "action_request",
            "actionType": "x",
            "payload": {"turn": "t9"},
            "idempotencyKey": "k",
        }
        assert wrong.fault is not None
        assert wrong.fault.code == "payload_mismatch"

    async def test_what_a_handler_raises_is_a_fault_that_names_the_place(self, tmp_path: Path) -> None:
        folder = write_extension(
            tmp_path,
            "m",
            """
            from lifebus.extensions import on

            @on("e")
            async def fails(event):
                raise ValueError("no such thing")

            @on("e")
            async def ends(event):
                raise SystemExit(3)

            @on("e")
            async def returns(event):
                return object()

            @on("e")
            async def much(event):
                return "x" * 300_000

            @on("e")
            async def well(event):
                return "well"

            @on("e")
            async def garbled(event):
                raise ValueError("\\udcff")
            """,
        )
        async with opened_host(self.kind) as box:
            await self.load(box, folder)
            faults = [(await box.call("m", number=number)).fault for number in range(4)]
            garbled = (await box.call("m", number=5, timeout_ms=int(PATIENCE_S * 500))).fault
            assert (await box.call("m", number=4)).value == "well"
            assert box.host.restarts == 0
        codes = [fault and fault.code for fault in faults]
        assert codes == ["handler_failed", "handler_failed", "result_unreadable", "result_too_large"]
        assert faults[0] is not None
        assert faults[0].text == "ValueError: no such thing (events.py:6)"
        assert garbled is not None
        assert (garbled.code, garbled.text) == ("handler_failed", "ValueError: \\udcff (events.py:26)")

    async def test_a_handler_whose_time_is_over_is_cancelled_and_told_apart(self, tmp_path: Path) -> None:
        folder = write_extension(
            tmp_path,
            "m",
            """
            import asyncio
            from lifebus.extensions import on

            seen = []

            @on("e")
            async def waits(event):
                seen.append("begun")
                try:
                    await asyncio.Event().wait()
                finally:
                    seen.append("cancelled")

            @on("e")
            async def look(event):
                return seen
            """,
        )
        async with opened_host(self.kind) as box:
            await self.load(box, folder)
            seen: Any = []
            while not seen:  # on a slow machine the time of a call may be over before its handler begins
                late = await box.call("m", timeout_ms=20)
                assert late.fault is not None
                assert (late.fault.code, late.fault.text) == ("handler_timeout", "no result within 20 ms")
                seen = (await box.call("m", number=1)).value
            assert seen == ["begun", "cancelled"]
            assert box.host.restarts == 0

    async def test_tools_answer_or_refuse_and_are_closed_when_the_handler_has_settled(self, tmp_path: Path) -> None:
        folder = write_extension(
            tmp_path,
            "m",
            """
            from lifebus.extensions import ToolRefused, on

            kept = []

            @on("e")
            async def uses(event, tools):
                kept.append(tools)
                tools.log.info("seen", payload=event.payload)
                return [await tools.session_setting("s", "color"), await tools.session_setting("s", "size", 7)]

            @on("e")
            async def refused(event, tools):
                try:
                    await tools.session_settings("none")
                except ToolRefused as fault:
                    return [fault.code, str(fault)]

            @on("e")
            async def later(event):
                await kept[0].session_settings("s")
            """,
        )

        async def settings(tool: str, arguments: dict[str, Any]) -> Any:
            assert tool == "session_settings"
            if arguments["sessionId"] != "s":
                raise LifebusError("no such session", code="unknown_session")
            return {"color": "red"}

        async with opened_host(self.kind) as box:
            await self.load(box, folder)
            assert (await box.call("m", {"a": 1}, tool=settings)).value == ["red", 7]
            assert (await box.call("m", number=1, tool=settings)).value == ["unknown_session", "no such session"]
            late = await box.call("m", number=2, tool=settings)
            assert late.fault is not None
            assert late.fault.code == "tools_closed"
        assert [(one.module_name, one.level, one.message, one.fields) for one in box.logged] == [
            ("m", "info", "seen", {"payload": "{'a': 1}"})
        ]

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("import nowhere_to_be_found", LoadErrorCode.IMPORT_FAILED),
            ("raise SystemExit(0)", LoadErrorCode.IMPORT_FAILED),
            ("x = (", LoadErrorCode.IMPORT_FAILED),
            ("x = 1", LoadErrorCode.MISSING_REGISTER),
            ("from lifebus.extensions import on\n@on(' ')\nasync def f(event): ...", LoadErrorCode.REGISTRATION_FAILED),
            ("from lifebus.extensions import on\n@on('e')\ndef f(event): ...", LoadErrorCode.REGISTRATION_FAILED),
            ("from lifebus.extensions import on\n@on('e')\nasync def f(): ...", LoadErrorCode.REGISTRATION_FAILED),
            (
                "from lifebus.extensions import on\n@on('e', priority=1.5)\nasync def f(event): ...",
                LoadErrorCode.REGISTRATION_FAILED,
            ),
            (
                "from lifebus.extensions import on\n@on('e')\nasync def f(event: 'Nothing'): ...",
                LoadErrorCode.REGISTRATION_FAILED,
            ),
        ],
    )
    async def test_a_module_that_cannot_be_used_says_why(self, tmp_path: Path, code: str, expected: str) -> None:
        folder = write_extension(tmp_path, "bad", code)
        async with opened_host(self.kind) as box:
            (module,) = await box.host.load([source_of(folder)])
        assert module.fault is not None
        assert module.fault.code == expected
        assert module.registrations == ()

    async def test_two_extensions_have_files_of_the_same_name(self, tmp_path: Path) -> None:
        code = """
            from lifebus.extensions import on
            from .helper import NAME

            @on("e")
            async def says(event):
                return NAME
            """
        first = write_extension(tmp_path, "a-1", code, helper="NAME = 'first'")
        second = write_extension(tmp_path, "b.2", code, helper="NAME = 'second'")
        async with opened_host(self.kind) as box:
            await self.load(box, first, second)
            assert [(await box.call(name)).value for name in ("a-1", "b.2")] == ["first", "second"]

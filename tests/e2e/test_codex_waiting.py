"""The real Codex in a terminal asks a person for a permission."""

from typing import Final

from lifebus.live.programs.codex import CODEX
from support.e2e.waits import check_a_notice_of_a_dialog, check_a_refused_dialog, check_an_allowed_dialog

ESCAPE: Final = b"\x1b"


async def test_a_permission_is_waited_for_from_the_dialog_to_the_tools_result() -> None:
    await check_an_allowed_dialog(CODEX, "Bash")


async def test_a_permission_that_is_refused_is_not_waited_for_any_more() -> None:
    await check_a_refused_dialog(CODEX, "Bash", ESCAPE)


async def test_a_person_is_notified_of_the_dialog() -> None:
    await check_a_notice_of_a_dialog(CODEX, "Bash")

"""docs/commands.md is what the commands say of themselves."""

from support.command_pages import PAGE, command_page

ANEW = "write it anew: PYTHONPATH=tests python tests/support/command_pages.py"


def test_the_page_of_all_commands_is_their_help() -> None:
    assert PAGE.read_text() == command_page(), ANEW


def test_it_has_what_users_look_for_and_no_name_of_before() -> None:
    text = PAGE.read_text()
    for words in ("up", "hooks install", "receipts list", "ledger backup", "app-server tee"):
        assert f" lifebus {words}\n\n```text\nUsage: lifebus {words}" in text
    for before in ("ledger info", "flow ls", "compactions"):
        assert f" lifebus {before}\n" not in text

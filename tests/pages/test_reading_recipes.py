"""The recipes that read: what each page has its reader do is done as it stands there, and does what the page says."""

import csv
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.pages import Page, Reader
from support.paths import DOCS
from support.recipes import broker_of, happened, lines_until, ran, saved

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")


RECIPES = sorted(path.name for path in (DOCS / "recipes").glob("*.md") if path.name != "README.md")


def test_each_recipe_is_listed_with_its_purpose() -> None:
    listed = Page("recipes/README.md").text
    assert [name for name in RECIPES if f"]({name})" not in listed] == []


def test_there_are_twelve_recipes_at_least_and_a_test_of_each() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*_recipes.py"))
    untested = [name for name in RECIPES if f'saved("{name.removesuffix(".md")}"' not in tests]
    assert [name for name in untested if f'Page("recipes/{name}")' not in tests] == []
    assert len(RECIPES) >= 12


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_only_files_to_save_and_blocks_to_run(name: str) -> None:
    assert [block for block in Page(f"recipes/{name}").blocks if not block.file and block.language != "sh"] == []


async def test_a_python_program_goes_on_where_it_was(reader: Reader) -> None:
    (command,) = saved("follow-python", reader)
    async with broker_of(reader) as bus:
        await happened(bus, "session.started", "frame.opened")
        first = await lines_until(reader, command, "claude s1 frame.opened observed")
        await happened(bus, "frame.ended")
        again = await lines_until(reader, command, "claude s1 frame.ended observed")
    assert first == ["claude s1 session.started observed", "claude s1 frame.opened observed"]
    # What it printed last may not have been acknowledged when it was killed, and comes again then.
    assert again[-1] == "claude s1 frame.ended observed"
    assert set(again[:-1]) <= {first[1]}


@needs_jq
async def test_a_shell_counts_and_chooses(reader: Reader) -> None:
    turns, events, starts = saved("follow-shell", reader)
    async with broker_of(reader) as bus:
        await happened(bus, "session.started", "frame.opened", "frame.ended")
        shown = await ran(reader, turns)
        assert (shown.code, shown.text) == (0, "claude#1\tended\n")
        shown = await ran(reader, events)
        assert sorted(shown.text.split()) == ["1"] * 3 + ["frame.ended", "frame.opened", "session.started"]
        # It is about what comes, so it is given what was: nobody can say when a tail in a pipe follows.
        here = starts.replace("lifebus tail", "lifebus tail --from start")
        began = await lines_until(reader, here, "claude began in a folder that it did not name")
    assert len(began) == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
async def test_node_gets_what_was_and_what_comes_over_http(reader: Reader) -> None:
    up, follow = saved("follow-http", reader)
    assert (await ran(reader, up)).code == 0
    shown = await ran(reader, "lifebus emit session.started --adapter codex --session s1 --json")
    assert shown.code == 0, shown.text
    with reader.started(follow) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == b"codex s1 session.started observed\n"
        assert (await ran(reader, "lifebus emit session.ended --adapter codex --session s1")).code == 0
        assert node.stdout.readline() == b"codex s1 session.ended observed\n"


@needs_jq
async def test_an_export_is_the_same_as_json_csv_and_sql(reader: Reader) -> None:
    export, table, load = saved("export", reader)
    async with broker_of(reader) as bus:
        await happened(bus, "session.started", "frame.opened", "frame.ended")
        assert (await ran(reader, export)).code == 0
    assert [(await ran(reader, command)).code for command in (table, load, load)] == [0, 0, 0]
    with closing(sqlite3.connect(reader.folder / "state/ledger.db")) as ledger:
        bodies = [json.loads(body) for (body,) in ledger.execute("SELECT receipt FROM rows ORDER BY position")]
    lines = (reader.folder / "receipts.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == bodies
    with (reader.folder / "receipts.csv").open(newline="") as file:
        assert [row[3] for row in csv.reader(file)] == [body["event"] for body in bodies]
    with closing(sqlite3.connect(reader.folder / "receipts.sqlite")) as made:
        assert made.execute("SELECT receipt_id, event FROM receipts ORDER BY rowid").fetchall() == [
            (body["receipt_id"], body["event"]) for body in bodies
        ]


@needs_jq
async def test_a_report_counts_what_happened(reader: Reader) -> None:
    shown_to_people, numbers, as_page = saved("report", reader)
    async with broker_of(reader) as bus:
        await happened(bus, "session.started", "frame.opened", "frame.ended")
        shown = await ran(reader, shown_to_people)
        assert (shown.code, len(re.findall(r"(?m)^claude +- +1 +1 ", shown.text))) == (0, 2), shown.text
        assert (await ran(reader, numbers)).text == "claude -: 1 turns, 0 failures\n"
        assert (await ran(reader, as_page)).code == 0
    page = (reader.folder / "report.html").read_text()
    assert page.count('<svg class="plot"') == 5


async def test_a_backup_is_checked_and_comes_back(reader: Reader) -> None:
    backup, verify, restore = saved("back-up", reader)
    assert (await ran(reader, "lifebus up --detach")).code == 0
    assert (await ran(reader, "lifebus emit session.started --adapter codex --session kept")).code == 0
    for command in (backup, verify):
        shown = await ran(reader, command)
        assert shown.code == 0, shown.text
    assert (await ran(reader, "lifebus emit session.started --adapter codex --session later")).code == 0
    shown = await ran(reader, restore)
    assert shown.code == 0, shown.text
    with closing(sqlite3.connect(reader.folder / "state/ledger.db")) as ledger:
        sessions = [json.loads(body)["harness_session_id"] for (body,) in ledger.execute("SELECT receipt FROM rows")]
    assert "kept" in sessions
    assert "later" not in sessions

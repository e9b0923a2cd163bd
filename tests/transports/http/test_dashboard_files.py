"""The files of the dashboard: small, of our own, and of such a kind that a strict policy holds."""

import re
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

from support.paths import REPOSITORY
from support.transports.gateway import running_gateway

FOLDER = REPOSITORY / "transports/lifebus_transports/http/dashboard/static"
FILES = sorted(one for one in FOLDER.rglob("*") if one.is_file())
MODULES = [one for one in FILES if one.suffix == ".js"]
MOST_BYTES = 150_000
MOST_LINES = 300


def test_everything_together_is_small() -> None:
    assert sum(one.stat().st_size for one in FILES) < MOST_BYTES


def test_modules_are_short_and_say_what_they_are() -> None:
    for module in MODULES:
        lines = module.read_text().splitlines()
        assert len(lines) < MOST_LINES, module.name
        assert re.match(r"// [A-Z].*", lines[0]), module.name


def test_texts_go_into_the_page_as_texts_and_nothing_comes_from_elsewhere() -> None:
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    for file in FILES:
        text = file.read_text()
        assert not markup.search(text), file.name
        # The name of the format of drawings is no address that is asked for.
        addresses = set(re.findall(r"https?://[^\"'`\s)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not addresses, file.name


def test_modules_import_only_what_is_there() -> None:
    used = {FOLDER / "app.js"}
    for module in MODULES:
        found = re.findall(r'(?:from |import\()"([^"]+)"', module.read_text())
        used |= {(module.parent / name).resolve() for name in found}
    assert used == set(MODULES)


def test_each_screen_is_opened_and_named_as_a_command_in_the_same_way() -> None:
    table = (FOLDER / "screens.js").read_text()
    names = re.findall(r'import\("\./(screens/[a-z_]+\.js)"\)', table)
    for name in names:
        found = set(re.findall(r"^export (?:async )?function (\w+)", (FOLDER / name).read_text(), re.MULTILINE))
        assert found == {"open", "command"}, name
    keys = re.findall(r' key: "(.)"', table)
    assert len(names) == len(keys) == len(set(keys))


def test_the_wheel_has_them(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(REPOSITORY)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as archive:
        found = [name.partition("/http/dashboard/static/")[2] for name in archive.namelist()]
    assert {name for name in found if name} == {str(one.relative_to(FOLDER)) for one in FILES}


async def test_they_are_given_out_under_a_strict_policy_to_whoever_names_this_machine() -> None:
    async with running_gateway() as (_, address), address.client({}) as client:
        for path in ("/", *(f"/dashboard/{one.relative_to(FOLDER)}" for one in FILES)):
            answer = await client.get(path, headers={"Sec-Fetch-Site": "cross-site"})
            assert answer.status_code == 200, path
            policy = answer.headers.get_list("content-security-policy")
            assert len(policy) == 1
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy[0]
            assert "require-trusted-types-for 'script'" in policy[0]
            assert "unsafe" not in policy[0]
            assert answer.headers["x-content-type-options"] == "nosniff"
            refused = await client.get(path, headers={"Host": f"evil.example:{address.port}"})
            assert (refused.status_code, refused.json()["code"]) == (403, "host_refused")
        for path in (
            "/dashboard/",
            "/dashboard/..%2Ffiles.py",
            "/dashboard/files.py",
            "/dashboard/__init__.py",
            "/dashboard/screens",
        ):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.post("/", json={})).status_code == 401

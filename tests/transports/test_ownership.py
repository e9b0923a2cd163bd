"""Which directories and files nobody but their user and root can exchange or write to."""

import grp
import os
import pwd
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lifebus_contract import LifebusError
from lifebus_transports import ownership
from lifebus_transports.ownership import check_parents, foreign_file
from support.other_user import STRANGER, check_as, needs_root
from support.patience import PATIENCE_S
from support.running import short_directory

US = 12_346
"""A user without an account, as whom the checks are made."""


@pytest.fixture
def base() -> Iterator[Path]:
    with short_directory() as directory:
        directory.chmod(0o755)
        yield directory


def made(path: Path, mode: int, user: int = US, group: int | None = None) -> Path:
    path.mkdir()
    os.chown(path, user, user if group is None else group)
    path.chmod(mode)
    return path


@needs_root
def test_each_directory_on_the_way_counts_by_its_owner_and_its_mode(base: Path) -> None:
    ours = made(base / "ours", 0o755)
    stranger = made(base / "stranger", 0o755, STRANGER)
    sticky = made(base / "sticky", 0o1777, 0)
    theirs = made(base / "theirs", 0o1777, STRANGER)
    open_ = made(base / "open", 0o777, 0)
    made(sticky / "ours", 0o700)
    made(sticky / "stranger", 0o777, STRANGER)
    made(theirs / "ours", 0o700)
    made(stranger / "ours", 0o700)
    made(open_ / "ours", 0o700)
    expected: dict[Path, tuple[str, str] | None] = {
        ours / "run": None,
        ours / "a" / "b" / "run": None,
        base / "of_root" / "run": None,
        sticky / "run": None,
        sticky / "ours" / "run": None,
        sticky / "stranger": ("directory_owner", f"{sticky}/stranger"),
        sticky / "stranger" / "run": ("directory_owner", f"{sticky}/stranger"),
        theirs / "ours": ("directory_owner", str(theirs)),
        stranger / "ours": ("directory_owner", str(stranger)),
        open_ / "ours": ("directory_mode", str(open_)),
        open_ / "missing": ("directory_mode", str(open_)),
        open_ / ".." / "ours" / "run": None,  # nobody can exchange what two dots stand for
        made(base / "write_only", 0o722) / "run": ("directory_mode", str(base / "write_only")),
    }
    assert_found(expected)


@needs_root
def test_a_group_counts_unless_it_is_its_owner_s_alone_or_root_s_directory(base: Path) -> None:
    """Umask 002 with a group for each user makes directories 0775 everywhere; they are as private as 0755."""
    listed = made(base / "listed", 0o775)
    entries = ((0x01, 7, -1), (0x02, 7, STRANGER), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1))
    with suppress(OSError):  # a file system without access lists
        packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
        os.setxattr(listed, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    expected: dict[Path, tuple[str, str] | None] = {
        made(base / "own_group", 0o775) / "run": None,
        made(base / "set_group", 0o2775) / "run": None,
        made(base / "other_group", 0o775, US, STRANGER) / "run": ("directory_mode", str(base / "other_group")),
        made(base / "of_root", 0o2775, 0, STRANGER) / "run": None,
    }
    if listed.stat().st_mode & stat.S_IWGRP and os.listxattr(listed):
        expected[listed / "run"] = ("directory_mode", str(listed))
    assert_found(expected)


@needs_root
def test_links_are_decided_by_where_they_lead_and_by_who_can_exchange_them(base: Path) -> None:
    ours, open_ = made(base / "ours", 0o755), made(base / "open", 0o777, 0)
    sticky = made(base / "sticky", 0o1777, 0)
    made(ours / "run", 0o700)
    made(open_ / "run", 0o700)
    links: dict[Path, Path | str] = {
        ours / "to_open": open_ / "run",
        open_ / "to_ours": ours / "run",
        ours / "relative": "../ours/run",
        sticky / "of_another": ours / "run",
        ours / "loop": "loop",
    }
    for link, target in links.items():
        link.symlink_to(target)
    os.lchown(sticky / "of_another", STRANGER, STRANGER)
    assert_found(
        {
            ours / "relative": None,
            ours / "to_open": ("directory_mode", str(open_)),
            open_ / "to_ours": ("directory_mode", str(open_)),
            sticky / "of_another": ("directory_owner", str(sticky / "of_another")),
            ours / "loop": ("directory_unusable", "too many links"),
        }
    )


def assert_found(expected: dict[Path, tuple[str, str] | None]) -> None:
    """Check each path as user `US`: all is well, or this code and these words."""
    found = dict(zip(expected, check_as(US, tuple(expected)), strict=True))
    for path, wanted in expected.items():
        refusal = found[path]
        if wanted is None or refusal is None:
            assert (path, refusal) == (path, wanted)
        else:
            assert (path, refusal[0]) == (path, wanted[0])
            assert wanted[1] in refusal[1]


def test_in_a_sandbox_without_root_the_system_s_directories_belong_to_nobody_and_are_fine(base: Path) -> None:
    """As under bubblewrap, where harnesses run what agents ask for: only our own user has a number there."""
    script = "import sys; from pathlib import Path; from lifebus_transports.ownership import check_parents\n"
    script += "import os; assert os.stat('/').st_uid not in (0, os.geteuid()), 'unmapped'\n"
    script += "check_parents(Path(sys.argv[1]))"
    inside = ["unshare", "--user", "--map-user=12346", sys.executable, "-c", script, str(base / "run")]
    try:
        ran = subprocess.run(inside, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if "unshare" in ran.stderr or "unmapped" in ran.stderr:
        pytest.skip("no user namespace can be made here")
    assert (ran.returncode, ran.stderr) == (0, "")


@needs_root
@pytest.mark.parametrize("unmapped", [True, False])
def test_nobody_s_number_stands_for_root_only_where_root_has_none(
    base: Path, monkeypatch: pytest.MonkeyPatch, unmapped: bool
) -> None:
    monkeypatch.setattr(ownership, "_overflow_uid", lambda: STRANGER)
    monkeypatch.setattr(ownership, "_root_is_unmapped", lambda: unmapped)
    path = made(base / "of_nobody", 0o755, STRANGER) / "run"
    if unmapped:
        check_parents(path)
    else:
        with pytest.raises(LifebusError, match="belongs to user"):
            check_parents(path)


@pytest.mark.parametrize(
    ("members", "shared_by", "private"),
    [([], (), True), (["me"], (), True), (["me", "you"], (), False), ([], (os.getuid() + 1,), False)],
)
def test_a_group_is_private_while_the_accounts_name_nobody_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[str],
    shared_by: tuple[int, ...],
    private: bool,
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o664)
    found = (tmp_path / "file").stat()

    def account(name: str, uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "", uid, found.st_gid, "", "", ""))

    def me(uid: int) -> pwd.struct_passwd:
        return account("me", uid)

    def group(gid: int) -> grp.struct_group:
        return grp.struct_group(("g", "", gid, members))

    monkeypatch.setattr(pwd, "getpwuid", me)
    monkeypatch.setattr(pwd, "getpwall", lambda: [account("me", os.getuid()), *(account("x", u) for u in shared_by)])
    monkeypatch.setattr(grp, "getgrgid", group)
    assert (foreign_file(tmp_path / "file", found) is None) is private


@pytest.mark.parametrize(("mode", "sound"), [(0o600, True), (0o644, True), (0o444, True), (0o646, False)])
def test_a_file_that_others_may_read_is_fine_and_one_that_they_may_write_is_not(
    tmp_path: Path, mode: int, sound: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("")
    path.chmod(mode)
    assert (foreign_file(path, path.stat()) is None) is sound


def test_only_a_regular_file_is_relied_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert foreign_file(tmp_path / "pipe", (tmp_path / "pipe").stat()) == "it is no regular file"


def test_our_own_home_and_temporary_directory_are_sound(tmp_path: Path) -> None:
    check_parents(tmp_path / "run")
    check_parents(Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".local" / "state" / "lifebus" / "run")

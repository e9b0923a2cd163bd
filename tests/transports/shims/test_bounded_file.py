"""A file with the beginning and the end of a stream: whatever comes, in whatever pieces."""

import errno
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_transports.shims.bounded_file import BoundedFile

LONGEST_MARK = 64


@given(keep=st.integers(1, 40), pieces=st.lists(st.binary(max_size=200), max_size=12))
def test_the_first_and_the_last_bytes_are_there_and_the_rest_is_counted(keep: int, pieces: list[bytes]) -> None:
    stream = b"".join(pieces)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        file = BoundedFile(str(path), keep)
        for piece in pieces:
            file.write(piece)
            assert path.stat().st_size <= 3 * keep + LONGEST_MARK
        file.finish()
        kept = path.read_bytes()
    assert file.total == len(stream)
    if len(stream) <= 2 * keep:
        assert kept == stream
    elif kept != stream:  # no more than the line about what is left out may stand there without one
        mark = re.fullmatch(rb"\n\[(\d{16}) bytes left out\]\n", kept[keep:-keep])
        assert mark is not None
        assert kept[:keep] + kept[-keep:] == stream[:keep] + stream[-keep:]
        assert int(mark[1]) == len(stream) - 2 * keep
    assert len(kept) <= 2 * keep + LONGEST_MARK


def test_a_full_disk_ends_the_file_and_not_the_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = BoundedFile(str(tmp_path / "out"), 10)
    file.write(b"kept ")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    file.write(b"lost")
    monkeypatch.undo()
    file.write(b"and lost")
    file.finish()
    assert (tmp_path / "out").read_bytes() == b"kept "
    assert (file.total, file.fault) == (17, os.strerror(errno.ENOSPC))


def test_a_link_is_not_followed_and_a_file_that_somebody_writes_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(OSError, match=r"[Ss]ymbolic"):
        BoundedFile(str(tmp_path / "link"), 10)
    first = BoundedFile(str(tmp_path / "out"), 10)
    first.write(b"mine")
    with pytest.raises(BlockingIOError):
        BoundedFile(str(tmp_path / "out"), 10)
    first.finish()
    assert (tmp_path / "out").read_bytes() == b"mine"
    assert (tmp_path / "precious").read_text() == "precious"

"""What the system says of a path, as codes of the contract."""

import errno
import os

import pytest

from lifebus_contract.codes import CODES
from lifebus_transports.workspace.faults import path_fault

SAID = {
    errno.ELOOP: "path_is_link",
    errno.EXDEV: "path_outside",
    errno.ENOENT: "no_file",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ENOTEMPTY: "not_empty",
    errno.EEXIST: "not_empty",
    errno.ENAMETOOLONG: "path_invalid",
    errno.EACCES: "file_denied",
    errno.EPERM: "file_denied",
    errno.EROFS: "file_denied",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EIO: "unreadable",
    errno.EFBIG: "unreadable",
    errno.EMFILE: "unreadable",
}


@pytest.mark.parametrize("number", SAID, ids=errno.errorcode.get)
def test_each_error_has_its_code_and_the_class_of_it(number: int) -> None:
    found = path_fault(OSError(number, os.strerror(number)), "a/b")
    assert found.code == SAID[number]
    assert found.failure_class is CODES[SAID[number]].failure_class
    assert found.detail.startswith("`a/b` ")

"""What the system says of a path, as errors of the contract.  Pure."""

import errno
from typing import Final

from lifebus_contract import LifebusError
from lifebus_contract.codes import CODES
from lifebus_contract.errors import error_for

_DENIED: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_NOT_EMPTY: Final = {errno.ENOTEMPTY, errno.EEXIST}
_NO_FILE: Final = {errno.EISDIR, errno.ENXIO}


def file_fault(detail: str, *, code: str) -> LifebusError:
    """Return the error of a code, with the class that the table has for it."""
    return error_for(CODES[code].failure_class, detail, code=code, field="$.path")


def path_fault(fault: OSError, path: object) -> LifebusError:
    """Return what the system said of a path beneath the root as an error of the contract."""
    words = f"cannot be used: {fault.strerror or fault}"
    match fault.errno:
        case errno.ELOOP:
            code = "path_is_link"
            words = "leads through a symbolic link, and none is followed"
        case errno.EXDEV:
            code = "path_outside"
            words = "leads out of the root"
        case errno.ENOENT:
            code = "no_file"
            words = "is not there"
        case errno.ENOTDIR:
            code = "not_a_directory"
            words = "leads through something that is no directory"
        case number if number in _NO_FILE:
            code = "not_a_file"
            words = "is no regular file"
        case number if number in _NOT_EMPTY:
            code = "not_empty"
            words = "is a directory that is not empty"
        case errno.ENAMETOOLONG | errno.EINVAL | errno.EILSEQ:
            code = "path_invalid"
        case number if number in _DENIED:
            code = "file_denied"
        case number if number in _FULL:
            code = "disk_full"
        case _:
            code = "unreadable"
    return file_fault(f"`{str(path)[:256]}` {words}", code=code)

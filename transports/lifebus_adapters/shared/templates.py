"""Texts that lifebus installs for harnesses: scripts, plugins and instructions, shipped beside the code.

A text has places such as ``@LAUNCHER@``; each is filled with a value that is already written in the text's language.
"""

import re
import shlex
from typing import Any, Final

import msgspec

from lifebus_adapters.shared.manifests import package_file

_PLACE: Final = re.compile(r"@([A-Z]+)@")


def template(folder: str, name: str) -> str:
    """Return a text of the package: `folder` is ``texts`` or an adapter's id."""
    return package_file("lifebus_adapters", f"{folder}/{name}").decode()


def fill(text: str, **values: str) -> str:
    """Return the text with every place filled.

    Raises:
        KeyError: a place has no value.
    """
    return _PLACE.sub(lambda place: values[place[1].lower()], text)


def for_shell(text: str) -> str:
    """Return the text as one word of a POSIX shell."""
    return shlex.quote(text)


def for_javascript(value: Any) -> str:
    """Return a value as a JavaScript literal; JSON is one."""
    return msgspec.json.encode(value).decode()

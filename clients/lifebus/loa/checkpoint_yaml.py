"""A checkpoint as YAML, from which every reader makes the same data again.  Pure."""

import re
from typing import Any, Final

import yaml

# Line ends of Unicode and a byte order mark: in a plain text they are read as something else.
_ESCAPED: Final = re.compile("[\x85\u2028\u2029\ufeff]")


class _Dumper(yaml.SafeDumper):
    """Writes text that other styles would change between quotes, where it can be escaped."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _ESCAPED.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]  its stub leaves the value open


_Dumper.add_representer(str, _represent_text)


def dump_yaml(document: Any) -> str:
    """Return plain data as YAML in blocks, the keys in their order, no line folded."""
    # Without a width limit: a folded text reads back the same, but a line of it is no line of the summary.
    made: str = yaml.dump(  # pyright: ignore[reportUnknownMemberType]  a type of its stubs is not to be found
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=2**31
    )
    return made

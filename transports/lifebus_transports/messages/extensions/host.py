"""What passes between the broker and the child program that runs extensions: one JSON object a line.  Pure.

The parent loads modules once, then calls handlers by module and number; the child answers each call once.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

MAX_LINE_BYTES: Final = 1_048_576
"""Longest line in either direction, in bytes, without its newline."""

MAX_VALUE_BYTES: Final = 262_144
"""Most bytes of what a handler returns, as JSON."""

MAX_REGISTRATIONS: Final = 256
"""Most handlers of one module."""

DESCRIPTOR_OPTION: Final = "--channel"
MEMORY_OPTION: Final = "--memory-mb"


class ModuleSource(Struct, frozen=True):
    """A module to import: its name, its folder, and the file of it within, such as ``events.py``."""

    module_name: str
    folder: str
    entrypoint: str


class LoadModules(Struct, frozen=True, tag="load"):
    """Import these modules, in this order; the child is told so once."""

    modules: tuple[ModuleSource, ...]


class CallHandler(Struct, frozen=True, tag="call"):
    """Call a handler: the `handler`-th registration of its module, with an event (`RuntimeEvent` as JSON)."""

    number: int
    module_name: str
    handler: int
    event: Raw


class CancelCall(Struct, frozen=True, tag="cancel"):
    """Cancel a call whose time is over; it is settled in any case."""

    number: int


class ToolFault(Struct, frozen=True):
    """Why a tool, a call or an import failed: a code and a text."""

    code: str
    text: str


class ToolAnswer(Struct, frozen=True, tag="tool_answer"):
    """The answer to one use of a tool."""

    number: int
    use: int
    value: Any = None
    fault: ToolFault | None = None


FromParent = LoadModules | CallHandler | CancelCall | ToolAnswer


class HandlerRegistration(Struct, frozen=True):
    """A handler that a module registered; null is the default."""

    event_type: Annotated[str, Meta(min_length=1, max_length=256)]
    priority: int | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None


class Importing(Struct, frozen=True, tag="importing"):
    """A module is imported now: should the child end, it was this one."""

    module_name: str


class Imported(Struct, frozen=True, tag="imported"):
    """A module was imported, or why it was not; the code of a fault is one of `LoadErrorCode`."""

    module_name: str
    registrations: Annotated[tuple[HandlerRegistration, ...], Meta(max_length=MAX_REGISTRATIONS)] = ()
    fault: ToolFault | None = None


class LoadingEnded(Struct, frozen=True, tag="loaded"):
    """Every module was tried."""


class Settled(Struct, frozen=True, tag="settled"):
    """A call has ended: with what the handler returned, or with a fault."""

    number: int
    value: Raw = Raw(b"null")
    fault: ToolFault | None = None


class UseTool(Struct, frozen=True, tag="tool"):
    """A handler uses a tool; `use` counts the uses of the call."""

    number: int
    use: int
    tool: str
    arguments: dict[str, Any] = {}


class ExtensionLog(Struct, frozen=True, tag="log"):
    """A handler writes into the broker's log."""

    module_name: str
    level: str
    message: str
    fields: dict[str, Any] = {}


# What whoever has a host gives and gets, whether there is a child or not.


class LoadedModule(Struct, frozen=True):
    """What a module came to in its host: its handlers, or why it has none."""

    module_name: str
    registrations: tuple[HandlerRegistration, ...] = ()
    fault: ToolFault | None = None


class HandlerCall(Struct, frozen=True):
    """A call of a handler: the `handler`-th registration of a module, with an event as JSON."""

    module_name: str
    handler: int
    event: bytes
    timeout_ms: int


class HandlerReturn(Struct, frozen=True):
    """How a call ended: `value` is what the handler returned, as plain JSON, unless there is a fault."""

    value: Any = None
    fault: ToolFault | None = None


ToolUser = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Uses a tool by its name for one call; raises LifebusError where it is refused."""

LogTaker = Callable[[ExtensionLog], None]
"""Takes what an extension logs; bounded by whoever takes it."""


FromChild = Importing | Imported | LoadingEnded | Settled | UseTool | ExtensionLog

from_parent: Final = msgspec.json.Decoder(FromParent)
from_child: Final = msgspec.json.Decoder(FromChild)


def encode_line(message: FromParent | FromChild) -> bytes:
    """Return a message as the line that carries it."""
    return msgspec.json.encode(message) + b"\n"

"""What is wrong with a flow file: each mistake with its line, its key and what was probably meant."""

from collections.abc import Sequence

from msgspec import Struct

from lifebus_contract import FailureClass, LifebusError


class FlowFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mistake.  `key` is the way to it, as ``phases.build.command``; `line` is None where no line shows it."""

    line: int | None = None
    key: str = ""
    text: str
    suggestion: str | None = None

    def explain(self, file: str) -> str:
        """Return the sentence for people, which begins with the place."""
        place = f"{file}:{self.line}" if self.line else file
        key = f" `{self.key}`:" if self.key else ""
        hint = f"; {self.suggestion}" if self.suggestion else ""
        return f"{place}:{key} {self.text}{hint}"


class FlowFileError(LifebusError):
    """A flow file cannot be run as it stands; `faults` has every mistake in the order of the lines."""

    default_failure = FailureClass.INVALID_REQUEST

    def __init__(self, file: str, faults: Sequence[FlowFault]) -> None:
        super().__init__("\n".join(one.explain(file) for one in faults), code="flow_invalid")
        self.file, self.faults = file, tuple(faults)

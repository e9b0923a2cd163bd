"""File changes that end a process between any two system calls, or have one of them fail."""

from typing import Any

from lifebus_transports.workspace.changes import FileChanges


class Crash(BaseException):
    """The process is gone: nothing of it runs any more."""


class Counted(FileChanges):
    """Counts the system calls, and ends with the one that has a number: before it, or in the middle of a write."""

    def __init__(self, last: int | None = None, fault: type[BaseException] | OSError = Crash) -> None:
        self.last = last
        self.fault = fault
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name not in vars(FileChanges) or name.startswith("_"):
            return found

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) == self.last:
                if name == "write":
                    found(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise self.fault
            if name == "write":  # little at a time, so that there is a middle
                return found(arguments[0], arguments[1][:65_536])
            return found(*arguments)

        return call

"""Which sessions a tool is for: by harness, by folder, by name.  Pure."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from lifebus.cli.tools.receipt_facts import folder_of, text_fact

if TYPE_CHECKING:
    from lifebus import Receipt
    from lifebus_contract.views import SessionHead


class SessionChoice(Struct, frozen=True, kw_only=True):
    """Harnesses, folders and sessions of which one each has to match; what is empty matches all."""

    adapters: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()

    def accepts(self, receipt: "Receipt", head: "SessionHead | None") -> bool:
        """Whether the session of a receipt is meant; `head` is what the broker knows of it."""
        session = receipt.harness_session_id or ""
        cwd = text_fact(receipt, "cwd") or (head.cwd if head else None)
        name = head.name if head else None
        return self.matches(receipt.adapter_id, session, cwd, name)

    def matches(self, adapter_id: str, session: str, cwd: str | None, name: str | None = None) -> bool:
        """Whether a session is meant; a folder is known by its path or its name, and by that of the short name."""
        folders = {cwd, folder_of(cwd), (name or "").rpartition("#")[0]} - {None, ""}
        names = {session, name, f"{adapter_id}/{session}"}
        return (
            (not self.adapters or adapter_id in self.adapters)
            and (not self.sessions or any(one in names for one in self.sessions))
            and (
                not self.projects
                or any(fnmatchcase(folder, pattern) for folder in folders if folder for pattern in self.projects)
            )
        )

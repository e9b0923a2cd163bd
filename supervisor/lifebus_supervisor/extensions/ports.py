"""What extensions need from outside, named as protocols, and the values that pass."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ExtensionCapabilities
from lifebus_contract.jobs import Enqueued, NewJob
from lifebus_transports.messages.extensions.host import HandlerCall, HandlerReturn, LoadedModule, ModuleSource, ToolUser


class AgentTrust(Struct, frozen=True):
    """What an extension may ask for: its name, the trust mode, and what its manifest declares."""

    module_name: str
    mode: TrustMode
    declared: ExtensionCapabilities | None


class ActionExecutor(Protocol):
    """Does what extensions ask for; envelope, capability and winner were tested before."""

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        """Return what became of a request; `requested_by` is the name of the extension.

        A refusal is an outcome and no exception.
        """
        ...


class JobQueue(Protocol):
    """Queues jobs."""

    async def enqueue(self, job: NewJob, /) -> Enqueued:
        """Return the job that there is now.

        Raises:
            LifebusError: it was refused.
        """
        ...


class SessionSettings(Protocol):
    """Knows the settings of sessions."""

    async def settings_of(self, session_id: str) -> Mapping[str, Any]:
        """Return the settings of a session; none where it has none.

        Raises:
            LifebusError: there is no such session.
        """
        ...


class ExtensionHost(Protocol):
    """Runs the handlers of one set of extensions.

    Every implementation passes the one contract suite in tests/support/contract_suites/.
    """

    @property
    def restarts(self) -> int:
        """How often what runs the handlers has ended and come back."""
        ...

    async def load(self, modules: Sequence[ModuleSource]) -> list[LoadedModule]:
        """Import modules in order, once in the life of a host; return what each came to."""
        ...

    async def call(self, call: HandlerCall, use_tool: ToolUser) -> HandlerReturn:
        """Call a handler and return how that ended, after its time limit and a grace at the latest.

        After that no tool is used for it any more.
        """
        ...

    async def aclose(self) -> None:
        """End everything that runs for the host."""
        ...

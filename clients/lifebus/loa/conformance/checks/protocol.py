"""The ground that every other check stands on: the runtime speaks the protocol."""

from typing import Final

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.process import is_refused
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import Fault
from lifebus.loa.types import CONTRACT

_PROTOCOL: Final = CheckList(Level.REQUIRED, "The runtime speaks the protocol of this suite")


@_PROTOCOL.check("protocol.initialize")
async def _initialize(scene: Scene) -> str:
    found = scene.initialized
    if found is None or not found.name:
        raise CheckFailed("`initialize` says no name")
    if found.contract.partition(".")[0] != CONTRACT.partition(".")[0]:
        raise CheckFailed(f"it speaks the contract {found.contract}; this suite is about {CONTRACT}")
    return f"{found.name} {found.version}, contract {found.contract}"


@_PROTOCOL.check("protocol.unknown_method")
async def _unknown_method(scene: Scene) -> str:
    if not await is_refused(scene.do("lifebus.no.such.method", {}), Fault.UNSUPPORTED):
        raise CheckFailed("a method that nobody has is not refused as `unsupported`")
    return "refused as `unsupported`"


CHECKS: Final[tuple[RuntimeCheck, ...]] = tuple(_PROTOCOL.checks)

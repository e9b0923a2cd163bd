"""What lifebus knows about each harness, pure: native hooks in, native answers out, and the manifests.

Above: the hook door and the daemon.  Below: the contract.
"""

from typing import Final

from lifebus_adapters import claude, codex, gemini, hermes, openclaw, opencode
from lifebus_adapters.adapter import Adapter, CallerProcess, Delivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.manifests import load_manifest, load_third_party

__all__ = [
    "ADAPTERS",
    "Adapter",
    "CallerProcess",
    "Delivery",
    "HookAnswer",
    "HookCall",
    "HookReading",
    "load_manifest",
    "load_third_party",
]

ADAPTERS: Final[dict[str, Adapter]] = {
    "codex": codex.ADAPTER,
    "claude": claude.ADAPTER,
    "gemini": gemini.ADAPTER,
    "opencode": opencode.ADAPTER,
    "hermes": hermes.ADAPTER,
    "openclaw": openclaw.ADAPTER,
}
"""The built-in adapters by adapter id."""

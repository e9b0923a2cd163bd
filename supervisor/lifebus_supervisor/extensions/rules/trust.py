"""How far an extension is trusted: by what it declares, and by the hash of its files.  Pure."""

from collections.abc import Sequence
from typing import Final

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ExtensionCapabilities, TrustEvaluation, TrustStatus

ENQUEUE: Final = "queue.enqueue"
"""The capability for jobs, whether asked for as an action or by `tools.enqueue_job`."""

_EVERYTHING: Final = "*"


def check_content(mode: TrustMode, module_name: str, content_hash: str, trusted_hash: str | None) -> str | None:
    """Return why these files may not be imported, None where they may."""
    if mode is not TrustMode.ENFORCED or content_hash == trusted_hash:
        return None
    if trusted_hash is None:
        return f"no hash of it is recorded; look at its files, then run: lifebus extensions trust {module_name}"
    return f"its files are not those that were trusted; look at them, then run: lifebus extensions trust {module_name}"


def evaluate_trust(
    mode: TrustMode,
    declared: ExtensionCapabilities | None,
    events: Sequence[str],
    *,
    module_name: str,
    content_hash: str | None = None,
    trusted_hash: str | None = None,
) -> TrustEvaluation:
    """Return how an extension fares that registered handlers for these events."""
    faults = [] if mode is TrustMode.DISABLED else _undeclared(declared, events)
    if content_hash is not None and (why := check_content(mode, module_name, content_hash, trusted_hash)) is not None:
        faults.insert(0, why)
    enforced = mode is TrustMode.ENFORCED
    status = TrustStatus.ACCEPTED
    if faults:
        status = TrustStatus.DENIED if enforced else TrustStatus.ACCEPTED_WITH_WARNINGS
    return TrustEvaluation(
        mode=mode,
        status=status,
        warnings=() if enforced else tuple(faults),
        errors=tuple(faults) if enforced else (),
        content_hash=content_hash,
        trusted_hash=trusted_hash,
    )


def refused_action(mode: TrustMode, declared: ExtensionCapabilities | None, action: str) -> str | None:
    """Return why an extension may not ask for an action, None where it may."""
    if mode is not TrustMode.ENFORCED or declares_action(declared, action):
        return None
    return f"its manifest does not declare the action `{action}`"


def is_tolerated(mode: TrustMode, declared: ExtensionCapabilities | None, action: str) -> bool:
    """Whether an action is done although no manifest declares it, which has to be logged."""
    return mode is TrustMode.WARN and not declares_action(declared, action)


def declares_action(declared: ExtensionCapabilities | None, action: str) -> bool:
    """Whether a manifest declares an action, by its name or by ``*``."""
    return declared is not None and bool({action, _EVERYTHING} & set(declared.actions))


def _undeclared(declared: ExtensionCapabilities | None, events: Sequence[str]) -> list[str]:
    faults = ["it declares no capabilities"] if declared is None else []
    known = set(() if declared is None else declared.events)
    if _EVERYTHING in known:
        return faults
    return faults + [
        f"it listens to `{event}` and does not declare that" for event in dict.fromkeys(events) if event not in known
    ]

"""What `lifebus doctor` says of each harness: the hooks that are installed, and what the broker sees of it."""

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from lifebus.cli.admin.host_place import harness_names, place_to_inspect
from lifebus.cli.wording.harness_line import harness_text

if TYPE_CHECKING:
    from lifebus_admin.harnesses.install_status import InstallStatus
    from lifebus_admin.harnesses.target import HostEnvironment
    from lifebus_transports.messages.status import BrokerStatus


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found: evidence always, a fix where something is to be done."""

    check: str
    state: Literal["ok", "warn", "bad"]
    evidence: str
    fix: str = ""


def check_harnesses(status: "BrokerStatus | None") -> Iterator[CheckResult]:
    """Yield what is known of each harness; `status` is the broker's, None where none answers."""
    yield from check_hooks()
    yield from _check_launcher()
    yield from _check_names(status)
    for harness in () if status is None else status.harnesses:
        # Both are normal for a while (a long turn, an old harness), so this is a warning.
        quiet = bool(harness.silent or harness.degraded)
        yield CheckResult(
            check=harness.adapter_id,
            state="warn" if quiet else "ok",
            evidence=harness_text(msgspec.to_builtins(harness)),
            fix=f"`lifebus hooks test {harness.adapter_id}` shows whether its hooks arrive" if quiet else "",
        )


def _check_names(status: "BrokerStatus | None") -> Iterator[CheckResult]:
    """Yield a result where hooks called under names that no adapter has: nothing of them is recorded."""
    if status is None or not status.unknown_adapters:
        return
    count, names = status.counters["hook_unknown_adapter"], ", ".join(f"`{name}`" for name in status.unknown_adapters)
    yield CheckResult(
        check="hook names",
        state="warn",
        evidence=f"{calls_text(count)} named a harness that there is not, and nothing of them is recorded: {names}",
        fix=f"correct the name where the hook is set up: {_meant(status.unknown_adapters)}; a restart counts anew",
    )


def calls_text(count: int) -> str:
    """Return a number of hook calls in words."""
    return f"{count} hook call{'' if count == 1 else 's'}"


def _meant(names: Sequence[str]) -> str:
    """Return which harnesses the names probably mean, else all that there are."""
    from lifebus.cli.choices import known_adapters  # noqa: PLC0415  it loads the parser

    known = known_adapters()
    near = [found[0] for name in names if (found := difflib.get_close_matches(name, known, n=1))]
    return f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else f"there are {', '.join(known)}"


def check_hooks(place: "HostEnvironment | None" = None) -> Iterator[CheckResult]:
    """Yield one result for each installation of hooks here."""
    from lifebus_admin.harnesses.install_status import install_status  # noqa: PLC0415
    from lifebus_admin.harnesses.target import installed_targets, unreadable_targets  # noqa: PLC0415

    place = place or place_to_inspect()
    targets = [*installed_targets(place), *unreadable_targets(place)]
    if not targets:
        fix = f"`lifebus hooks install HARNESS` ({', '.join(harness_names())})"
        yield CheckResult(check="hooks", state="warn", evidence="no hooks are installed", fix=fix)
        return
    for target in targets:
        yield _check_installation(install_status(place, target))


def _check_launcher() -> Iterator[CheckResult]:
    from lifebus_admin.harnesses.install_status import launcher_health  # noqa: PLC0415
    from lifebus_admin.harnesses.target import installed_targets  # noqa: PLC0415

    place = place_to_inspect()
    # Without hooks nothing calls the launcher, so its absence is no result.
    if not installed_targets(place):
        return
    health = launcher_health(place)
    if health.problem is not None or health.files.state != "present":
        evidence = health.problem or f"the launcher is {health.files.state}"
        yield CheckResult(
            check="launcher", state="bad", evidence=evidence, fix="`lifebus hooks install` again mends it"
        )


def _check_installation(status: "InstallStatus") -> CheckResult:
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415

    target = status.target
    harness = ADAPTERS[target.adapter_id]
    check, evidence = "hooks", f"{target.label}: {status.files.state}"
    if status.hooks:
        evidence += f", {len(status.hooks)} hooks"
    untrusted = [hook.event for hook in status.trust or () if hook.state != "trusted"]
    if status.files.state == "unreadable":
        return CheckResult(check=check, state="bad", evidence=f"{target.label}: {status.files.problems[0]}")
    if status.files.state != "present":
        fix = f"`lifebus hooks status {target.adapter_id}` says why; `lifebus hooks install` mends what is ours"
        return CheckResult(check=check, state="bad", evidence=evidence, fix=fix)
    if status.files.problems:
        fix = "change the settings by hand"
        return CheckResult(check=check, state="bad", evidence=f"{evidence}; {status.files.problems[0]}", fix=fix)
    if untrusted and harness.trust is not None:
        fix = harness.trust.remedy
        evidence += f"; {harness.assets.name} does not run {', '.join(untrusted)}: not trusted"
        return CheckResult(check=check, state="bad", evidence=evidence, fix=fix)
    if status.trust_problem is not None:
        return CheckResult(check=check, state="warn", evidence=f"{evidence}; {status.trust_problem}")
    return CheckResult(check=check, state="ok", evidence=evidence)

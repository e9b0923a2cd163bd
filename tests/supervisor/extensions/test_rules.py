"""What is decided about extensions: ranges, manifests, compatibility, trust, discovery, results."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    ActionRequest,
    ActionResult,
    ActionStatus,
    EnqueueResult,
    ExtensionCapabilities,
    HandlerError,
    HandlerResult,
    LoadErrorCode,
    OriginType,
    TrustStatus,
)
from lifebus_supervisor.extensions.rules.compatibility import check_compatibility
from lifebus_supervisor.extensions.rules.discovery import Entry, Root, discover
from lifebus_supervisor.extensions.rules.dispatch import scope_of
from lifebus_supervisor.extensions.rules.manifest import UnreadableManifest, read_json, read_toml, without_manifest
from lifebus_supervisor.extensions.rules.npm_ranges import (
    UnreadableRange,
    is_within,
    read_npm_range,
    read_version,
)
from lifebus_supervisor.extensions.rules.results import normalise
from lifebus_supervisor.extensions.rules.trust import evaluate_trust, refused_action

REPO, PACKAGE, CONFIGURED = OriginType

# As npm's own documentation of ranges has them.
RANGES = [
    ("^1.2.3", ["1.2.3", "1.9.9"], ["1.2.2", "2.0.0"]),
    ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
    ("^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]),
    ("^1.x", ["1.0.0", "1.9.0"], ["2.0.0", "0.9.0"]),
    ("^0.x", ["0.0.0", "0.9.9"], ["1.0.0"]),
    ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
    ("~1.2.3", ["1.2.3", "1.2.9"], ["1.3.0", "1.2.2"]),
    ("~1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
    ("~1", ["1.0.0", "1.9.9"], ["2.0.0"]),
    ("1.2.3 - 2.3.4", ["1.2.3", "2.3.4"], ["1.2.2", "2.3.5"]),
    ("1.2 - 2.3", ["1.2.0", "2.3.9"], ["1.1.9", "2.4.0"]),
    ("1.2.x", ["1.2.0", "1.2.9"], ["1.3.0"]),
    ("1", ["1.0.0", "1.9.9"], ["2.0.0"]),
    ("*", ["0.0.0", "9.9.9"], []),
    ("", ["0.0.0", "9.9.9"], []),
    (">=1 <2", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]),
    (">1", ["2.0.0"], ["1.0.0", "1.9.9"]),
    (">1.2.3", ["1.2.4"], ["1.2.3"]),
    ("<=1.2", ["1.2.9", "0.1.0"], ["1.3.0"]),
    (">*", [], ["0.0.0", "9.9.9"]),
    ("<2 || >=3", ["1.0.0", "3.0.0"], ["2.5.0"]),
    ("= v1.2.3", ["1.2.3"], ["1.2.4"]),
]


@pytest.mark.parametrize(("text", "inside", "outside"), RANGES)
def test_npm_ranges_hold_what_npm_says(text: str, inside: Sequence[str], outside: Sequence[str]) -> None:
    found = read_npm_range(text)
    assert [one for one in inside if not is_within(read_version(one), found)] == []
    assert [one for one in outside if is_within(read_version(one), found)] == []


@pytest.mark.parametrize("text", ["1.2.3-beta", "latest", ">=1,<2", "1.2.3.4", "^", "01.2.3", "1" * 300, "1 || x y"])
def test_a_range_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UnreadableRange):
        read_npm_range(text)


def test_a_toml_manifest_says_everything_or_its_names_alone() -> None:
    short = read_toml(b'name = "review"')
    assert (short.agent_id, short.display_name, short.version, short.capabilities) == (
        "review",
        "review",
        "0.0.0",
        None,
    )
    whole = read_toml(
        b"""
        name = "review"
        version = "1.2.0"
        agent_id = "reviewer"
        display_name = "Review"
        entrypoint = "main.py"
        [runtime]
        api = ">=1,<2"
        profiles = { lifebus = ">=1" }
        [capabilities]
        events = ["turn.completed"]
        actions = ["*"]
        """
    )
    assert whole.capabilities == ExtensionCapabilities(events=("turn.completed",), actions=("*",))
    assert check_compatibility(whole).compatible


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'name = ""',
        b'name = "a"\nnmae = 1',
        b'name = "a\\u0007"',
        b'name = "a"\n[runtime]\napi = "^1"',
        b'name = "a"\n[capabilities]\nevents = "x"',
        b"\xff",
        b"name = ",
    ],
)
def test_a_toml_manifest_that_says_something_else_is_refused(text: bytes) -> None:
    with pytest.raises(UnreadableManifest):
        read_toml(text)


def json_manifest(**changes: Any) -> bytes:
    whole = {"name": "n", "version": "1", "agentId": "a", "displayName": "d", **changes}
    return msgspec.json.encode({key: value for key, value in whole.items() if value is not ...})


def test_the_specifications_manifest_is_read_as_well() -> None:
    found = read_json(
        json_manifest(
            runtime={"coreApiVersion": 1.7, "coreApiVersionRange": "^1.0.0", "profiles": [{"name": "lifebus"}, {}]},
            entrypoints={"events": " events.mjs "},
            capabilities={"events": [" a ", "", 3], "actions": "x"},
            unknown=1,
        )
    )
    assert found.api_version == 1
    assert found.entrypoint == "events.mjs"
    assert found.capabilities == ExtensionCapabilities(events=("a",))
    assert check_compatibility(found).compatible
    for missing in ("name", "version", "agentId", "displayName"):
        for value in (..., " ", 3):
            with pytest.raises(UnreadableManifest, match=missing):
                read_json(json_manifest(**{missing: value}))


def test_every_demand_that_is_not_met_has_a_reason() -> None:
    profiles = [{"name": "lifebus", "version": "2"}]
    found = read_json(json_manifest(runtime={"coreApiVersion": 2, "coreApiVersionRange": ">=2", "profiles": profiles}))
    checked = check_compatibility(found)
    assert not checked.compatible
    assert len(checked.reasons) == 3
    other = read_json(json_manifest(runtime={"profiles": [{"name": "codex-manager"}]}))
    assert "codex-manager" in check_compatibility(other).reasons[0]
    same = read_json(json_manifest(runtime={"profiles": [{"name": "lifebus", "version": "1"}]}))
    assert check_compatibility(same).compatible
    assert check_compatibility(without_manifest("m")).compatible


def test_trust_warns_denies_or_looks_away_by_its_mode() -> None:
    declared = ExtensionCapabilities(events=("a",), actions=("x",))

    def status(mode: TrustMode, capabilities: ExtensionCapabilities | None, *events: str) -> tuple[str, int]:
        found = evaluate_trust(mode, capabilities, events, module_name="m")
        return found.status.value, len(found.warnings) + len(found.errors)

    assert status(TrustMode.DISABLED, None, "a") == ("accepted", 0)
    assert status(TrustMode.WARN, None, "a", "b") == ("accepted_with_warnings", 3)
    assert status(TrustMode.WARN, declared, "a", "b", "b") == ("accepted_with_warnings", 1)
    assert status(TrustMode.ENFORCED, declared, "a") == ("accepted", 0)
    assert status(TrustMode.ENFORCED, declared, "b") == ("denied", 1)
    assert status(TrustMode.ENFORCED, ExtensionCapabilities(events=("*",)), "b") == ("accepted", 0)
    assert refused_action(TrustMode.WARN, None, "x") is None
    assert refused_action(TrustMode.ENFORCED, declared, "x") is None
    assert refused_action(TrustMode.ENFORCED, declared, "y") is not None
    assert refused_action(TrustMode.ENFORCED, None, "x") is not None
    assert refused_action(TrustMode.ENFORCED, ExtensionCapabilities(actions=("*",)), "y") is None


def test_enforced_trust_pins_the_contents() -> None:
    declared = ExtensionCapabilities()

    def status(trusted: str | None, mode: TrustMode = TrustMode.ENFORCED) -> TrustStatus:
        return evaluate_trust(mode, declared, (), module_name="m", content_hash="sha256:1", trusted_hash=trusted).status

    assert status("sha256:1") is TrustStatus.ACCEPTED
    assert status("sha256:2") is TrustStatus.DENIED
    assert status(None) is TrustStatus.DENIED
    assert status(None, TrustMode.WARN) is TrustStatus.ACCEPTED


Tree = Mapping[str, Sequence[str]]


def listing_of(tree: Tree) -> Any:
    """A listing over folders by path; names that end in `/` are folders, in `@` links."""

    def listing(path: str) -> list[Entry] | None:
        if path not in tree:
            return None
        return [Entry(name.rstrip("/@"), name.endswith("/"), name[-1] not in "/@") for name in tree[path]]

    return listing


def test_discovery_orders_by_precedence_name_and_path() -> None:
    tree = {
        "/c": ["b/", "a/"],
        "/c/a": ["events.py"],
        "/c/b": ["extension.manifest.json"],
        "/r": ["z/", "lib/", ".git/", "linked@", "notes/", "B/"],
        "/r/z": ["extension.toml"],
        "/r/B": ["events.py"],
        "/r/lib": ["events.py"],
        "/r/.git": ["events.py"],
        "/r/notes": ["README"],
        "/p": ["events.py", "lib/"],
        "/p/lib": ["events.py"],
    }
    roots = [Root(CONFIGURED, "/c"), Root(REPO, "/r"), Root(PACKAGE, "/p"), Root(REPO, "/missing"), Root(REPO, "/r")]
    found = discover(roots, listing_of(tree))
    assert [one.path for one in found.candidates] == ["/r/B", "/r/z", "/p/lib", "/p", "/c/a", "/c/b"]
    assert found.errors == ()


def test_a_stronger_roots_extension_shadows_one_of_the_same_name_and_equals_are_a_conflict() -> None:
    tree = {"/r": ["a/"], "/c": ["a/"], "/d": ["a/"]} | {f"/{root}/a": ["events.py"] for root in "rcd"}
    found = discover([Root(CONFIGURED, "/c"), Root(REPO, "/r")], listing_of(tree))
    assert [(one.path, one.shadows) for one in found.candidates] == [("/r/a", ("/c/a",))]
    found = discover([Root(CONFIGURED, "/c"), Root(CONFIGURED, "/d")], listing_of(tree))
    assert [one.path for one in found.candidates] == ["/c/a"]
    assert [(one.extension, one.code) for one in found.errors] == [("a", LoadErrorCode.MODULE_NAME_CONFLICT)]


def test_a_folder_that_two_roots_reach_is_found_once_by_the_stronger() -> None:
    tree = {"/r": ["a/"], "/r/a": ["events.py"]}
    found = discover([Root(CONFIGURED, "/r"), Root(REPO, "/r/a")], listing_of(tree))
    assert [(one.path, one.origin) for one in found.candidates] == [("/r/a", REPO)]


JOB = {"id": "j1", "type": "t", "projectId": "p"}


def told(value: Any, queued: Sequence[str] = ()) -> Any:
    return normalise(value, "m", "e", queued)


def test_what_handlers_return_becomes_one_of_the_four_envelopes() -> None:
    assert told(None) == HandlerResult(module_name="m", event_type="e")
    assert told(7) == HandlerResult(module_name="m", event_type="e", details={"value": 7})
    assert told([1, {"a": 1}]).details == {"value": [1, {"a": 1}]}
    assert told({"free": 1}).details == {"value": {"free": 1}}
    assert told({"kind": "handler_result", "details": {"a": 1}}).details == {"a": 1}
    assert told({"kind": "handler_result", "details": 3}).details is None
    assert told({"kind": "handler_result", "moduleName": "m", "eventType": "other"}).event_type == "e"
    assert told({"kind": "handler_error", "error": "so"}).error == "so"
    request = told({"kind": "action_request", "actionType": "x", "payload": {}, "requestId": "r"})
    assert request == ActionRequest(action_type="x", payload={}, request_id="r")
    queued = told({"status": "already_queued", "job": {**JOB, "attempts": 3}}, ["j1"])
    assert isinstance(queued, EnqueueResult)
    assert (queued.module_name, queued.status.value, queued.job.id) == ("m", "already_queued", "j1")
    assert told({"kind": "enqueue_result", "moduleName": "m", "status": "enqueued", "job": JOB}, ["j1"]).job.type == "t"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"kind": "handler_result", "moduleName": "other"}, "forged_module_name"),
        ({"kind": "action_result", "moduleName": "other", "status": "performed"}, "forged_module_name"),
        ({"kind": "handler_result", "moduleName": 3}, "forged_module_name"),
        ({"kind": "enqueue_result", "status": "enqueued", "job": JOB}, "forged_enqueue_result"),
        ({"status": "enqueued", "job": JOB}, "forged_enqueue_result"),
        ({"status": "queued", "job": JOB}, "invalid_enqueue_result"),
        ({"status": "enqueued", "job": {"id": "j1"}}, "invalid_enqueue_result"),
        ({"kind": "action_requests"}, "unknown_result_kind"),
        ({"kind": None, "a": 1}, None),
        ({"kind": 3}, "unknown_result_kind"),
        ([{"kind": "action_request"}], "several_results"),
    ],
)
def test_what_only_looks_like_a_result_is_an_error(value: Any, code: str | None) -> None:
    found = told(value)
    assert isinstance(found, HandlerResult if code is None else HandlerError)
    assert getattr(found, "code", None) == code
    assert (found.module_name, found.event_type) == ("m", "e")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"kind": "action_request", "actionType": "x"}, "malformed_action_request"),
        ({"kind": "action_request", "actionType": "x", "payload": []}, "malformed_action_request"),
        ({"kind": "action_request", "actionType": " ", "payload": {}}, "malformed_action_request"),
        (
            {"kind": "action_request", "actionType": "x", "payload": {}, "requestId": "r" * 201},
            "malformed_action_request",
        ),
        ({"kind": "action_request", "actionType": "x", "payload": {}, "more": 1}, "malformed_action_request"),
        ({"actionType": "x", "payload": 3}, "malformed_action_request"),
        ({"actionType": "x", "status": "performed"}, "direct_action_result_disallowed"),
        ({"kind": "action_result", "actionType": "x", "status": "failed"}, "direct_action_result_disallowed"),
        ({"kind": "action_result", "details": {"code": "mine", "a": 1}}, "direct_action_result_disallowed"),
    ],
)
def test_a_malformed_request_and_a_claimed_result_are_invalid(value: Any, code: str) -> None:
    found = told(value)
    assert isinstance(found, ActionResult)
    assert found.status is ActionStatus.INVALID
    assert found.details is not None
    assert found.details["code"] == code
    assert found.details.get("a") == value.get("details", {}).get("a")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"context": {"projectId": "p", "sourceSessionId": "s", "threadId": "t", "turnId": "u"}}, ("p", "s", "u")),
        ({"context": {"threadId": "t", "turnId": None}, "session": {"projectId": "p"}}, ("p", "t", None)),
        ({"projectId": "p", "sessionId": "s", "turnId": "u", "threadId": "t"}, ("p", "s", "u")),
        ({"harness_session_id": "h"}, (None, "h", None)),
        ({"context": {"projectId": 3, "threadId": ""}}, (None, None, None)),
        ([1], (None, None, None)),
    ],
)
def test_actions_are_locked_to_what_the_event_names(payload: Any, expected: tuple[str | None, ...]) -> None:
    scope = scope_of(payload)
    assert (scope.project_id, scope.source_session_id, scope.turn_id) == expected

"""Facts that receipts of any event may carry: where it was, who reported it, and what was seen of a client.  Pure."""

from typing import Final

from lifebus_contract.facts.fact import ANY_EVENT, flag, number, text

_CLIENTS: Final = "the broker, in a client's receipt"
_COMMANDS: Final = "the broker, in the receipt of a command that was asked"
_RENEWAL: Final = "the broker, in the receipt of a client of a renewal"
_BACKGROUND: Final = "tests/broker/routing/test_background.py"
_COMMAND_TEST: Final = "tests/integration/test_command_clients.py"
_RENEWAL_TEST: Final = "tests/supervisor/renewal/test_flow.py"
_CORRECTIONS: Final = "tests/supervisor/corrections/test_deliveries.py"

FACTS: Final = (
    text("source_hook", "the hook that reported it, by the harness's own name for it", ANY_EVENT),
    text(
        "cwd",
        "the directory in which the session works: its path, or its name alone, as `privacy.cwd` says "
        "([sessions.md](../sessions.md)); `~` is the home directory",
        ANY_EVENT,
    ),
    text(
        "git_branch",
        "the branch of that directory, as the harness says it",
        ANY_EVENT,
        reporter="files of codex and hermes, with `supervisor.tick`; codex app-server; apps",
        shown_by="tests/adapters/telemetry/test_whereabouts.py",
    ),
    text(
        "title",
        "what somebody called the session; at most 120 characters",
        ANY_EVENT,
        reporter="files of claude, opencode and hermes, with `supervisor.tick`; codex app-server; apps",
        shown_by="tests/adapters/telemetry/test_whereabouts.py",
    ),
    number(
        "harness_sequence",
        "the harness's own number of the event, where it counts them; jumps become `receipt.gap_detected`",
        ANY_EVENT,
        reporter="apps that emit with a sequence",
        shown_by="tests/integration/test_idempotency.py",
    ),
    text(
        "emitter",
        "who reported the event, in the receipt of a client that was asked about it",
        ANY_EVENT,
        reporter=_CLIENTS,
        shown_by=_CORRECTIONS,
    ),
    flag(
        "client_background",
        "the client was asked in the background: the event was recorded before, and others may have followed since",
        ANY_EVENT,
        reporter=_CLIENTS,
        shown_by=_BACKGROUND,
    ),
    number("client_exit_code", "the exit code of the command", ANY_EVENT, reporter=_COMMANDS, shown_by=_COMMAND_TEST),
    text(
        "client_signal",
        "the signal that ended the command: `SIGKILL`",
        ANY_EVENT,
        reporter=_COMMANDS,
        shown_by="tests/transports/processes/test_once.py",
    ),
    text(
        "client_stderr",
        "the end of what the command wrote to its stderr",
        ANY_EVENT,
        reporter=_COMMANDS,
        shown_by=_COMMAND_TEST,
    ),
    text("client_step", "the step that the client was asked for", ANY_EVENT, reporter=_RENEWAL, shown_by=_RENEWAL_TEST),
    text(
        "client_decision",
        "what came of asking the client whether to renew",
        ANY_EVENT,
        "renew none waiting",
        reporter=_RENEWAL,
        shown_by=_RENEWAL_TEST,
    ),
    text(
        "client_reset_path",
        "how the session is reset: the capability that was chosen",
        ANY_EVENT,
        reporter=_RENEWAL,
        shown_by=_RENEWAL_TEST,
    ),
    text(
        "client_payload_id",
        "the payload that carries the continuation",
        ANY_EVENT,
        reporter=_RENEWAL,
        shown_by=_RENEWAL_TEST,
    ),
    number(
        "client_attempt",
        "how often the continuation was handed over, this time included",
        ANY_EVENT,
        reporter=_RENEWAL,
        shown_by=_RENEWAL_TEST,
    ),
    flag(
        "client_after_restart",
        "the renewal was found again by a broker that had just started",
        ANY_EVENT,
        reporter=_RENEWAL,
        shown_by=_RENEWAL_TEST,
    ),
    text(
        "corrects",
        "the receipt that this one takes back: its id ([contract.md](../contract.md#57-corrections))",
        ANY_EVENT,
        reporter="the broker, in a correction",
        shown_by=_CORRECTIONS,
    ),
)
"""Facts of any event.  Others that begin with `client_` are what a client says of itself."""

"""Every error code of lifebus, once: its failure class, its retry class and one plain line.  Pure.

A code names the rule that was broken or the thing that is missing; it never changes its meaning.  Refusals and errors
take their classes from here.  docs/wire-protocol.md, "Error codes", shows the same table.
"""

from typing import Final

from msgspec import Struct

from lifebus_contract.failure import FailureClass, RetryClass, tighten

_INVALID: Final = FailureClass.INVALID_REQUEST
_TOO_LARGE: Final = FailureClass.PAYLOAD_TOO_LARGE
_CONFLICT: Final = FailureClass.STATE_CONFLICT
_TRANSPORT: Final = FailureClass.TRANSPORT_ERROR
_OPERATOR: Final = FailureClass.OPERATOR_REQUIRED
_INTERNAL: Final = FailureClass.INTERNAL_ERROR
_ADAPTER: Final = FailureClass.ADAPTER_UNAVAILABLE
_DEGRADED: Final = FailureClass.CAPABILITY_DEGRADED
_UNSUPPORTED: Final = FailureClass.CAPABILITY_UNSUPPORTED
_REJECTED: Final = FailureClass.PAYLOAD_REJECTED


class ErrorCode(Struct, frozen=True):
    """What one code means.

    `failure_class` is the usual class; `also` are further ones, where the same thing is found by somebody who bears
    another responsibility.  `asked_retry` is set where the code asks for more than its class does.  `temporary` says
    that nothing was done and that the same call may succeed soon.
    """

    failure_class: FailureClass
    meaning: str
    also: tuple[FailureClass, ...] = ()
    asked_retry: RetryClass | None = None
    temporary: bool = False

    @property
    def retry_class(self) -> RetryClass:
        """What a caller may do next, where `failure_class` is the class."""
        return tighten(self.failure_class, self.asked_retry)

    @property
    def failure_classes(self) -> tuple[FailureClass, ...]:
        """Every class the code comes with, the usual one first."""
        return (self.failure_class, *self.also)


_Codes = dict[str, ErrorCode]

_MESSAGES: Final[_Codes] = {
    "against_contract": ErrorCode(_INVALID, "a document breaks a rule of the contract; the field says where"),
    "already_consuming": ErrorCode(_INVALID, "this connection consumes that name already"),
    "already_serving": ErrorCode(_INVALID, "this connection serves as a callback client already"),
    "bad_identifier": ErrorCode(_INVALID, "a name holds characters that cannot be printed, or is too long"),
    "duplicate_key": ErrorCode(_INVALID, "a JSON object holds the same key twice"),
    "integer_range": ErrorCode(_INVALID, "an integer lies beyond 2^53"),
    "invalid_request": ErrorCode(_INVALID, "a hook call cannot be read, and nothing more is known of why"),
    "lone_surrogate": ErrorCode(_INVALID, "a text is not valid Unicode"),
    "malformed": ErrorCode(_INVALID, "the bytes are no message, document or answer"),
    "missing": ErrorCode(_INVALID, "a field that identifies the moment is missing"),
    "no_name": ErrorCode(_INVALID, "that subscription has no name under which a position is kept"),
    "no_such_subscription": ErrorCode(_INVALID, "there is no such subscription"),
    "not_finite": ErrorCode(_INVALID, "a number is infinite or none"),
    "not_json": ErrorCode(_INVALID, "a value that JSON does not have"),
    "oversized": ErrorCode(_INVALID, "a hook's payload is too large to be carried"),
    "schema_version_mismatch": ErrorCode(_INVALID, "the document is of another version of the contract"),
    "too_deep": ErrorCode(_INVALID, "a document is nested too deeply"),
    "too_large": ErrorCode(_INVALID, "a message, document or answer exceeds its limit", also=(_TOO_LARGE,)),
    "trailing_bytes": ErrorCode(_INVALID, "more bytes came than the header says"),
    "too_many_subscriptions": ErrorCode(
        _INVALID, "this peer has as many subscriptions open as it may; it has to end one"
    ),
    "unknown_event": ErrorCode(_INVALID, "the contract knows no such event"),
    "unknown_hook": ErrorCode(_INVALID, "the adapter knows no such hook"),
    "unknown_key": ErrorCode(_INVALID, "a document holds a key that the contract does not know"),
    "unknown_kind": ErrorCode(_INVALID, "there is no such kind of document"),
    "unknown_verb": ErrorCode(_INVALID, "there is no such verb"),
    "version": ErrorCode(_INVALID, "the message is of another version of the wire protocol"),
    "wrong_type": ErrorCode(_INVALID, "a field or record has another type"),
}
"""Messages and documents that cannot be read."""

_BROKER: Final[_Codes] = {
    # `invalid_request` where a hook reads the answer of a broker that turned its call away.
    "busy": ErrorCode(
        _TRANSPORT,
        "a queue is full, or the broker is stopping; nothing was stored, ask again",
        also=(_INVALID,),
        temporary=True,
    ),
    "closed": ErrorCode(
        _TRANSPORT, "the ledger, the broker or the connection is closed; nothing was stored", also=(_INTERNAL,)
    ),
    "disk_full": ErrorCode(_TRANSPORT, "nothing is written until there is room; reading goes on", temporary=True),
    "no_broker": ErrorCode(_TRANSPORT, "no broker answers there"),
    "foreign_broker": ErrorCode(_OPERATOR, "the broker belongs to another user; nothing is sent to it"),
    "no_stream": ErrorCode(_TRANSPORT, "the broker answers, but its receipt stream does not arrive"),
    "unreadable_answer": ErrorCode(_INTERNAL, "a broker's answer cannot be read; what it did is unknown"),
    "batch_too_large": ErrorCode(_TOO_LARGE, "one append holds more than a transaction may"),
    "unrecordable": ErrorCode(_INVALID, "the receipt or record cannot be stored as it is"),
    "frame_ended": ErrorCode(_CONFLICT, "the frame has ended already; a frame's end is recorded once"),
    "duplicate_id_conflict": ErrorCode(_CONFLICT, "the idempotency key was used before with other content"),
    "gap_found": ErrorCode(_CONFLICT, "receipts or signals that were to come are gone; it goes on behind them"),
    "history_pruned": ErrorCode(_CONFLICT, "what was asked for was recorded and is pruned since", also=(_INTERNAL,)),
    # The class is that of the refusal which stopped the rest.
    "partly_recorded": ErrorCode(
        _TRANSPORT,
        "some receipts of an emission without a key are stored, the others are not; read before asking again",
        also=(_INTERNAL, _INVALID, _CONFLICT, _TOO_LARGE),
    ),
}
"""What the broker and its ledger refuse when they are asked to record."""

_ROUTING: Final[_Codes] = {
    "unknown_adapter": ErrorCode(_ADAPTER, "there is no such adapter, or none that reads hooks", also=(_INVALID,)),
    "adapter_version_mismatch": ErrorCode(_ADAPTER, "the adapter has another version"),
    "mode_not_claimed": ErrorCode(_ADAPTER, "the adapter does not claim that integration mode"),
    "duplicate_adapter": ErrorCode(_INVALID, "two adapters have the same id"),
    "taken": ErrorCode(_INVALID, "the id is that of a built-in adapter"),
    "unknown_capability": ErrorCode(_INVALID, "the contract knows no such capability"),
    "requirement_unmet": ErrorCode(_UNSUPPORTED, "a required capability cannot be had", also=(_OPERATOR,)),
    "required_capability_lost": ErrorCode(_DEGRADED, "a capability that is required was lost in mid-session"),
    "placement_unavailable": ErrorCode(
        FailureClass.PLACEMENT_UNAVAILABLE, "a required placement of a payload cannot be had"
    ),
    "payload_too_large": ErrorCode(_TOO_LARGE, "a payload does not fit into the slot that it requires"),
    "duplicate_payload": ErrorCode(_INVALID, "a payload id comes twice in one request"),
    "foreign_payload": ErrorCode(_INVALID, "a payload names another client than the one that sends it"),
    "payload_expired": ErrorCode(_INVALID, "the payload has expired"),
    "unknown_encoding": ErrorCode(_INVALID, "a payload's body has an encoding that is not carried"),
    "body_too_large": ErrorCode(_TOO_LARGE, "a payload's body is larger than a message may carry"),
    "byte_size_mismatch": ErrorCode(_INVALID, "a payload's body has another size than it says"),
    "digest_mismatch": ErrorCode(_INVALID, "a payload's body has another digest than it says"),
    "prompt_blocked": ErrorCode(_REJECTED, "a payload was placed for a prompt that the model never got"),
    "answer_not_taken": ErrorCode(_REJECTED, "a payload was placed in a hook's answer, and the harness did not get it"),
    "context_too_large": ErrorCode(_TOO_LARGE, "what is to be injected exceeds the harness's limit"),
}
"""What is refused before or while an emission is routed."""

_CLIENTS: Final[_Codes] = {
    "bad_answer": ErrorCode(_INVALID, "a callback client's answer is no response", also=(_TRANSPORT,)),
    "configured": ErrorCode(_CONFLICT, "the name is that of a command in the configuration"),
    "crashed": ErrorCode(_TRANSPORT, "a callback client crashed"),
    "deadline": ErrorCode(FailureClass.TIMEOUT, "a callback client did not answer within its deadline"),
    "exit_code": ErrorCode(_TRANSPORT, "a command ended with another exit code than 0"),
    "killed": ErrorCode(_TRANSPORT, "a signal ended a command"),
    "no_answer": ErrorCode(_INVALID, "a command ended without an answer"),
    "not_waiting": ErrorCode(_CONFLICT, "nobody waits for that dispatch: it was answered, or its deadline has passed"),
    "spawn": ErrorCode(_TRANSPORT, "a command cannot be started", asked_retry=RetryClass.RETRY_AFTER_RECONFIGURE),
    "stdin_ignored": ErrorCode(_TRANSPORT, "a command ended without reading what it was asked"),
    "stopped": ErrorCode(_TRANSPORT, "the broker stopped before the client was done"),
    "two_documents": ErrorCode(_INVALID, "a command wrote more than one document"),
    "unasked": ErrorCode(_INVALID, "a command wrote an answer that nobody had asked for"),
    "unreachable": ErrorCode(_TRANSPORT, "a callback client cannot be reached"),
    "worker_gone": ErrorCode(_TRANSPORT, "a worker is not connected any more"),
}
"""Callback clients that fail; each costs its own receipt only."""

_CONSUMERS: Final[_Codes] = {
    "detached": ErrorCode(_TRANSPORT, "this connection does not consume the name; `consume` it again", temporary=True),
    "epoch_changed": ErrorCode(_CONFLICT, "the positions are of another history; the next fetch says what is lost"),
    "no_cursor": ErrorCode(_INVALID, "there is no consumer of that name"),
    "other_filter": ErrorCode(
        _CONFLICT, "the consumer has another filter than the one given; give the same one or none"
    ),
    "replaced": ErrorCode(_CONFLICT, "another connection took the name over, or it was evicted"),
}
"""Named consumers, and names that another connection took."""

_STATE: Final[_Codes] = {
    "no_position": ErrorCode(_INVALID, "there is no receipt at that position", also=(_CONFLICT,)),
    "no_state": ErrorCode(_INVALID, "this ledger keeps no state"),
    "state_gone": ErrorCode(_CONFLICT, "that state is not kept any more; ask without a position"),
    "state_damaged": ErrorCode(_INTERNAL, "a state is not what its digest says"),
    "not_durable": ErrorCode(_INVALID, "the ledger is not kept: nothing is pruned"),
    "no_snapshot": ErrorCode(_INVALID, "there is no such snapshot"),
    "no_revision": ErrorCode(_INVALID, "no revision was written"),
    "no_session": ErrorCode(_INVALID, "no such session is known"),
    "session_ended": ErrorCode(_CONFLICT, "the session has ended already"),
    "session_open": ErrorCode(_CONFLICT, "the session has not ended: only one that is over is forgotten"),
    "session_of_run": ErrorCode(_INVALID, "the session is a run of a flow, which ends by its own commands"),
    "no_compaction": ErrorCode(_INVALID, "there is no such compaction"),
    "compaction_refused": ErrorCode(_INVALID, "the compaction cannot be had"),
    "cold_boot": ErrorCode(_CONFLICT, "a boot stopped at one of its steps; the detail says which and why"),
    "bundle_damaged": ErrorCode(_INVALID, "a snapshot's archive is not what was written"),
    "dump_broken": ErrorCode(_INTERNAL, "a dump of the state cannot be read"),
    "log_broken": ErrorCode(_INTERNAL, "a receipt in the log contradicts those before it"),
    "reducer_version": ErrorCode(_INTERNAL, "the state was made by another version of the reducers"),
}
"""State, snapshots and compactions."""

_FILES: Final[_Codes] = {
    "ledger_damaged": ErrorCode(_INTERNAL, "the ledger's file is not what was written", also=(_INVALID,)),
    "row_damaged": ErrorCode(
        _INTERNAL,
        "a receipt in the ledger's file is not what was written, or is missing",
        asked_retry=RetryClass.RETRY_AFTER_OPERATOR,
    ),
    "ledger_failed": ErrorCode(_INTERNAL, "the ledger stopped after an I/O error, or cannot be read"),
    "ledger_file_system": ErrorCode(_INTERNAL, "the ledger lies on a file system that cannot keep it"),
    "ledger_format": ErrorCode(_INTERNAL, "the ledger's file has a format that this program does not know"),
    "sqlite_too_old": ErrorCode(_INTERNAL, "SQLite is too old to be trusted with a write-ahead log"),
    "export_altered": ErrorCode(_INVALID, "an export is not what was written"),
    "export_damaged": ErrorCode(_INVALID, "an export cannot be read, or is cut off"),
    "exists": ErrorCode(_CONFLICT, "a file is there already"),
    "unreadable": ErrorCode(_INTERNAL, "a file cannot be read or written"),
    "already_running": ErrorCode(_OPERATOR, "another broker holds the directory"),
    "broker_outdated": ErrorCode(_OPERATOR, "another version was installed over the broker, which has to be restarted"),
    "directory_mode": ErrorCode(_OPERATOR, "others may enter a directory that has to be private"),
    "directory_owner": ErrorCode(_OPERATOR, "a directory belongs to another user"),
    "directory_unusable": ErrorCode(_OPERATOR, "a directory cannot be made or opened"),
    "foreign_file": ErrorCode(_OPERATOR, "a file that we rely on is another user's, or others may write to it"),
    "gateway_address": ErrorCode(_OPERATOR, "the gateway cannot listen where it is to"),
    "gateway_certificate": ErrorCode(_OPERATOR, "the gateway's certificate or its key cannot be used, or has expired"),
    "gateway_missing": ErrorCode(_OPERATOR, "the libraries of the gateway are not installed"),
    "no_gateway": ErrorCode(_TRANSPORT, "no broker with a gateway runs there"),
    "gateway_secret": ErrorCode(_OPERATOR, "a file with a secret of the gateway is missing, not private, or too short"),
    "lock_not_held": ErrorCode(_INTERNAL, "the lock of a directory is not held"),
    "not_a_socket": ErrorCode(_OPERATOR, "something that is no socket is in a socket's place"),
    "socket_path_too_long": ErrorCode(_OPERATOR, "a directory's path is too long for a socket"),
}
"""Ledgers, exports, directories and locks."""

_BENEATH: Final[_Codes] = {
    "file_denied": ErrorCode(_OPERATOR, "the system does not let us read or write a file beneath the root"),
    "file_too_large": ErrorCode(_TOO_LARGE, "a file, or a list of files, is larger than is read or written at once"),
    "no_file": ErrorCode(_INVALID, "nothing has that path"),
    "no_root": ErrorCode(_INVALID, "there is no root for files, or it cannot be opened"),
    "not_a_directory": ErrorCode(_INVALID, "a path leads through something that is no directory"),
    "not_a_file": ErrorCode(_INVALID, "a path is not that of a regular file"),
    "not_empty": ErrorCode(_INVALID, "a directory that is to be deleted is not empty"),
    "not_text": ErrorCode(_INVALID, "a file, or the name of one, is no UTF-8"),
    "path_invalid": ErrorCode(_INVALID, "a text is no path, or one that is too long or reserved"),
    "path_is_link": ErrorCode(_INVALID, "a path leads through a symbolic link; none is followed"),
    "path_outside": ErrorCode(_INVALID, "a path leads out of the root: it is absolute, or goes up"),
}
"""Files beneath a root."""

_CHECKPOINTS: Final[_Codes] = {
    "artifact_mismatch": ErrorCode(_INVALID, "a file that a checkpoint refers to is not as the checkpoint says"),
    "checkpoint_damaged": ErrorCode(
        _INTERNAL,
        "a checkpoint's file is not what was written",
        asked_retry=RetryClass.RETRY_AFTER_OPERATOR,
    ),
}
"""Checkpoints."""

_RENEWAL: Final[_Codes] = {
    "bad_expiry": ErrorCode(_INVALID, "a continuation client's answer has no expiry where it should"),
    "claimed": ErrorCode(_CONFLICT, "another session has claimed the continuation"),
    "expired": ErrorCode(_REJECTED, "a token had expired when it came"),
    "lost": ErrorCode(_REJECTED, "a continuation expired, or was handed over too often"),
    "no_thread": ErrorCode(_INVALID, "an answer names no thread", also=(_REJECTED,)),
    "no_token": ErrorCode(_INVALID, "an answer holds no token"),
    "other_thread": ErrorCode(_REJECTED, "an answer names another thread"),
    "pending": ErrorCode(_CONFLICT, "a continuation of this session waits already"),
    "several_continuations": ErrorCode(_OPERATOR, "several continuations wait in the directory"),
    "store_failed": ErrorCode(_TRANSPORT, "the continuation store cannot be used"),
    "store_full": ErrorCode(_TRANSPORT, "too many continuations wait"),
    "token_too_large": ErrorCode(_INVALID, "a token is larger than its profile allows", also=(_TOO_LARGE,)),
    "renewal_capability_degraded": ErrorCode(_DEGRADED, "what a renewal needs became weaker, or is only partial"),
    "renewal_capability_unsupported": ErrorCode(_UNSUPPORTED, "the adapter has no way to renew a session"),
    "renewal_operator_required": ErrorCode(_OPERATOR, "only an operator can reset the session"),
}
"""Renewal and continuations."""

_FLOWS: Final[_Codes] = {
    "compacting": ErrorCode(_CONFLICT, "the session of the step is being compacted already"),
    "compaction_unsupported": ErrorCode(_UNSUPPORTED, "nobody can have the context of the step made smaller"),
    "costs_full": ErrorCode(_INVALID, "a run has more calls or more tokens than can be counted"),
    "flow_invalid": ErrorCode(_INVALID, "a flow file has mistakes, all of which are named"),
    "log_full": ErrorCode(_INVALID, "the log of a run takes no more events, or no event of this size"),
    "no_harness_session": ErrorCode(_CONFLICT, "no session of a harness is known of the step"),
    "no_output": ErrorCode(_INVALID, "nothing is kept of what the try wrote, or it was not tried yet"),
    "no_prices": ErrorCode(_INVALID, "the extra `lifebus[prices]` is not installed; the calls are counted as unpriced"),
    "no_run": ErrorCode(_INVALID, "there is no such run"),
    "no_step": ErrorCode(_INVALID, "the run has no such step"),
    "not_owner": ErrorCode(_CONFLICT, "another one runs it by now"),
    "not_retriable": ErrorCode(_CONFLICT, "the step is not in a state from which it can be tried again"),
    "root_taken": ErrorCode(_CONFLICT, "another run, or its owner, holds the root of the project"),
    "run_exists": ErrorCode(_CONFLICT, "the id is that of another run"),
    "run_over": ErrorCode(_CONFLICT, "the run has ended"),
    "session_in_use": ErrorCode(_CONFLICT, "a try runs that has the session, or goes on from it"),
    "unknown_model": ErrorCode(_INVALID, "no price is known for the model; its calls are counted as unpriced"),
}
"""Runs of flows."""

_QUESTIONS: Final[_Codes] = {
    "action_not_allowed": ErrorCode(_INVALID, "the question does not allow that answer"),
    "already_answered": ErrorCode(_CONFLICT, "the question was answered before; the detail says by whom, when and how"),
    "link_refused": ErrorCode(_INVALID, "an answer link is not one of this broker, was changed, or has expired"),
    "no_question": ErrorCode(_INVALID, "there is no such question"),
    "not_modifiable": ErrorCode(_INVALID, "an answer modifies what the question does not let it, or by a wrong value"),
    "other_question": ErrorCode(_CONFLICT, "another question has the id"),
    "question_settled": ErrorCode(_CONFLICT, "the question was settled so long ago that its answer is not kept"),
    "question_withdrawn": ErrorCode(_CONFLICT, "the question was withdrawn: nobody waits for an answer"),
}
"""Questions to people, and their answers."""

_QUEUE: Final[_Codes] = {
    "invalid_payload": ErrorCode(_INVALID, "the payload of a job does not fit its type"),
    "job_exists": ErrorCode(_CONFLICT, "the id, or the key, is that of another job"),
    "job_not_retriable": ErrorCode(_CONFLICT, "only a job that failed or was canceled can be retried"),
    "job_over": ErrorCode(_CONFLICT, "the job has ended already"),
    "no_job": ErrorCode(_INVALID, "there is no such job"),
    "queue_full": ErrorCode(_TRANSPORT, "as many jobs wait or run as may; some have to end first", temporary=True),
    "queue_off": ErrorCode(_CONFLICT, "the queue is turned off by the settings"),
    "unknown_job_type": ErrorCode(_CONFLICT, "nobody does jobs of this type"),
}
"""The queue of jobs."""

_APPROVALS: Final[_Codes] = {
    "app_server_unreachable": ErrorCode(_TRANSPORT, "no app-server of it can be reached now; nothing was sent"),
    "approval_settled": ErrorCode(_CONFLICT, "the approval was decided before, or its turn is over"),
    "no_approval": ErrorCode(_INVALID, "no app-server waits for an approval of this id"),
    "outcome_unknown": ErrorCode(
        FailureClass.TIMEOUT, "it was sent to the app-server, which has not said whether it took it"
    ),
    "system_session": ErrorCode(_OPERATOR, "the session belongs to a worker of the broker"),
}
"""Approvals that app-servers wait for."""

_TRANSCRIPTS: Final[_Codes] = {
    "missing_suggestion": ErrorCode(_INVALID, "a suggested request that is complete has a text"),
    "no_suggested_request": ErrorCode(_INVALID, "nobody has written a suggested request of this key"),
    "no_suggestion": ErrorCode(_CONFLICT, "no extension queued a job that suggests a request"),
    "session_deleted": ErrorCode(
        _CONFLICT,
        "the session was deleted; nothing of it is kept and nothing is taken",
        asked_retry=RetryClass.DO_NOT_RETRY,
    ),
}
"""Transcripts."""

_SETTINGS: Final[_Codes] = {
    "configuration": ErrorCode(_INTERNAL, "a setting is wrong, or rules out what was asked for", also=(_OPERATOR,)),
    "manifest_invalid": ErrorCode(_INVALID, "a manifest breaks the contract"),
    "manifest_unreadable": ErrorCode(_INVALID, "a manifest cannot be read"),
    "file_busy": ErrorCode(_OPERATOR, "another program kept changing the file"),
    "file_refused": ErrorCode(_OPERATOR, "a file or its directory is not ours to write"),
    "no_service_manager": ErrorCode(_OPERATOR, "neither systemd nor launchd runs programs for this user"),
    "service_failed": ErrorCode(_OPERATOR, "the service manager refused, or the service did not start"),
    "install_refused": ErrorCode(_OPERATOR, "an installation stops; the detail says why"),
    "settings_conflict": ErrorCode(_OPERATOR, "a harness's settings have no room for ours"),
    "settings_unreadable": ErrorCode(_OPERATOR, "a harness's settings cannot be read with certainty"),
}
"""Configuration and installation."""

_EXTENSIONS: Final[_Codes] = {
    "unknown_extension": ErrorCode(_INVALID, "no root holds an extension of this name"),
    "unsafe_extension": ErrorCode(_INVALID, "an extension's folder is another user's, holds a link, or is too large"),
    "extension_changed": ErrorCode(_CONFLICT, "an extension's files are not those that were named"),
    "tools_closed": ErrorCode(_INVALID, "the handler has settled, and its tools are closed"),
    "tool_unavailable": ErrorCode(_UNSUPPORTED, "this broker has no such tool"),
    "undeclared_capability": ErrorCode(_UNSUPPORTED, "the extension's manifest does not declare what it asks for"),
}
"""Extensions (docs/extensions.md)."""

GROUPS: Final[dict[str, _Codes]] = {
    "Messages and documents": _MESSAGES,
    "Recording": _BROKER,
    "Routing": _ROUTING,
    "Callback clients": _CLIENTS,
    "Consumers": _CONSUMERS,
    "State and snapshots": _STATE,
    "Files and directories": _FILES,
    "Files beneath a root": _BENEATH,
    "Checkpoints": _CHECKPOINTS,
    "Renewal": _RENEWAL,
    "Questions to people": _QUESTIONS,
    "Flows": _FLOWS,
    "The queue": _QUEUE,
    "Approvals": _APPROVALS,
    "Transcripts": _TRANSCRIPTS,
    "Extensions": _EXTENSIONS,
    "Settings and installation": _SETTINGS,
}
"""The table by subject, in the order of the documentation."""

CODES: Final[_Codes] = {code: error_code for group in GROUPS.values() for code, error_code in group.items()}
"""Every error code."""

TEMPORARY: Final = frozenset(code for code, error_code in CODES.items() if error_code.temporary)
"""Codes of refusals that did nothing, so that the same call may succeed soon."""

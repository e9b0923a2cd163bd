"""What the telemetry files of a session say of its context window, and how the files themselves are.  Pure."""

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Fact, SessionClosed, TurnStarted, Usage, WindowKnown


class TelemetryState(Struct, frozen=True, kw_only=True):
    """The newest numbers, and the health of the files.  Ticks are numbers of the tick loop, times monotonic seconds."""

    # The newest usage of the context; None where the context was rewritten since, and not measured again.
    usage: Usage | None = None
    # The kind of source that the newest usage comes from.
    usage_from: str = ""
    # The tick of the first usage: a window may be reported a moment later.
    first_usage_tick: int | None = None
    # The window (tokens, source) that the harness reported by itself, apart from any usage.
    declared_window: tuple[int, str] | None = None
    # The last window (tokens, source) that came with a usage; it holds until another one comes.
    last_window: tuple[int, str | None] | None = None
    # The model that it is the window of, where that is known.
    last_model: str | None = None
    # How many unreadable records stand in a row at the end of each file, by path; the last file to report stands last.
    files: dict[str, int] = {}
    # When a file last grew.
    grown_at: float | None = None
    # Consecutive ticks without the session's file.
    missing_polls: int = 0
    # Consecutive ticks in which the file system did not answer.
    hung_polls: int = 0
    # The evidence for the last problem, for receipts.
    problem: str = ""
    # What shows that the harness has let the session go, and the tick in which that was seen.
    closed: tuple[str, int] | None = None
    # Whether the session began under supervision: then nothing in its files is old.
    is_new: bool = False
    # Whether nothing but old records of a file is known of the session: nothing is recorded of it then.
    only_history: bool = False

    @property
    def has_reported(self) -> bool:
        """Whether a file or a hook has said anything of the context that may not be on record yet."""
        return bool(self.files) or self.usage is not None

    @property
    def has_numbers(self) -> bool:
        """Whether a usage or a window is known."""
        return self.usage is not None or self.declared_window is not None or self.last_window is not None

    @property
    def unreadable(self) -> int:
        """How many unreadable records stand in a row at the end of one of its files."""
        return max(self.files.values(), default=0)

    @property
    def newest_file(self) -> str | None:
        """The path of the file that reported last."""
        return next(reversed(self.files), None)

    def window_of(self, usage: Usage) -> tuple[int | None, str | None]:
        """Return the window of a usage and its source.

        What the user set goes first, then what the harness reported by itself, then what came with the usage; else the
        last window counts that came with another usage of the same model.
        """
        own = (usage.window_tokens, usage.window_source) if usage.window_tokens else None
        last = self.last_window
        for window in (own, last):
            if window is not None and (window[1] or "").startswith("override"):
                return window
        if own is None and None not in {usage.model, self.last_model} and usage.model != self.last_model:
            last = None  # another model's window says nothing about this one's
        return self.declared_window or own or last or (None, None)


def on_fact(state: TelemetryState, fact: Fact, tick: int, source: str = "") -> TelemetryState:
    """Take the numbers of one fact and the kind of source it stood in; facts without any change nothing."""
    match fact:
        case Usage():
            return _on_usage(state, fact, tick, source)
        case SessionClosed():
            return structs.replace(state, closed=(fact.evidence, tick))
        case TurnStarted() if state.closed is not None:
            return structs.replace(state, closed=None)
        case WindowKnown():
            return structs.replace(state, declared_window=(fact.window_tokens, fact.window_source))
        case _:
            return state


def _on_usage(state: TelemetryState, usage: Usage, tick: int, source: str) -> TelemetryState:
    if usage.window_tokens:
        last: tuple[int, str | None] = (usage.window_tokens, usage.window_source)
        state = structs.replace(state, last_window=last, last_model=usage.model)
    first = tick if state.first_usage_tick is None else state.first_usage_tick
    return structs.replace(state, usage=usage, usage_from=source, first_usage_tick=first)


def on_rewritten(state: TelemetryState, source: str | None = None) -> TelemetryState:
    """Take that the context was rewritten: what was measured before is over; with a `source`, what it measured."""
    if state.usage is None or source not in {None, state.usage_from}:
        return state
    return structs.replace(state, usage=None, usage_from="")


def numbers_of(state: TelemetryState) -> TelemetryState:
    """Return the numbers alone, for a session that is forgotten: its files are read on, and not again."""
    return TelemetryState(
        usage=state.usage,
        usage_from=state.usage_from,
        first_usage_tick=state.first_usage_tick,
        declared_window=state.declared_window,
        last_window=state.last_window,
        last_model=state.last_model,
    )


def on_new_session(state: TelemetryState) -> TelemetryState:
    """Take that the session has just begun, and was not there before."""
    return structs.replace(state, is_new=True)


def on_life(state: TelemetryState) -> TelemetryState:
    """Take that the harness reports: it has not let the session go, or has taken it up again."""
    return state if state.closed is None else structs.replace(state, closed=None)


def on_read(state: TelemetryState, path: str, unreadable_run: int, *, has_facts: bool) -> TelemetryState:
    """Take a read of a file that ended with `unreadable_run` unreadable records."""
    files = dict(state.files)
    if has_facts or path not in files:
        files.pop(path, None)  # dictionaries keep their order: what reported last has to stand last
    files[path] = unreadable_run
    return structs.replace(state, files=files)


def on_problem(state: TelemetryState, evidence: str) -> TelemetryState:
    """Take what shows that a file, or its last record, cannot be read."""
    return structs.replace(state, problem=evidence)


def on_growth(state: TelemetryState, now: float) -> TelemetryState:
    """Take that a file grew."""
    return structs.replace(state, grown_at=now)


def on_polled(state: TelemetryState, *, missing: bool, hung: bool) -> TelemetryState:
    """Count one tick with or without the session's file."""
    missing_polls = state.missing_polls + 1 if missing else 0
    hung_polls = state.hung_polls + 1 if hung else 0
    if (missing_polls, hung_polls) == (state.missing_polls, state.hung_polls):
        return state
    return structs.replace(state, missing_polls=missing_polls, hung_polls=hung_polls)


def with_history_only(state: TelemetryState, only_history: bool) -> TelemetryState:
    """Return the state of a session of which nothing but old records is known, or something more."""
    return state if state.only_history is only_history else structs.replace(state, only_history=only_history)

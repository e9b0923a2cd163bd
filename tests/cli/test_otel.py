"""`lifebus otel` against a collector that is a process: failures, kills, restarts, and what never leaves."""

import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import lifebus.blocking
from lifebus_broker.trace_context import dispatch_span, session_trace, turn_trace
from lifebus_contract import FrameClass, FrameContext, Receipt
from lifebus_supervisor.traces.session_spans import SessionSpans
from lifebus_supervisor.traces.spans import TraceSpan
from support.collectors import Collector, collecting, values
from support.command_line import Shell, broker_up
from support.fork_server import Process
from support.running import short_directory

SECRET = "xyzzy-the-prompt-itself"


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell beside a broker."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            yield shell


@contextmanager
def exporting(shell: Shell, *words: str, **environ: str) -> Generator[Process]:
    """`lifebus otel` while it runs, ready at the beginning of the block."""
    with shell.started("otel", *words, environment={**shell.environment, **environ}) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("exporting to"), line
        yield process


def emit(shell: Shell, *steps: tuple[str, str | None], session: str = "s1", **facts: str) -> list[Receipt]:
    """Have events recorded: of the session, or of a frame of it."""
    with lifebus.blocking.connect("filler", runtime_dir=shell.directory / "run") as bus:
        found: list[Receipt] = []
        for event, frame in steps:
            context = None if frame is None else FrameContext(frame_id=frame, frame_class=FrameClass.TOP_LEVEL)
            request = lifebus.make_request(event, "codex", session=session, frame=context)
            found += bus.emit(lifebus.Emission(request=request, telemetry=dict(facts))).receipts
        return found


def turn(frame: str) -> tuple[tuple[str, str | None], ...]:
    return ("frame.opening", frame), ("frame.ended", frame)


def expected(receipts: Sequence[Receipt]) -> list[TraceSpan]:
    """Return the spans that receipts of one session become."""
    spans = SessionSpans("codex", "s1")
    return [span for number, one in enumerate(receipts, 1) for span in spans.apply(one, number).spans]


def until_traced(collector: Collector, wanted: Sequence[TraceSpan]) -> None:
    """Wait until a collector has taken some spans, and see that it has no others."""
    ids = {span.context.span_id for span in wanted}
    while not ids <= {span.span_id for span in collector.spans}:
        collector.next()
        assert {span.span_id for span in collector.spans} <= ids


def until_logged(collector: Collector, count: int) -> None:
    while len({values(list(one.attributes))["log.record.uid"] for one in collector.records}) < count:
        collector.next()


def test_a_turn_is_a_trace_whatever_fails_on_the_way(shell: Shell) -> None:
    plan = "503+0,hang-up,429+0,500+0,200,502+0"
    with collecting(plan) as collector, exporting(shell, "--from", "start", "--endpoint", collector.url):
        receipts = emit(shell, ("session.started", None), *turn("turn-1"), *turn("turn-2"))
        receipts += emit(shell, ("session.ended", None))
        until_traced(collector, expected(receipts))
        until_logged(collector, len(receipts))
        spans = {span.name: span for span in collector.spans}
        session = spans["session codex"]
        assert session.trace_id == session_trace("codex", "s1")
        turns = {span.trace_id for span in collector.spans if span.name == "invoke_agent codex"}
        assert turns == {turn_trace("codex", "s1", f"turn-{number}") for number in (1, 2)}
        assert all(link.span_id == session.span_id for link in spans["invoke_agent codex"].links)
        assert [one.event_name for one in collector.records] == [f"lifebus.{one.event.value}" for one in receipts]
        assert {one.status for one in collector.requests} >= {503, 0, 429, 500, 502, 200}
        assert collector.requests[-1].origin["service.name"] == "lifebus"


def test_a_turn_that_is_open_over_a_kill_of_each_is_one_span(shell: Shell) -> None:
    words = ("--from", "start", "--name", "o1", "--endpoint")
    with collecting() as collector:
        port = collector.port
        with exporting(shell, *words, collector.url) as process:
            receipts = emit(shell, ("session.started", None), ("frame.opening", "turn-1"))
            until_logged(collector, 2)
            process.kill()
            process.wait()
    # The collector is away, the relay starts anew, and the turn ends meanwhile.
    with exporting(shell, *words, f"http://127.0.0.1:{port}") as process:
        receipts += emit(shell, ("frame.ended", "turn-1"), ("session.ended", None))
        assert process.stderr is not None
        assert b"cannot be reached" in process.stderr.readline()
        with collecting(port=port) as again:
            until_traced(again, expected(receipts))
            (one,) = [span for span in again.spans if span.name.startswith("invoke_agent")]
            (wanted,) = [span for span in expected(receipts) if span.name.startswith("invoke_agent")]
            assert (one.start_time_unix_nano, one.end_time_unix_nano) == (
                wanted.start_ms * 1_000_000,
                wanted.end_ms * 1_000_000,
            )
            assert one.links[0].span_id == expected(receipts)[-1].context.span_id


def test_a_restart_of_the_broker_loses_no_span(shell: Shell) -> None:
    with short_directory() as directory:
        other = Shell(directory)
        with collecting() as collector:
            with broker_up(other):
                receipts = emit(other, ("session.started", None), ("frame.opening", "turn-1"))
            with broker_up(other), exporting(other, "--from", "start", "--endpoint", collector.url):
                receipts += emit(other, ("frame.ended", "turn-1"), ("session.ended", None))
                until_traced(collector, expected(receipts))


def test_what_comes_again_is_the_same_span(shell: Shell) -> None:
    receipts = emit(shell, ("session.started", None), *turn("turn-1"), ("session.ended", None))
    found: list[list[bytes]] = []
    for name in ("first", "second"):
        with (
            collecting() as collector,
            exporting(shell, "--from", "start", "--name", name, "--endpoint", collector.url),
        ):
            until_traced(collector, expected(receipts))
            found.append(sorted(span.SerializeToString() for span in collector.spans))
    assert found[0] == found[1]


def test_a_dispatch_is_the_span_that_its_client_was_told(shell: Shell) -> None:
    with short_directory() as place:
        script = place / "client.sh"
        script.write_text(
            f'read -r line; echo "$TRACEPARENT" >> {place}/told\n'
            'echo \'{"schema_version":"lifeloop.v0.2","status":"observed"}\'\n'
        )
        with (
            shell.started("serve", "--event", "frame.opening", "--client", "notes", "--", "sh", str(script)) as serving,
            collecting() as collector,
            exporting(shell, "--from", "start", "--endpoint", collector.url),
        ):
            assert serving.stderr is not None
            serving.stderr.readline()
            receipts = emit(shell, ("session.started", None), *turn("turn-1"))
            until_traced(collector, expected(receipts))
            (asked,) = [one for one in receipts if one.client_id == "notes"]
            (span,) = [one for one in collector.spans if one.name == "dispatch notes"]
            told = (place / "told").read_text().split()
        context = dispatch_span(asked, asked.telemetry_summary, "notes")
        assert (span.trace_id, span.span_id) == (context.trace_id, context.span_id)
        assert told == [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"]
        (around,) = [one for one in collector.spans if one.name == "invoke_agent codex"]
        assert (span.parent_span_id, span.trace_id) == (around.span_id, around.trace_id)


def test_no_text_leaves(shell: Shell) -> None:
    """Titles, directories, what apps say of themselves, and bodies of payloads."""
    facts = {"title": SECRET, "evidence": SECRET, "cwd": f"/home/{SECRET}", "mine": SECRET, "model": f"a {SECRET}"}
    payload = lifebus.make_payload("filler", SECRET)
    with collecting() as collector, exporting(shell, "--from", "start", "--endpoint", collector.url):
        receipts = emit(shell, ("session.started", None), ("frame.opening", "turn-1"), **facts)
        with lifebus.blocking.connect("filler", runtime_dir=shell.directory / "run") as bus:
            context = FrameContext(frame_id="turn-1", frame_class=FrameClass.TOP_LEVEL)
            request = lifebus.make_request("frame.opened", "codex", session="s1", frame=context)
            receipts += bus.emit(lifebus.Emission(request=request, payloads=(payload,))).receipts
        receipts += emit(shell, ("frame.ended", "turn-1"), ("session.ended", None), **facts)
        until_traced(collector, expected(receipts))
        until_logged(collector, len(receipts))
    assert SECRET in str([one.telemetry_summary for one in receipts])
    assert [one for one in collector.requests if SECRET.encode() in one.body] == []
    assert [one for one in collector.records if one.HasField("body")] == []


def test_what_a_collector_refuses_for_good_is_said_and_not_sent_again(shell: Shell) -> None:
    with (
        collecting("partial,400") as collector,
        exporting(shell, "--from", "start", "--endpoint", collector.url, OTEL_LOGS_EXPORTER="none") as process,
    ):
        assert process.stderr is not None
        for number in (1, 2):
            emit(shell, *turn(f"turn-{number}"))
            while len([one for one in collector.requests if one.spans]) < number:
                collector.next()
        first, second = process.stderr.readline().decode(), process.stderr.readline().decode()
        assert "refused 1 spans" in first
        assert "too many attributes" in first
        assert "answered 400" in second
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_backend_of_traces_alone_gets_them_and_no_logs(shell: Shell) -> None:
    receipts = emit(shell, *turn("turn-1"))
    with (
        collecting("200,404") as collector,
        exporting(shell, "--from", "start", "--endpoint", collector.url) as process,
    ):
        assert process.stderr is not None
        assert "takes no log records" in process.stderr.readline().decode()
        receipts += emit(shell, *turn("turn-2"))
        until_traced(collector, expected(receipts))
    assert {one.path for one in collector.requests if one.status == 200} == {"/v1/traces"}


@pytest.mark.parametrize("steps", [turn("turn-1"), (("session.started", None),)])
def test_a_wrong_address_is_said_and_nothing_counts_as_sent(shell: Shell, steps: tuple[tuple[str, str | None]]) -> None:
    receipts = emit(shell, *steps)
    with collecting() as collector, exporting(shell, "--from", "start", "--endpoint", f"{collector.url}/no") as process:
        assert process.stderr is not None
        assert "answered 404" in process.stderr.readline().decode()
    with collecting() as collector, exporting(shell, "--endpoint", collector.url):
        until_logged(collector, len(receipts))
        until_traced(collector, expected(receipts))


def test_what_is_too_large_is_sent_in_halves(shell: Shell) -> None:
    receipts = emit(shell, ("session.started", None), *turn("turn-1"), *turn("turn-2"), ("session.ended", None))
    wanted = expected(receipts)
    # Three spans, then the first of them, then the others: only what is too large alone is given up.
    with (
        collecting("413,413,200,413") as collector,
        exporting(shell, "--from", "start", "--endpoint", collector.url) as process,
    ):
        until_logged(collector, len(receipts))
        assert process.stderr is not None
        assert "refused 1 spans" in process.stderr.readline().decode()
    assert [len(one.spans) for one in collector.requests if one.spans] == [3, 1, 2]
    assert {span.span_id for span in collector.spans} == {span.context.span_id for span in wanted[1:]}
    assert len(collector.records) == len(receipts)


def test_the_variables_of_opentelemetry_are_heeded(shell: Shell, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("authorization=Basic%20abc\nx-scope=mine\n")
    with (
        collecting() as collector,
        exporting(
            shell,
            *("--from", "start", "--headers-file", str(headers)),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_LOGS_EXPORTER="none",
            OTEL_SERVICE_NAME="laptop",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=home,service.name=not-this",
        ),
    ):
        receipts = emit(shell, *turn("turn-1"))
        until_traced(collector, expected(receipts))
    assert {one.path for one in collector.requests} == {"/v1/traces"}
    request = collector.requests[-1]
    assert (request.headers["authorization"], request.headers["x-scope"]) == ("Basic abc", "mine")
    assert request.headers["content-encoding"] == "gzip"
    assert (request.origin["service.name"], request.origin["deployment.environment.name"]) == ("laptop", "home")


@pytest.mark.parametrize(
    ("words", "environ", "why"),
    [
        (("--endpoint", "nowhere"), {}, "--endpoint"),
        (("--endpoint", "http://example.org:4318"), {}, "--insecure"),
        ((), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        ((), {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
        ((), {"OTEL_EXPORTER_OTLP_HEADERS": f"{SECRET}"}, "OTEL_EXPORTER_OTLP_HEADERS"),
        ((), {"OTEL_EXPORTER_OTLP_HEADERS": f"a=b%0d%0a{SECRET}"}, "no header of HTTP"),
        ((), {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}, "nothing is left"),
        ((), {"OTEL_RESOURCE_ATTRIBUTES": "x"}, "OTEL_RESOURCE_ATTRIBUTES"),
    ],
)
def test_what_cannot_be_done_is_refused(
    shell: Shell, words: tuple[str, ...], environ: dict[str, str], why: str
) -> None:
    ran = Shell(shell.directory, **environ).call("otel", *words)
    assert (ran.code, why in ran.err, SECRET in ran.err) == (2, True, False), ran.err


def test_a_file_of_headers_that_is_not_there_is_said_at_the_start(shell: Shell) -> None:
    ran = shell.call("otel", "--headers-file", "nope")
    assert (ran.code, "--headers-file: nope" in ran.err) == (74, True), ran.err


def test_without_the_extra_it_says_what_to_install(shell: Shell, tmp_path: Path) -> None:
    package = tmp_path / "opentelemetry"
    package.mkdir()
    (package / "__init__.py").write_text("raise ModuleNotFoundError(name='opentelemetry.proto')\n")
    ran = shell.run("otel", smoke=True, PYTHONPATH=str(tmp_path))
    assert (ran.code, "pip install 'lifebus[otel]'" in ran.err) == (2, True), ran.err

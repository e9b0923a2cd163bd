"""The variables of OpenTelemetry: where signals go, with which headers, and what is refused."""

import pytest

from lifebus_supervisor.traces.endpoints import endpoints, parse_headers, resource

OWN = "OTEL_EXPORTER_OTLP_"


def urls(environ: dict[str, str], base: str | None = None) -> list[str]:
    return [one.url for one in endpoints(environ, base, None)]


def test_without_anything_said_a_collector_on_this_machine_is_meant() -> None:
    first, second = endpoints({}, None, None)
    assert (first.url, second.url) == ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/logs")
    assert (first.headers, first.gzip, first.seconds) == ({}, False, 10)


@pytest.mark.parametrize(
    ("environ", "base", "traces"),
    [
        ({f"{OWN}ENDPOINT": "https://c.example/otlp/"}, None, "https://c.example/otlp/v1/traces"),
        ({f"{OWN}TRACES_ENDPOINT": "https://c.example/mine"}, None, "https://c.example/mine"),
        ({f"{OWN}TRACES_ENDPOINT": ""}, None, "http://localhost:4318/v1/traces"),
        ({f"{OWN}TRACES_ENDPOINT": "https://c.example/mine"}, "http://localhost:1", "http://localhost:1/v1/traces"),
        ({f"{OWN}ENDPOINT": "https://c.example"}, "http://localhost:1/", "http://localhost:1/v1/traces"),
    ],
)
def test_the_address_is_that_of_the_flag_then_of_the_signal_then_of_all(
    environ: dict[str, str], base: str | None, traces: str
) -> None:
    assert urls(environ, base)[0] == traces


def test_each_signal_has_what_is_said_of_it_alone() -> None:
    environ = {
        f"{OWN}HEADERS": "a=1, b=two%20words",
        f"{OWN}LOGS_HEADERS": "c=3",
        f"{OWN}LOGS_COMPRESSION": "gzip",
        f"{OWN}TRACES_TIMEOUT": "250",
        f"{OWN}PROTOCOL": "http/protobuf",
    }
    traces, logs = endpoints(environ, None, None)
    assert (traces.headers, traces.gzip, traces.seconds) == ({"a": "1", "b": "two words"}, False, 0.25)
    assert (logs.headers, logs.gzip, logs.seconds) == ({"c": "3"}, True, 10)
    assert endpoints(environ, None, "d=4")[0].headers == {"d": "4"}


@pytest.mark.parametrize(("name", "left"), [("TRACES", "logs"), ("LOGS", "traces")])
def test_a_signal_is_turned_off(name: str, left: str) -> None:
    assert [one.signal for one in endpoints({f"OTEL_{name}_EXPORTER": "none"}, None, None)] == [left]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENDPOINT", "collector:4318"),
        ("ENDPOINT", "ftp://c.example"),
        ("ENDPOINT", "http://[::1"),
        ("ENDPOINT", "http://c.example/a b"),
        ("LOGS_ENDPOINT", "http://"),
        ("PROTOCOL", "grpc"),
        ("TRACES_PROTOCOL", "http/json"),
        ("COMPRESSION", "zstd"),
        ("TIMEOUT", "0"),
        ("TIMEOUT", "10s"),
        ("HEADERS", "a"),
        ("HEADERS", "a b=1"),
        ("LOGS_HEADERS", "a=1%0d%0ab:2"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{OWN}{name}: "):
        endpoints({f"{OWN}{name}": value}, None, None)


def test_headers_of_a_file_stand_on_lines() -> None:
    assert parse_headers("a=1\n\nb=x=y\n", "here") == {"a": "1", "b": "x=y"}


def test_the_origin_is_what_variables_say() -> None:
    assert resource({}, "1.2") == {"service.name": "lifebus", "service.version": "1.2"}
    given = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,host.name=my%2Chost", "OTEL_SERVICE_NAME": "b"}
    assert resource(given, "1.2") == {"service.name": "b", "service.version": "1.2", "host.name": "my,host"}

"""What children write becomes lines of the log: whole ones, bounded, and without secrets."""

from lifebus_transports.processes.output_lines import OutputLines


def test_lines_come_whole_and_bounded_and_without_secrets() -> None:
    lines: list[str] = []
    output = OutputLines(lines.append)
    for piece in (b"one\ntw", b"o\n", b"password=hunter2hunter2\n", b"x" * 5_000, b"\nlast \xff\n", b"unfinished"):
        output.take(piece)
    assert lines[:2] == ["one", "two"]
    assert "hunter2" not in lines[2]
    assert lines[3] == "[5000 bytes]"
    assert lines[4] == "last \ufffd"
    assert len(lines) == 5

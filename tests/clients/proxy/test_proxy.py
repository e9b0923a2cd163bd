"""What passes through `lifebus app-server tee` and `run` passes unchanged, and they end as the program behind them."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.clients.proxy_box import CAT, ProxyBox, eventually, proxy_box, python, read_exactly, write_all
from support.patience import PATIENCE_S
from support.terminals import interrupted, listener

JUNK = bytes(range(256)) * 300 + b"\xff\xfe\n\x00{\n" + b"\n\n{]" + b"\xc3"


@pytest.fixture(params=["tee", "run"])
def box(request: pytest.FixtureRequest) -> Iterator[ProxyBox]:
    with proxy_box(request.param, blind=True) as found:
        yield found


@pytest.fixture
def tee() -> Iterator[ProxyBox]:
    with proxy_box(blind=True) as found:
        yield found


def write_each(process: "subprocess.Popen[bytes]", pieces: list[bytes]) -> None:
    for piece in pieces:
        write_all(process, piece)


def test_bytes_exit_code_and_stderr_are_the_programs(box: ProxyBox) -> None:
    program = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.stderr.write('oops\\n'); sys.exit(3)"
    assert box.run(python(program), JUNK) == (3, JUNK, b"oops\n")


def test_what_comes_in_any_pieces_goes_out_as_it_came(tee: ProxyBox) -> None:
    with tee.started(CAT) as process:

        @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(
            st.lists(st.binary(min_size=1, max_size=3_000) | st.sampled_from([JUNK, b"\n", b"x" * 200_000]), max_size=6)
        )
        def check(pieces: list[bytes]) -> None:
            sent = b"".join(pieces)
            writer = threading.Thread(target=write_each, args=(process, pieces))
            writer.start()
            assert read_exactly(process, len(sent)) == sent
            writer.join(PATIENCE_S)

        check()


def test_100_megabytes_pass_whole_and_the_memory_stays_flat(tee: ProxyBox) -> None:
    block, blocks = os.urandom(1_048_576), 100
    with tee.started(CAT) as process:
        assert process.stdin is not None
        writer = threading.Thread(target=write_each, args=(process, [block] * blocks))
        writer.start()
        for _ in range(blocks):
            assert read_exactly(process, len(block)) == block
        writer.join(PATIENCE_S)
        memory = psutil.Process(process.pid).memory_info()
        assert memory.rss - memory.shared < 64 * 1_048_576
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_reader_that_stops_makes_the_writer_wait_and_nothing_is_lost(tee: ProxyBox) -> None:
    with tee.started(CAT) as process:
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written = _fill(process)
        assert written < 2_000_000
        assert read_exactly(process, written) == b"y" * written
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def _fill(process: "subprocess.Popen[bytes]") -> int:
    """Write until nothing more goes in for a while; return how much went in."""
    assert process.stdin is not None
    written, idle, pause = 0, 0, threading.Event()
    while idle < 20:
        try:
            written += os.write(process.stdin.fileno(), b"y" * 65_536)
            idle = 0
        except BlockingIOError:
            idle += 1
            pause.wait(0.01)
    return written


def test_the_end_of_one_direction_is_passed_on_while_the_other_goes_on(box: ProxyBox) -> None:
    program = "import sys; sys.stdin.read(); print('after the end', flush=True)"
    assert box.run(python(program), b"x") == (0, b"after the end\n", b"")
    half = "import os, sys; os.write(1, b'bye'); os.close(1); sys.stdin.read(); sys.exit(4)"
    with box.started(python(half)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read() == b"bye"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 4


def test_a_client_that_reads_no_more_ends_the_program_as_it_would_alone(box: ProxyBox) -> None:
    with box.started(("yes",)) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(PATIENCE_S) == -signal.SIGPIPE


def test_a_program_that_reads_no_more_is_told_to_the_client(box: ProxyBox) -> None:
    closed = "import os, time; os.close(0); print('closed', flush=True); time.sleep(60)"
    with box.started(python(closed)) as process:
        assert process.stdin is not None
        assert read_exactly(process, 7) == b"closed\n"
        with pytest.raises(BrokenPipeError):
            write_all(process, b"x" * 1_048_576)
        process.terminate()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSEGV])
def test_a_program_that_a_signal_ends_ends_the_proxy_with_it(box: ProxyBox, number: signal.Signals) -> None:
    assert box.run(("sh", "-c", f"ulimit -c 0; kill -{number.value} $$; sleep 60"))[0] == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_program_once(box: ProxyBox, number: signal.Signals) -> None:
    with box.started(listener(number)) as process:
        assert process.stdin is not None
        assert read_exactly(process, 6) == b"ready\n"
        process.send_signal(number)
        assert read_exactly(process, 4) == b"got\n"
        write_all(process, b"one\n")
        assert read_exactly(process, 9) == b"read one\n"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 7


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_is_ignored_as_under_nohup_stays_so_for_the_program(box: ProxyBox, name: str) -> None:
    """The program takes the signal again, and would have it from the proxy before the one that ends it."""
    program = (
        "import os, signal\n"
        f"awaited = (signal.SIG{name}, signal.SIGUSR1)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, awaited)\n"
        "for number in awaited: signal.signal(number, lambda *_: None)\n"
        "for number in awaited: os.kill(os.getppid(), number)\n"
        "while signal.sigwait(awaited) != signal.SIGUSR1: print('got', flush=True)\n"
        "os._exit(7)\n"
    )
    words = ["sh", "-c", f"trap '' {name}; exec \"$@\"", "sh", *box.words(python(program))]
    done = subprocess.run(words, env=box.env, input=b"", capture_output=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (7, b"")


def test_on_a_terminal_an_interrupt_comes_once(box: ProxyBox) -> None:
    """Ours: the terminal itself interrupts a program under tee; one under run hears of it from us."""
    code, shown = interrupted(box.words(listener(signal.SIGINT)), box.env)
    assert (code, shown.count(b"got")) == (7, 1)


def test_the_program_has_the_signals_as_they_are_by_default(box: ProxyBox) -> None:
    status = box.run(("cat", "/proc/self/status"))[1].decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    below_the_c_librarys_own = 0x7FFF_FFFF
    assert int(fields["SigIgn"], 16) & below_the_c_librarys_own == 0
    assert int(fields["SigBlk"], 16) == 0


def test_the_program_gets_no_descriptor_but_what_the_client_gave(box: ProxyBox) -> None:
    names = box.run(("ls", "/proc/self/fd"))[1].split()
    assert names == [b"0", b"1", b"2", b"3"]  # the last is the directory itself


def names_of_children(process: psutil.Process) -> list[str]:
    found: list[str] = []
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # just gone
            found.append(child.name())
    return found


def test_no_descriptor_and_no_dead_child_is_left_lying_about(tee: ProxyBox) -> None:
    with tee.started(CAT) as process:
        proxy = psutil.Process(process.pid)
        write_all(process, b"x")
        assert read_exactly(process, 1) == b"x"
        # Its observers have ended at once, and it has given up: the client's three, two pipes, the memory (mapped too),
        # one end of the records and both of the way back are left.
        eventually(lambda: names_of_children(proxy) == ["cat"] and proxy.num_fds() == 10)
        for _ in range(500):
            write_all(process, JUNK[:1_000])
            read_exactly(process, 1_000)
        assert proxy.num_fds() == 10
        assert proxy.num_threads() == 3


def test_a_stopped_proxy_goes_on_where_it_was(tee: ProxyBox) -> None:
    with tee.started(CAT) as process:
        write_all(process, b"one\n")
        assert read_exactly(process, 4) == b"one\n"
        process.send_signal(signal.SIGSTOP)
        write_all(process, b"two\n")
        process.send_signal(signal.SIGCONT)
        assert read_exactly(process, 4) == b"two\n"


def test_a_program_that_is_not_there_is_said_as_a_shell_would(box: ProxyBox) -> None:
    code, out, err = box.run(("nonesuch-program",))
    assert (code, out) == (127, b"")
    assert err.splitlines() == [
        b"lifebus: nonesuch-program: No such file or directory",
        b"  name a program behind `--`, by its path or its name on the PATH",
    ]
    assert box.run(("/",))[0] == 126


def test_a_grandchild_that_holds_the_pipe_keeps_nobody_waiting(tee: ProxyBox) -> None:
    with tee.started(("sh", "-c", "sleep 60 & echo $!")) as process:
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        os.kill(int(process.stdout.read()), signal.SIGKILL)


def test_a_program_under_tee_is_in_its_clients_group_and_one_under_run_in_its_own(box: ProxyBox) -> None:
    with box.started(
        python("import os, sys; print(os.getpgrp() == os.getpid(), flush=True); sys.stdin.read()")
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == (b"True\n" if box.kind == "run" else b"False\n")


def test_run_ends_a_program_that_stays_after_its_stdin_was_closed() -> None:
    with proxy_box("run", blind=True) as box:
        deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
        assert box.run(python(deaf), b"", "--grace", "200ms")[0] == -signal.SIGTERM


def test_run_lets_a_program_go_on_that_has_closed_its_stdin_itself() -> None:
    with proxy_box("run", blind=True) as box:
        reading, writing = os.pipe()
        busy = f"import os, sys; os.close(0); print('closed', flush=True); os.read({reading}, 1); sys.exit(5)"
        with box.started(python(busy), "--grace", "1ms", pass_fds=(reading,)) as process:
            assert read_exactly(process, 7) == b"closed\n"
            with pytest.raises(BrokenPipeError):
                write_all(process, b"x" * 1_048_576)
            os.write(writing, b"!")
            assert process.wait(PATIENCE_S) == 5
        for descriptor in (reading, writing):
            os.close(descriptor)


def test_run_leaves_nothing_of_the_programs_group() -> None:
    with proxy_box("run", blind=True) as box:
        code, out, _ = box.run(("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"))
        assert code == 0
        eventually(lambda: not psutil.pid_exists(int(out)))

"""A crash between any two system calls of the store: a token is neither lost nor used twice.

Outside stands a client with records of its own: the same prepare id gets the same token, the same claim id is one use.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lifebus_broker.disk import Disk
from lifebus_contract import LifebusError
from lifebus_supervisor.renewal.choosing import ChosenContinuation
from lifebus_supervisor.renewal.records import Continuation, ContinuationState
from lifebus_supervisor.renewal.store import ContinuationStore
from support.effort import effort
from support.installer.crashing_disk import Crash
from support.supervisor.continuations import intent, pending, start, states, store_in
from support.supervisor.quick_disks import Quick, QuickCrash


class Client:
    """Knows ids again, as docs/renewal.md asks of it; fails the test when a token is used twice."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.uses: dict[str, set[str]] = {}

    def prepare(self, prepare_id: str) -> str:
        return self.tokens.setdefault(prepare_id, f"token of {prepare_id}")

    def consume(self, claim_id: str, token: str) -> None:
        self.uses.setdefault(token, set()).add(claim_id)


class Run:
    """A broker's life: it renews as far as it comes, and goes on where the one before was cut off."""

    def __init__(self, directory: Path, client: Client, name: str, disk: Disk) -> None:
        self.store: ContinuationStore = store_in(directory, disk=disk)
        self.client = client
        self.name = name

    def go_on(self) -> None:
        """Do the next step of the one renewal, until it is over."""
        while True:
            records, strange = self.store.records()
            assert strange == []
            (record,) = records or (self.store.begin(intent(f"pay_{self.name}")),)
            match record.state:
                case ContinuationState.PREPARING:
                    token = self.client.prepare(record.payload_id)
                    self.store.save(pending(record.payload_id, token=token))
                case ContinuationState.PENDING | ContinuationState.CLAIMED:
                    self._use()
                case _:
                    return

    def _use(self) -> None:
        found = self.store.claim(start("s2"), f"claim_{self.name}")
        assert isinstance(found, ChosenContinuation)
        self.client.consume(str(found.record.claim_id), str(found.record.token))
        self.store.finish(found.record, ContinuationState.CONSUMED)


def steps(tmp_path: Path) -> int:
    disk = Quick()
    Run(tmp_path, Client(), "whole", disk).go_on()
    return len(disk.calls)


def used_once(client: Client) -> bool:
    return set(client.tokens.values()) == set(client.uses) and all(len(ids) == 1 for ids in client.uses.values())


def test_a_renewal_that_crashes_anywhere_goes_on_and_uses_its_token_once(tmp_path: Path) -> None:
    count = steps(tmp_path / "whole")
    assert count > 25
    for at in range(count):
        client, directory = Client(), tmp_path / str(at)
        with pytest.raises(Crash):
            Run(directory, client, "first", QuickCrash(at)).go_on()
        last = Run(directory, client, "second", Quick())
        last.go_on()
        assert used_once(client), at
        assert len(client.tokens) == 1, at
        assert sorted(path.suffix for path in (directory / "continuations").iterdir()) == ["", ".json"], at


def test_a_renewal_that_crashes_twice_anywhere_uses_its_token_once(tmp_path: Path) -> None:
    count = steps(tmp_path / "whole")
    for at in range(0, count, 2):
        for again in range(0, count, 3):
            client, directory = Client(), tmp_path / f"{at}-{again}"
            with pytest.raises(Crash):
                Run(directory, client, "first", QuickCrash(at)).go_on()
            try:
                Run(directory, client, "second", QuickCrash(again)).go_on()
            except Crash:
                Run(directory, client, "third", Quick()).go_on()
            assert used_once(client), (at, again)


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["create", "write", "sync", "link", "rename", "sync_directory"])
def test_a_disk_that_refuses_leaves_the_token_that_was_there(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    with monkeypatch.context() as patched:
        patched.setattr(Disk, call, refuse)
        with pytest.raises(OSError, match="No space"):
            store.save(pending("pay_2", "t2", session="s9")) if call == "link" else store.claim(start(), "claim_1")
    assert [(one.payload_id, one.token) for one in store.records()[0]] == [("pay_1", "secret")]
    assert isinstance(store.claim(start(), "claim_2"), ChosenContinuation)


def _in_children(count: int, work: Callable[[int], None]) -> list[int]:
    """Return the exit codes of processes that do something at the same time: 0 for done, 3 for refused."""
    children: list[int] = []
    gate_read, gate_write = os.pipe()
    for number in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(gate_write)
                os.read(gate_read, 1)  # nobody begins before everybody is there
                work(number)
                code = 0
            except LifebusError:
                code = 3
            finally:
                os._exit(code)
        children.append(child)
    os.close(gate_write)
    os.close(gate_read)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_of_processes_that_keep_a_token_of_one_thread_at_once_one_succeeds(tmp_path: Path) -> None:
    codes = _in_children(8, lambda number: store_in(tmp_path).save(pending(f"pay_{number}", session=f"s{number}")))
    assert Counter(codes) == {0: 1, 3: 7}
    assert [state for _, state in states(store_in(tmp_path))] == ["pending"]


def test_of_processes_that_claim_one_token_at_once_one_gets_it(tmp_path: Path) -> None:
    store_in(tmp_path).save(pending())

    def claim(number: int) -> None:
        if store_in(tmp_path).claim(start(f"new{number}"), f"claim_{number}") is None:
            os._exit(3)

    assert Counter(_in_children(8, claim)) == {0: 1, 3: 7}


COMMANDS = st.lists(
    st.tuples(st.sampled_from(["keep", "claim", "finish", "drop", "again"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=24,
)


@settings(max_examples=effort(30, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=COMMANDS)
def test_whatever_is_done_a_token_goes_to_one_session_and_none_is_overwritten(
    tmp_path_factory: pytest.TempPathFactory, commands: list[tuple[str, int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("model")
    store = store_in(directory, disk=Quick())
    claims: dict[str, set[str]] = {}
    held: dict[int, str] = {}
    for number, (command, thread, session) in enumerate(commands):
        record = pending(f"pay_{number}", f"t{thread}", f"token {number}", session=f"s{thread}", cwd=f"/{thread}")
        if command == "keep":
            _keep(store, record, held, thread)
        elif command == "claim":
            found = store.claim(start(f"n{session}", f"/{thread}"), f"claim_{number}")
            if isinstance(found, ChosenContinuation):
                claims.setdefault(str(found.record.token), set()).add(str(found.record.claim_id))
                assert held[int(str(found.record.thread)[1:])] == found.record.token
        elif command == "finish":
            for one in store.records()[0]:
                if one.thread == f"t{thread}" and one.state is ContinuationState.CLAIMED:
                    store.finish(one, ContinuationState.CONSUMED)
                    del held[thread]
        elif command == "drop":
            store.drop("p", f"t{thread}")
            held.pop(thread, None)
        else:
            store = store_in(directory, disk=Quick())
    assert all(len(ids) == 1 for ids in claims.values())
    live = {str(one.token) for one in store.records()[0] if one.token is not None}
    assert live == set(held.values()) - _lost(store)


def _keep(store: ContinuationStore, record: Continuation, held: dict[int, str], thread: int) -> None:
    try:
        store.save(record)
    except LifebusError:
        assert thread in held
    else:
        assert thread not in held
        held[thread] = str(record.token)


def _lost(store: ContinuationStore) -> set[str]:
    """Return the tokens that were handed over too often: their records are rejected."""
    return {f"token {one.payload_id[4:]}" for one in store.records()[0] if one.state is ContinuationState.REJECTED}

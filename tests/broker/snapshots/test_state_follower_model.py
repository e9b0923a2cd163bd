"""Whatever is appended, pruned, deleted, damaged or begun again: the stores of the follower are those of a replay."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lifebus_broker.snapshots import state_follower as follower_module
from lifebus_broker.snapshots.compactions import state_cache
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import dump_stores
from support.effort import effort
from support.histories import history, lines_of, replayed
from support.logs import MemoryLog

STEP = 8
LONGEST = 160


class FollowerMachine(RuleBasedStateMachine):
    """One log, one follower after the other over the same directory of caches."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module in (state_cache, follower_module):
            self.patch.setattr(module, "CACHE_EVERY", STEP)
        self.patch.setattr(follower_module, "BATCH", 5)
        self.directory = Path(tempfile.mkdtemp(prefix="follower-"))
        self.files = CompactionFiles(self.directory, StateCache.policy_id)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.directory)

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        self.whole = lines_of(history(seed, LONGEST))
        self.log = MemoryLog([])
        self.begin_again()

    @rule()
    def begin_again(self) -> None:
        self.refused: list[RefusedFile] = []
        self.follower = StateFollower(self.log, self.files, self.refused.append)

    @rule(count=st.integers(1, 20))
    def append(self, count: int) -> None:
        head = self.log.head
        self.log.all_lines += self.whole[head : head + count]

    @rule()
    def step(self) -> None:
        self.follower.step()

    @rule(through=st.integers(0, LONGEST))
    def advance(self, through: int) -> None:
        before = self.follower.position
        assert self.follower.advance(through).position == max(before, min(through, self.log.head))

    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(self.log.floor, self.log.head))
        assert dump_stores(self.follower.stores_at(position)) == dump_stores(replayed(self.whole[:position]))

    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        floor = data.draw(st.integers(self.log.floor, self.log.head))
        if floor:
            self.log.dump = dump_stores(self.follower.stores_at(floor))
            self.log.all_lines = self.log.all_lines[floor - self.log.floor :]
            self.log.floor = floor

    @precondition(lambda self: self.files.ids())
    @rule(data=st.data(), damage=st.sampled_from(["delete", "tear", "flip", "swap"]))
    def meddle(self, data: st.DataObject, damage: str) -> None:
        names = self.files.ids()
        paths = [next(self.directory.rglob(f"{name}.json")) for name in (data.draw(st.sampled_from(names)), names[0])]
        contents = paths[0].read_bytes()
        if damage == "delete":
            paths[0].unlink()
        elif damage == "swap":
            paths[0].write_bytes(paths[1].read_bytes())
        else:
            place = data.draw(st.integers(0, len(contents) - 1))
            rest = b"" if damage == "tear" else bytes([contents[place] ^ 1]) + contents[place + 1 :]
            paths[0].write_bytes(contents[:place] + rest)

    @rule()
    def compare(self) -> None:
        assert self.follower.compare(replayed(self.whole[: self.log.head]).facts.streams)

    @invariant()
    def the_stores_are_those_of_a_replay(self) -> None:
        if hasattr(self, "log"):
            state = self.follower.state
            assert self.log.floor <= state.position <= self.log.head
            assert dump_stores(state) == dump_stores(replayed(self.whole[: state.position]))


FollowerMachine.TestCase.settings = settings(
    deadline=None, max_examples=effort(25, 200), stateful_step_count=effort(20, 40)
)
test_the_follower_follows_the_log_whatever_happens_to_its_caches = FollowerMachine.TestCase

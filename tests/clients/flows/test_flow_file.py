"""Flow files: what they mean, and what is said about mistakes in them."""

from pathlib import Path

import pytest

from lifebus.flows import FlowFileError, parse_flow, read_flow
from lifebus_contract.flows import CodeMap, CodeRule, FlowDefinition, HarnessPrompt, OnFailure, StepVerdict

HARNESSES = ("claude", "codex")
FILE = Path("/somewhere/of/release.toml")
PHASE = '[[phases]]\nname = "one"\ncommand = ["true"]\n'


def parse(text: str, path: Path = FILE) -> FlowDefinition:
    return parse_flow(text.encode(), path, harnesses=HARNESSES)


def faults(text: str, path: Path = FILE) -> list[tuple[int | None, str, str, str | None]]:
    with pytest.raises(FlowFileError) as refused:
        parse(text, path)
    return [(one.line, one.key, one.text, one.suggestion) for one in refused.value.faults]


def verdict_of(codes: CodeMap, code: int) -> StepVerdict:
    return next((rule.verdict for rule in codes.rules if rule.first <= code <= rule.last), codes.unknown)


def test_a_phase_needs_the_one_before_it_unless_it_says_what_it_needs() -> None:
    flow = parse(
        f'{PHASE}[[phases]]\nname = "two"\ncommand = ["b"]\n[[phases]]\nname = "x"\nneeds = []\nshell = "c | d"'
    )
    assert [(one.step_id, one.needs) for one in flow.steps] == [("one", ()), ("two", ("one",)), ("x", ())]
    assert [one.command for one in flow.steps] == [("true",), ("b",), ("/bin/sh", "-ec", "c | d")]


def test_what_a_file_does_not_say_has_the_usual_value() -> None:
    flow = parse(PHASE)
    assert (flow.name, flow.root, flow.max_parallel, flow.near_limit_percent) == ("release", "/somewhere/of", 1, 80)
    (step,) = flow.steps
    assert (step.max_retries, step.time_limit_ms, step.grace_ms, step.cwd) == (3, None, 5_000, ".")
    assert (step.pause.first_ms, step.pause.longest_ms, step.pause.jitter_percent) == (1_000, 30_000, 25)
    assert step.passing == ("XDG_*", "LIFEBUS_RUNTIME_DIR", "LIFEBUS_STATE_DIR")
    assert step.codes is None
    found = {code: verdict_of(flow.codes, code).value for code in (0, 1, 2, 3, 64, 78, 79, 126, 127)}
    assert found == {
        0: "proceed",
        1: "retry",
        2: "escalate",
        3: "escalate",
        64: "retry",
        78: "retry",
        79: "escalate",
        126: "alert",
        127: "alert",
    }


def test_a_phase_goes_before_the_defaults_and_tables_are_merged_key_by_key() -> None:
    flow = parse(
        "[defaults]\nmax_retries = 1\nenv = { A = '1', B = '2' }\npause = { first = '2s', jitter_percent = 0 }\n"
        f"time_limit = '1h'\n{PHASE}env = {{ B = '3' }}\npause = {{ first = '1m' }}\ntime_limit = '1.5s'\n"
    )
    (step,) = flow.steps
    assert (step.max_retries, step.time_limit_ms, step.setting) == (1, 1_500, {"A": "1", "B": "3"})
    assert (step.pause.first_ms, step.pause.longest_ms, step.pause.jitter_percent) == (60_000, 60_000, 0)


def test_codes_of_a_phase_stand_before_those_of_the_flow_and_narrow_ones_before_wide_ones() -> None:
    flow = parse(
        "[codes]\n10-20 = 'escalate'\n15 = { verdict = 'proceed', label = 'half' }\nunknown = 'retry'\n"
        f"{PHASE}codes = {{ 16 = 'alert', signalled = 'escalate' }}\n"
    )
    own = flow.steps[0].codes
    assert own is not None
    assert [verdict_of(flow.codes, code).value for code in (10, 15, 16, 0, 99)] == [
        *("escalate", "proceed", "escalate", "proceed", "retry")
    ]
    assert [verdict_of(own, code).value for code in (10, 15, 16, 0, 99)] == [
        *("escalate", "proceed", "alert", "proceed", "retry")
    ]
    assert (flow.codes.signalled, own.signalled) == (StepVerdict.RETRY, StepVerdict.ESCALATE)
    assert CodeRule(first=15, last=15, verdict=StepVerdict.PROCEED, label="half") in own.rules


def test_a_map_without_a_base_begins_with_nothing() -> None:
    flow = parse(f"codes = {{ base = 'none', 0 = 'proceed', unknown = 'alert' }}\n{PHASE}")
    assert [verdict_of(flow.codes, code).value for code in (0, 1)] == ["proceed", "alert"]


def test_money_is_exact_and_times_are_milliseconds() -> None:
    flow = parse(f"[budget]\ntime = '8h'\ntokens = 5\ncost_usd = 2.000001\n{PHASE}")
    assert (flow.budget.time_ms, flow.budget.tokens, flow.budget.cost_micros) == (28_800_000, 5, 2_000_001)


def test_a_prompt_names_its_harness_by_any_of_its_names_and_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text("Look at it.")
    flow = parse_flow(
        b'[[phases]]\nname = "a"\nharness = "claude-code"\nprompt_file = "review.md"\nmodel = "m"\narguments = ["-x"]',
        tmp_path / "f.toml",
        harnesses=HARNESSES,
    )
    assert flow.steps[0].prompt == HarnessPrompt(adapter_id="claude", text="Look at it.", model="m", arguments=("-x",))
    assert flow.steps[0].command is None


def test_everything_else_reaches_the_step(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text(
        f'root = ".."\ncontext_tokens = 9\nmetadata = {{ a = [1.5, {{ b = true }}] }}\n{PHASE}cwd = "sub"\n'
        'pass_env = ["CI_*"]\ngrace = "0s"\non_failure = "skip"\napproval = "Go?"\nquestion = "What now?"\n'
        'suggested_actions = ["wait"]\nartifacts = ["out/x"]\nlimits = { memory_mb = 64, output_kb = 8 }\n'
        'modifiable = [{ name = "level", kind = "integer", choices = [1, 2], help = "h" }]\n'
    )
    flow = read_flow(path, client_id="me")
    (step,) = flow.steps
    assert (flow.root, flow.client_id, flow.context_tokens) == (str(tmp_path.parent), "me", 9)
    assert flow.metadata == {"a": [1.5, {"b": True}]}
    assert (step.cwd, step.passing, step.grace_ms, step.on_failure) == ("sub", ("CI_*",), 0, OnFailure.SKIP)
    assert (step.approval, step.question, step.suggested_actions) == ("Go?", "What now?", ("wait",))
    assert (step.artifacts, step.limits.memory_mb, step.limits.output_kb) == (("out/x",), 64, 8)
    assert [(one.name, one.kind, one.choices, one.help) for one in step.modifiable] == [
        ("level", "integer", (1, 2), "h")
    ]
    assert read_flow(path, root=tmp_path / "other").root == str(tmp_path / "other")


def test_every_mistake_is_named_at_once_with_its_line() -> None:
    text = (
        'name = "release it"\n'
        "max_paralel = 2\n"
        "[[phases]]\n"
        'name = "build"\n'
        'cmd = ["make"]\n'
        "[[phases]]\n"
        'name = "test"\n'
        'needs = ["biuld"]\n'
        'command = "make test"\n'
        "max_retries = -1\n"
    )
    found = faults(text)
    assert [(line, key, hint) for line, key, _, hint in found] == [
        (1, "name", None),
        (2, "max_paralel", "did you mean `max_parallel`?"),
        (5, "phases.build.cmd", "did you mean `command`?"),
        (8, "phases.test.needs[0]", "did you mean `build`?"),
        (9, "phases.test.command", "for a line that a shell reads, write `shell`"),
        (10, "phases.test.max_retries", None),
    ]
    assert found[-1][2] == "a whole number from 0 to 1,000 belongs here, not -1"


@pytest.mark.parametrize(
    ("text", "line", "key", "said", "hint"),
    [
        ("", None, "", "`phases` is missing", "[[phases]]"),
        ("phases = []", 1, "phases", "a list of at least one table", None),
        ("phases = [3]", 1, "phases.1", "a table belongs here, not 3", None),
        ("budget = 3\n" + PHASE, 1, "budget", "a table belongs here, not 3", "write [budget]"),
        ("[phases]\nname = 'x'", 1, "phases", "a list of tables belongs here, not a table", "write [[phases]]"),
        ("codes = 'lao'\n" + PHASE, 1, "codes", 'no map of codes "lao"', "did you mean `loa`?"),
        ("[codes]\n300 = 'retry'\n" + PHASE, 2, "codes.300", "from 0 to 255", None),
        ("[codes]\n9-3 = 'retry'\n" + PHASE, 2, "codes.9-3", "ends before it begins", 'did you mean "3-9"?'),
        ("[codes]\n1-5 = 'retry'\n3-9 = 'alert'\n" + PHASE, 3, "codes.3-9", "overlaps with 1-5", None),
        ("[codes]\n3 = 'retyr'\n" + PHASE, 2, "codes.3", '"retyr" does not say what follows', "did you mean `retry`?"),
        ("[codes]\nsignaled = 'retry'\n" + PHASE, 2, "codes.signaled", "a code such as 3", "did you mean `signalled`?"),
        ("[codes]\n3 = { verdict = 'retry', x = 1 }\n" + PHASE, 2, "codes.3.x", "no such key", None),
        ("[budget]\ncost_usd = 0.0000001\n" + PHASE, 2, "budget.cost_usd", "no amount above 0", None),
        ("[budget]\ntime = 60\n" + PHASE, 2, "budget.time", "a duration in quotes", 'write "60s" for 60 seconds'),
        ("[defaults]\ntime_limit = '0s'\n" + PHASE, 2, "defaults.time_limit", "ends every try", "leave it out"),
        ("[defaults]\nname = 'x'\n" + PHASE, 2, "defaults.name", "there is no such key here", "known are"),
        ("[metadata]\nat = 2026-01-01\n" + PHASE, 2, "metadata.at", "metadata is plain data", "write times as texts"),
        ("[[phases]]\nname = 'x'", 1, "phases.x", "it does nothing", "it takes one of command, shell"),
        (PHASE + "shell = 'x'", 4, "phases.one.shell", "`command` is there too", "make it two phases"),
        (PHASE + "model = 'x'", 4, "phases.one.model", "it belongs to a `prompt`", None),
        (PHASE + PHASE, 5, "phases.one.name", "phase 1 has the name `one`, too", None),
        (PHASE + "needs = ['one']", 4, "phases.one.needs[0]", "a phase cannot need itself", None),
        (PHASE + "needs = 'x'", 4, "phases.one.needs", "a list of phases", 'write ["x"]'),
        (PHASE + "artifacts = ['a/../../x']", 4, "phases.one.artifacts[0]", "below the root", "relative to the root"),
        (PHASE + "artifacts = ['/x']", 4, "phases.one.artifacts[0]", "below the root", "relative to the root"),
        (PHASE + "on_failure = 'abrt'", 4, "phases.one.on_failure", "is none of", "did you mean `abort`?"),
        (PHASE + "env = { 'A B' = '1' }", 4, "phases.one.env.A B", "the name of a variable belongs here", None),
        (PHASE + "env = { A = 1 }", 4, "phases.one.env.A", "a text belongs here, not 1", None),
        (PHASE + "pass_env = ['A*B']", 4, "phases.one.pass_env[0]", "`*` at its end", None),
        (PHASE + "pause = { first = '9s', longest = '8s' }", 4, "phases.one.pause.longest", "shorter than", None),
        (PHASE + "limits = { memory = 5 }", 4, "phases.one.limits.memory", "no such key", "`memory_mb`"),
        (PHASE + "[[phases.modifiable]]\nkind = 'text'", 4, "phases.one.modifiable[0]", "`name` is missing", None),
        ("[[phases]]\nname = 'p'\nprompt = 'x'", 1, "phases.p", "a prompt needs `harness`", "known are claude, codex"),
        (
            "[[phases]]\nname = 'p'\nprompt = 'x'\nharness = 'cluade'",
            *(4, "phases.p.harness", "no harness `cluade`", "`claude`"),
        ),
        (
            "[[phases]]\nname = 'p'\nharness = 'codex'\nprompt_file = 'none.md'",
            *(4, "phases.p.prompt_file", "cannot be read", "beside the flow file"),
        ),
        ("[[phases]\n", 1, "", "not TOML", None),
        ("a = 1\na = 2\n", 2, "", "not TOML", None),
    ],
)
def test_a_mistake_is_explained(text: str, line: int | None, key: str, said: str, hint: str | None) -> None:
    (found,) = faults(text)
    assert found[:2] == (line, key)
    assert said in found[2]
    assert hint is None or hint in str(found[3])


def test_a_circle_is_shown_as_one_and_a_need_that_nobody_wrote_is_explained() -> None:
    phases = [
        f'[[phases]]\nname = "{name}"\ncommand = ["x"]\nneeds = ["{need}"]\n' for name, need in ("ab", "bc", "ca")
    ]
    ((line, key, said, _),) = faults("".join(phases))
    assert (line, key) == (4, "phases.a.needs")
    assert said == "phases need one another: a → b → c → a"
    ((*_, hint),) = faults(
        '[[phases]]\nname = "a"\ncommand = ["x"]\nneeds = ["b"]\n[[phases]]\nname = "b"\nshell = "x"'
    )
    assert hint == "`b` has no `needs`, so it needs the phase before it; write needs = []"


def test_a_flow_that_is_too_large_for_a_message_is_refused_before_it_is_sent() -> None:
    phases = "".join(f'[[phases]]\nname = "p{number}"\nshell = "{"x" * 60_000}"\n' for number in range(5))
    ((_, _, said, hint),) = faults(phases)
    assert "the flow takes 30" in said
    assert hint is not None


def test_the_error_reads_as_lines_with_their_places() -> None:
    with pytest.raises(FlowFileError) as refused:
        parse(PHASE + "time_limt = '1s'\nneeds = ['x']")
    assert refused.value.detail.split("\n") == [
        "/somewhere/of/release.toml:4: `phases.one.time_limt`: there is no such key here; did you mean `time_limit`?",
        "/somewhere/of/release.toml:5: `phases.one.needs[0]`: there is no phase `x`",
    ]
    assert refused.value.code == "flow_invalid"

"""What the fake model is told to do: words in the prompt, one line for each answer.

    @run 12000 echo hi     call the shell tool; the request counted 12,000 tokens
    @agent 12000 look      call the tool that starts a sub-agent
    @say 12000 done        say something; the turn ends
    @fail 500              answer with this HTTP status, however often it is asked
    @hold                  answer nothing until the model is closed; only one request of a model is held

Harnesses send a conversation again and again, shortened or rewritten, so the model remembers how far each script got.
A request without tools is none of the conversation's steps: a title, a summary.
"""

import re
import threading
from dataclasses import dataclass
from typing import Literal

from lifebus.live.model.conversation import Conversation

Deed = Literal["run", "agent", "say", "fail", "hold"]

SHELLS = ("Bash", "exec_command", "shell_command", "shell", "run_shell_command", "bash", "exec", "terminal")
AGENTS = ("Agent", "Task", "task", "spawn_agent", "delegate_task", "sessions_spawn", "invoke_agent")

_STEP = re.compile(r"^\W*@(run|agent|say|fail|hold)(?: (\d+))?(?: (.*?))?[\"\s]*$", re.MULTILINE)
_PLAIN_TOKENS = 1_000


@dataclass(frozen=True)
class ScriptStep:
    """One answer of the model: what it does, the tokens that it counts (or the HTTP status), and the words."""

    deed: Deed
    number: int = _PLAIN_TOKENS
    words: str = "So be it."

    def __str__(self) -> str:
        return f"@{self.deed} {self.number} {self.words}"


def run(command: str, tokens: int = _PLAIN_TOKENS) -> ScriptStep:
    """Call the shell tool."""
    return ScriptStep("run", tokens, command)


def agent(task: str, tokens: int = _PLAIN_TOKENS) -> ScriptStep:
    """Call the tool that starts a sub-agent."""
    return ScriptStep("agent", tokens, task)


def say(words: str, tokens: int = _PLAIN_TOKENS) -> ScriptStep:
    """Say something, which ends the turn."""
    return ScriptStep("say", tokens, words)


def fail(status: int) -> ScriptStep:
    """Answer with this HTTP status, however often it is asked."""
    return ScriptStep("fail", status)


HOLD = ScriptStep("hold")


def prompt(words: str, *steps: ScriptStep) -> str:
    """Return a prompt that makes the model take these steps; no two prompts of one model may be equal."""
    return "\n".join([words, *map(str, steps), "That is all."])


class Scripts:
    """Chooses the step for each request; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}
        self._held = False

    def step(self, conversation: Conversation) -> ScriptStep:
        """Return what to answer, and count it as done."""
        texts = [item.text for item in conversation.items if item.role == "user" and _STEP.search(item.text)]
        if not texts or not conversation.tools:
            return ScriptStep("say")
        with self._lock:
            # A harness that resumes may put its new prompt behind the held one, into one message.
            steps = [
                step for step in map(_parse, _STEP.finditer(texts[-1])) if not (self._held and step.deed == "hold")
            ]
            key = "\n".join(map(str, steps))
            taken = self._taken.get(key, 0)
            step = steps[taken] if taken < len(steps) else ScriptStep("say", _last_tokens(steps))
            self._taken[key] = taken + (step.deed != "fail")
            self._held = self._held or step.deed == "hold"
        return step


def _parse(match: re.Match[str]) -> ScriptStep:
    deed, number, words = match.groups()
    return ScriptStep(deed, int(number or _PLAIN_TOKENS), words or "")  # type: ignore[arg-type]  # the pattern names deeds


def _last_tokens(steps: list[ScriptStep]) -> int:
    return next((step.number for step in reversed(steps) if step.deed in {"run", "agent", "say"}), _PLAIN_TOKENS)

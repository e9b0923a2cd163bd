"""How Codex takes context, as measured with 0.169.0.

- One unknown key in the JSON and the whole answer is dropped; `hookEventName` is required.
- SessionStart context lands before the prompt, UserPromptSubmit context after it, both as an item of role
  `developer`; a sub-agent's start takes context too.
- Pre/PostCompact and Stop take none; on Stop it would fail the hook.
- Beyond 10,000 bytes the text is cut in the middle.
"""

from typing import Final

from lifebus_adapters.harness import hook_specific_output
from lifebus_contract import ManifestPlacementClass

SLOTS: Final = {
    "SessionStart": ManifestPlacementClass.PRE_SESSION,
    "UserPromptSubmit": ManifestPlacementClass.PRE_FRAME_TRAILING,
    "SubagentStart": ManifestPlacementClass.PRE_FRAME_TRAILING,
}
"""The hooks that take context, and where it lands."""

native = hook_specific_output

"""How Claude Code takes context, as measured with 2.1.330.

- `hookEventName` must be the hook that is answered, or the context is dropped.
- SessionStart and UserPromptSubmit context both arrive in a system message after the user's prompt; a
  SessionStart's is there before any frame opens, so it stands for `pre_session`.
- Context on Stop makes the model go on, up to nine times.  Pre/PostCompact take none: the error text would stay in
  the conversation.  SessionEnd is not read.
- Beyond 10,000 characters the model sees a preview of 2 KB.
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

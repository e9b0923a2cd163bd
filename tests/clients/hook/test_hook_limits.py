"""The hook stands alone, so what it shares with the broker is written twice; here the two are compared."""

from lifebus import hook
from lifebus_transports.framing import hook_frames
from lifebus_transports.hooks import spool
from lifebus_transports.hooks.server import HookServerLimits


def test_hook_and_broker_agree_on_the_limits() -> None:
    assert hook._MAX_STDIN == hook_frames.MAX_STDIN_BYTES
    assert hook._MAX_HEADER == hook_frames.MAX_HEADER_BYTES
    assert hook._MAX_ANSWER == hook_frames.MAX_ANSWER_BYTES
    assert hook._MAX_SPOOL == spool._MAX_SPOOL_BYTES


def test_the_server_answers_before_the_hook_gives_up_and_the_hook_before_the_promise() -> None:
    assert HookServerLimits().answer_s < hook._EXCHANGE_S
    assert hook._EXCHANGE_S + hook._SPOOL_S < 0.3

"""Places in the ledger, as users write them."""

from typing import TYPE_CHECKING

from lifebus.cli.exit_codes import UsageError

if TYPE_CHECKING:
    from lifebus._internal.view import Position


def parse_start(text: str) -> "Position | int | str":
    """Return a cursor, a position or ``start``.

    Raises:
        UsageError: another form.
    """
    from lifebus._internal.view import Position  # noqa: PLC0415

    if text == "start":
        return text
    epoch, _, position = text.rpartition(":")
    if not position.isascii() or not position.isdigit() or len(position) > 15:  # noqa: PLR2004  below 2^53
        raise UsageError(f"--from: `{text[:64]}` is not POSITION, EPOCH:POSITION or start")
    return Position(epoch, int(position)) if epoch else int(position)

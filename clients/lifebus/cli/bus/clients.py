"""`lifebus clients`: callback clients, and named consumers with their positions and dead letters."""

from typing import TYPE_CHECKING, Any

from cyclopts import App

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.choices import ConsumerName
from lifebus.cli.confirm import Yes, confirm
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, put, put_json, put_table, say

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.consumers import ConsumerInfo
    from lifebus_transports.messages.workers import ClientInfo

app = App(name="clients")


@app.default
@app.command(name="list")
def list_clients(*, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """List the callback clients that are connected, and the named consumers, connected or not.

    Args:
        connection: Where the broker is, and the form of the answer.
    """

    async def both(bus: "Bus") -> "tuple[list[ClientInfo], list[ConsumerInfo]]":
        return await bus.clients(), await bus.cursors.standing()

    clients, cursors = on_bus(connection, both)
    if connection.json:
        put_json([*clients, *[_plain(one) for one in cursors]])
        return ExitCode.OK
    if clients:
        _put_clients(clients)
    if cursors:
        _put_cursors(cursors)
    if not clients and not cursors:
        say("no callback client is connected, and there is no named consumer")
    return ExitCode.OK


@app.command
def lag(name: str | None = None, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show how far named consumers, or one of them, are behind.

    Args:
        name: The name of the consumer; default: all of them.
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.cursors.standing(name))
    if connection.json:
        put_json([_plain(one) for one in found])
    elif found:
        _put_cursors(found)
    else:
        say("there is no named consumer")
    return ExitCode.OK


@app.command(name="reset-cursor")
def reset_cursor(
    name: ConsumerName, /, *, to: str, yes: Yes = False, connection: ConnectionOptions = DEFAULT_CONNECTION
) -> ExitCode:
    """Have a named consumer start again from another position.

    Args:
        name: The name that it consumes under.
        to: Begin after this place: a POSITION, `start` or `head`.
        yes: Do it without asking.
        connection: Where the broker is, and the form of the answer.
    """
    after = _place(to)
    on_bus(connection, lambda bus: bus.cursors.standing(name))  # nobody is asked about a name that there is not
    if not yes and not confirm(f"Have `{clean(name)}` start again from {to}?", json=connection.json):
        say("nothing was changed")
        return ExitCode.NEGATIVE
    info = on_bus(connection, lambda bus: bus.cursors.reset(name, after))
    if connection.json:
        put_json(_plain(info))
    else:
        put(f"`{clean(name)}` goes on after position {info.position}, {info.lag} behind the head")
    return ExitCode.OK


@app.command
def remove(name: ConsumerName, /, *, yes: Yes = False, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Forget a named consumer: its position, what it holds, its dead letters.

    Args:
        name: The name that it consumes under.
        yes: Do it without asking.
        connection: Where the broker is, and the form of the answer.
    """
    on_bus(connection, lambda bus: bus.cursors.standing(name))  # as above
    # Dead letters are kept nowhere else.
    if not yes and not confirm(f"Forget `{clean(name)}` and its dead letters?", json=connection.json):
        say("nothing was changed")
        return ExitCode.NEGATIVE
    on_bus(connection, lambda bus: bus.cursors.evict(name))
    if connection.json:
        put_json({"evicted": name})
    else:
        put(f"`{clean(name)}` is forgotten")
    return ExitCode.OK


@app.command
def dead(name: ConsumerName, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """List the receipts that a named consumer did not acknowledge in 20 tries; --json prints them whole.

    Args:
        name: The name that it consumes under.
        connection: Where the broker is, and the form of the answer.
    """
    from msgspec import Raw  # noqa: PLC0415
    from msgspec.structs import asdict  # noqa: PLC0415

    from lifebus._internal.answers import decode_recorded  # noqa: PLC0415

    # The broker sends pages; the client library joins them.
    letters = on_bus(connection, lambda bus: bus.cursors.dead_letters(name))
    if connection.json:
        for letter in letters:
            # The receipt's own bytes, so that its digest can still be checked.
            put_json({**asdict(letter), "receipt": Raw(letter.receipt or b"null")}, indent=0)
    elif letters:
        receipts = [decode_recorded(letter.receipt) if letter.receipt else None for letter in letters]
        put_table(
            ("number", "position", "tries", "event", "session", "receipt"),
            [
                (
                    str(letter.number),
                    str(letter.position),
                    str(letter.tries),
                    receipt.event.value if receipt else "gone",
                    f"{receipt.adapter_id}/{receipt.harness_session_id or '-'}" if receipt else "-",
                    receipt.receipt_id if receipt else "-",
                )
                for letter, receipt in zip(letters, receipts, strict=True)
            ],
        )
    else:
        say("no dead letters")
    return ExitCode.OK


def _put_clients(found: "list[ClientInfo]") -> None:
    put_table(
        ("client", "kind", "adapters", "deadline", "dispatched", "failed", "events"),
        [
            (
                one.client_id,
                f"{one.kind}, background" if one.background else one.kind,
                ",".join(one.adapters) or "all",
                f"{one.deadline_ms} ms",
                str(one.dispatched),
                str(one.failed),
                ",".join(event.value for event in one.events),
            )
            for one in found
        ],
    )


def _put_cursors(found: "list[ConsumerInfo]") -> None:
    put_table(
        ("consumer", "client", "state", "position", "lag", "open", "dead"),
        [
            (
                one.cursor,
                one.client_id,
                "history lost" if one.lost else "attached" if one.attached else "away",
                str(one.position),
                str(one.lag),
                str(one.open),
                str(one.dead),
            )
            for one in found
        ],
    )


def _plain(info: "ConsumerInfo") -> dict[str, Any]:
    from msgspec.structs import asdict  # noqa: PLC0415

    return {"kind": "cursor", **asdict(info)}


def _place(to: str) -> int | None:
    """Return the position to go on after; None for the head.

    Raises:
        UsageError: another form.
    """
    if to in {"start", "head"}:
        return 0 if to == "start" else None
    # `isdigit` alone lets through digits of other scripts, which `int` reads as well.
    if not to.isascii() or not to.isdigit() or len(to) > 15:  # noqa: PLR2004  below 2^53
        raise UsageError(f"--to: `{to[:64]}` is not POSITION, start or head")
    return int(to)

"""`lifebus notify`: tell a person that a session waits, ends, fails or fills its context."""

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice, parse_seconds, require_name
from lifebus.cli.bus.programs import require_program
from lifebus.cli.choices import Adapters, Sessions, Words, parse_adapters, split_values
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import put_json, say
from lifebus.cli.tools.notify_rules import KINDS, NoticeMessage, NoticePlan
from lifebus.cli.tools.session_choice import SessionChoice

if TYPE_CHECKING:
    from lifebus import Bus
    from lifebus.cli.tools.notify_channels import Send
    from lifebus_supervisor.configuration.notifications import NotificationRule
    from lifebus_transports.processes.once import Commands

Command = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""One part of the command that follows `--`."""

_USUAL: Final = ("waits", "ends", "failures", "pressure")
_LONGEST_S: Final = 3_600
_PERCENT: Final = 100


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NoticeOptions:
    """What is reported, of whom, and when."""

    on: Words = _USUAL
    "What is reported: waits, ends, failures, pressure (by default), escalations of flows, silence, or idle."
    adapter: Adapters = ()
    "Only this harness."
    project: Words = ()
    "Only sessions in this folder; * stands for any letters."
    session: Sessions = ()
    "Only this session: its short name, e.g. api#3, its id, or ADAPTER/SESSION."
    after: str = "10s"
    "How long a session has to wait before it is reported; default: 10s."
    pressure: int = 80
    "From which percentage of the context on pressure is reported; default: 80."
    quiet: str | None = None
    "Hours of local time without notices, e.g. 22:00-07:00; afterwards one notice sums them up."
    drop_quiet: Annotated[bool, Parameter(negative="")] = False
    "Do not report what happened in quiet hours; sessions that still wait afterwards are reported all the same."
    max_age: str = "10m"
    "Older events are summed up in one notice; default: 10m."
    group: str = "2s"
    "How long to wait for further notices, to send them as one; default: 2s."

    def plan(self) -> NoticePlan:
        """Return what is reported and when.

        Raises:
            UsageError: a flag says something that cannot be done.
        """
        kinds = frozenset(parse_choice("--on", word, list(KINDS)) for word in split_values(self.on))
        after, age, _ = (_seconds(flag, text) for flag, text in self._times())
        if not 1 <= self.pressure <= _PERCENT:
            raise UsageError("--pressure: a number of percent, from 1 to 100")
        is_quiet = NoticePlan(kinds=kinds).is_quiet
        if self.quiet is not None:
            from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours  # noqa: PLC0415

            try:
                is_quiet = partial(_is_quiet, QuietHours.parse(self.quiet))
            except ValueError as fault:
                raise UsageError(f"--quiet: {fault}") from None
        return NoticePlan(
            kinds=kinds,
            pressure_pct=self.pressure,
            after_ms=round(after * 1000),
            max_age_ms=round(age * 1000),
            is_quiet=is_quiet,
            drops_quiet=self.drop_quiet,
        )

    @property
    def group_s(self) -> float:
        """How long further notices are waited for, in seconds."""
        return _seconds("--group", self.group)

    def _times(self) -> tuple[tuple[str, str], ...]:
        return ("--after", self.after), ("--max-age", self.max_age), ("--group", self.group)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SendOptions:
    """Where notices go."""

    webhook: str | None = None
    "Post them as JSON to this address: https, or http on this machine."
    webhook_file: str | None = None
    "The same, with the address in a file that only you may read."
    webhook_variable: str | None = None
    "The same, with the address in this variable of the environment."
    secret_file: str | None = None
    "Sign posts with the secret in this file."
    secret_variable: str | None = None
    "Sign posts with the secret in this variable of the environment."
    apprise_file: str | None = None
    "Hand them to apprise, for the service whose URL is in this file."
    apprise_variable: str | None = None
    "The same, with the URL in this variable of the environment."
    env: Words = ()
    "A further variable that the command gets; NAME* for all that begin so."
    send_timeout: str = "10s"
    "How long a command or a post may take; default: 10s."

    def channel(self, command: tuple[str, ...]) -> "_Channel":
        """Return what makes the channel.

        Raises:
            UsageError: there are two, or there is none.
        """
        from lifebus.cli.tools import notify_channels as channels  # noqa: PLC0415

        seconds = _seconds("--send-timeout", self.send_timeout)
        channels.require_sources(
            {"webhook": self.webhook_file, "secret": self.secret_file, "apprise": self.apprise_file},
            {"webhook": self.webhook_variable, "secret": self.secret_variable, "apprise": self.apprise_variable},
        )
        posts = any((self.webhook, self.webhook_file, self.webhook_variable))
        service = (self.apprise_file, self.apprise_variable)
        if posts and command:
            raise UsageError("a command and --webhook are two channels; run `lifebus notify` twice, with two names")
        if sum(map(bool, (*service, posts, command))) > 1:
            raise UsageError("--apprise-file and --apprise-variable are a channel of their own, and one is enough")
        if any(service):
            return _Channel("apprise", lambda commands: channels.to_apprise(commands, *service, seconds))
        if posts:
            secret = (self.secret_file, self.secret_variable)
            address = channels.Address(self.webhook, self.webhook_file, self.webhook_variable, secret)
            return _Channel("an address", lambda _: channels.to_webhook(address, seconds))
        if command:
            require_program(command)
            passing = split_values(self.env)
            return _Channel(command[0], lambda commands: channels.to_command(commands, command, passing, seconds))
        return _Channel(channels.desktop_program(), channels.to_desktop)


class _Channel:
    """Where notices go, in a word, and what makes the way there."""

    def __init__(self, word: str, make: "_Make") -> None:
        self.word, self.make = word, make


if TYPE_CHECKING:
    from collections.abc import Callable

    _Make = Callable[[Commands], Send]

_USUAL_NOTICES: Final = NoticeOptions()
_DESKTOP: Final = SendOptions()


@dataclass(frozen=True, kw_only=True)
class _Reported:
    """What is reported under one name: of whom, when and where to."""

    name: str
    options: NoticeOptions
    plan: NoticePlan
    adapters: tuple[str, ...]
    channel: _Channel

    @classmethod
    def of(cls, name: str, options: NoticeOptions, to: SendOptions, command: tuple[str, ...]) -> "_Reported":
        """Return it, checked.

        Raises:
            UsageError: a flag, or a key of a rule, says something that cannot be done.
        """
        require_name("--name", name)
        plan, adapters = options.plan(), tuple(parse_adapters(options.adapter))
        return cls(name=name, options=options, plan=plan, adapters=adapters, channel=to.channel(command))

    async def run(self, bus: "Bus", commands: "Commands", *, prints: bool) -> None:
        """Send notices until cancelled."""
        from lifebus.cli.tools.notify_loop import Notifier  # noqa: PLC0415

        send = self.channel.make(commands)
        accepts = SessionChoice(
            adapters=self.adapters,
            projects=tuple(split_values(self.options.project)),
            sessions=tuple(split_values(self.options.session)),
        ).accepts
        shown = _printed(send) if prints else send
        notifier = Notifier(bus, self.name, self.plan, shown, accepts=accepts, group_s=self.options.group_s)
        await notifier.run(lambda: say(f"notifying by {self.channel.word} as {self.name}; Ctrl-C stops", color="dim"))


def notify(
    *command: Command,
    name: str = "notify",
    rules: Annotated[bool, Parameter(negative="")] = False,
    options: NoticeOptions = _USUAL_NOTICES,
    to: SendOptions = _DESKTOP,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Notify a person when a session waits, ends, fails or fills its context; on the desktop, until it is stopped.

    After `--` a command is run for each notice instead: JSON on stdin, LIFEBUS_NOTICE_TITLE and others in its
    environment. The broker remembers under the name what was reported, over restarts of either.

    Args:
        command: The command and its arguments; no shell reads them.
        name: The consumer's name; each channel needs its own. Default: notify.
        rules: Do what every [[notifications]] of the configuration says, under its name, instead of the flags.
        options: What is reported, of whom, and when.
        to: Where notices go.
        connection: Where the broker is; --json prints what was sent.
    """
    if rules and (command or (name, options, to) != ("notify", _USUAL_NOTICES, _DESKTOP)):
        raise UsageError("--rules takes everything from the configuration; leave the other flags out")
    reported = _configured() if rules else [_Reported.of(name, options, to, command)]

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus.cli.bus.serve import cancel_on_signal  # noqa: PLC0415
        from lifebus_transports.processes.once import Commands  # noqa: PLC0415

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            commands = Commands(tasks)
            for one in reported:
                tasks.start_soon(partial(one.run, bus, commands, prints=connection.json))
        return ExitCode.OK

    return on_bus(connection, work, client_id=name, lasting=True)


def _configured() -> list[_Reported]:
    """Return what the rules of the configuration say.

    Raises:
        UsageError: there is none, or one says something that cannot be done.
    """
    found = present_settings().notifications
    if not found:
        raise UsageError("--rules: the configuration has no [[notifications]]; `lifebus config show` names the file")
    return [_of_rule(rule) for rule in found]


def _of_rule(rule: "NotificationRule") -> _Reported:
    """Return what a rule says: its keys are the flags."""
    options, to = (
        {field.name: getattr(rule, field.name) for field in fields(kind)} for kind in (NoticeOptions, SendOptions)
    )
    try:
        return _Reported.of(rule.name, NoticeOptions(**options), SendOptions(**to), rule.command)
    except UsageError as fault:
        raise UsageError(f"the rule `{rule.name}`: {fault}") from None


def _printed(send: "Send") -> "Send":
    """Return what sends a message and then prints it."""

    async def send_and_print(message: NoticeMessage) -> None:
        await send(message)
        put_json(message, indent=0)

    return send_and_print


def _seconds(flag: str, text: str) -> float:
    seconds = parse_seconds(text, flag)
    if not 0 <= seconds <= _LONGEST_S:
        raise UsageError(f"{flag}: an hour at most")
    return seconds


def _is_quiet(hours: "QuietHours", at_ms: int) -> bool:
    return hours.hold(at_ms, None)


if TYPE_CHECKING:
    from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours

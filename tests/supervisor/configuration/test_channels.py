"""`[inbox]` and `[[inbox.channels]]` of the configuration: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings, InboxSettings

HOOK = 'name = "hook"\nkind = "webhook"\nurl = "https://example.org/x?y"\nsecret_file = "~/secret"\n'


def loaded(directory: Path, text: str, **variables: str) -> InboxSettings:
    path = directory / "config.toml"
    path.write_text(text)
    settings, _ = load({}, {"HOME": str(directory), **variables}, path)
    return settings.inbox


def test_channels_and_hours_are_read(tmp_path: Path) -> None:
    desk = '[[inbox.channels]]\nname = "d"\nkind = "desktop"\n'
    text = f'[inbox]\nquiet_hours = "22:00-07:30"\n[[inbox.channels]]\n{HOOK}{desk}'
    found = loaded(tmp_path, text, LIFEBUS_INBOX_REMIND_AFTER_MIN="5")
    hook, screen = found.channels
    assert (hook.url, hook.secret_file, hook.remind) == ("https://example.org/x?y", "~/secret", True)
    assert (screen.name, screen.kind) == ("d", "desktop")
    assert (found.remind_after_min, found.remind_longest_min) == (5, 1_440)
    assert found.quiet is not None
    assert loaded(tmp_path, "") == InboxSettings()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f'[[inbox.channels]]\n{HOOK}colour = "red"', 6, "unknown key"),
        (f"[[inbox.channels]]\n{HOOK}timeout_ms = 5", 6, "`inbox.channels[0].timeout_ms`"),
        ('[[inbox.channels]]\nname = "a"\nkind = "pigeon"', 3, "one of webhook, desktop, terminal, file, apprise"),
        ('[[inbox.channels]]\nkind = "file"', 1, "lacks `name`"),
        ('[[inbox.channels]]\nname = "a"\nkind = "file"\nurl = "http://x"', 4, "means nothing"),
        ('[[inbox.channels]]\nname = "a"\nkind = "webhook"\nurl = "http://x"', 1, "`secret_file`: exactly one"),
        (f'[[inbox.channels]]\n{HOOK}secret_variable = "X"', 5, "exactly one"),
        (f'[[inbox.channels]]\n{HOOK}url_file = "/x"', 4, "`url`: exactly one"),
        (f"[[inbox.channels]]\n{HOOK}".replace("https://", "https://a:b@"), 4, "must not hold a password"),
        (f"[[inbox.channels]]\n{HOOK}".replace("example", "[a:b@"), 4, "is no address"),
        (f"[[inbox.channels]]\n{HOOK}".replace("org/", "org:port/"), 4, "no port that can be reached"),
        (f"[[inbox.channels]]\n{HOOK}".replace("https", "ftp"), 4, "begins with http"),
        (f"[[inbox.channels]]\n{HOOK}".replace("~/secret", "secret"), 5, "absolute"),
        ('[[inbox.channels]]\nname = "a"\nkind = "apprise"\nurl = "slack://x"', 4, "means nothing"),
        ('[[inbox.channels]]\nname = "a"\nkind = "apprise"\nurl_variable = "A B"', 4, "no name of a variable"),
        ('[[inbox.channels]]\nname = "a"\nkind = "desktop"\ntitle = "$nobody"', 4, "`$nobody` means nothing"),
        ('[[inbox.channels]]\nname = "a"\nkind = "desktop"\nbody = "5 $"', 4, "stands before a name"),
        ('[[inbox.channels]]\nname = "a"\nkind = "terminal"\ndevice = "/etc/passwd"', 4, "a file in /dev"),
        ('[inbox.channels]\nname = "a"', 1, "write [[inbox.channels]]"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_without_secrets(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert words in caught.value.detail
    assert f"config.toml:{line}: " in caught.value.detail
    assert "a:b@" not in caught.value.detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[inbox]\nquiet_hours = "at night"', "two times of a day"),
        ('[inbox]\nlink_base = "gopher://x"', "begins with http"),
        ("[inbox]\nremind_after_min = -1", "inbox.remind_after_min"),
        (f"[[inbox.channels]]\n{HOOK}[[inbox.channels]]\n{HOOK}", "two of them have the same `name`"),
    ],
)
def test_values_that_do_not_go_together_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert words in caught.value.detail


def test_a_channel_holds_no_secret_of_its_own() -> None:
    assert not {"secret", "password", "token"} & set(ChannelSettings.__struct_fields__)

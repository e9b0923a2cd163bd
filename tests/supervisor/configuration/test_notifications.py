"""`[[notifications]]` of the configuration: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.notifications import NotificationRule
from lifebus_supervisor.configuration.resolution import load


def loaded(directory: Path, text: str) -> tuple[NotificationRule, ...]:
    path = directory / "config.toml"
    path.write_text(text)
    return load({}, {"HOME": str(directory)}, path)[0].notifications


def test_rules_are_read(tmp_path: Path) -> None:
    night = 'name = "night"\non = ["failures", "silence"]\nquiet = "22:00-07:00"\nwebhook_file = "/etc/hook"\n'
    desk = 'name = "desk"\nproject = ["api", "web*"]\nafter = "500ms"\n'
    first, second = loaded(tmp_path, f"[[notifications]]\n{night}[[notifications]]\n{desk}")
    assert (first.on, first.quiet, first.webhook_file) == (("failures", "silence"), "22:00-07:00", "/etc/hook")
    assert (second.project, second.after, second.on[0]) == (("api", "web*"), "500ms", "waits")
    assert loaded(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "lacks `name`"),
        ('name = "a"\ncolour = "red"', "unknown key"),
        ('name = "a"\non = ["wait"]', "`notifications[0].on`"),
        ('name = "a"\non = []', "`notifications[0].on`"),
        ('name = "a"\nafter = "soon"', "`notifications[0].after`"),
        ('name = "a"\npressure = 0', "`notifications[0].pressure`"),
        ('name = "a"\nquiet = "22-7"', "two times of a day"),
        ('name = "a"\nwebhook = "ftp://x"', "begins with http"),
        ('name = "a"\nwebhook = "https://me:secret@example.org"', "must not hold a password"),
        ('name = "a"\nwebhook = "https://example.org"\ncommand = ["true"]', "one way out"),
        ('name = "a"\napprise_file = "/a"\nwebhook_file = "/b"', "one way out"),
        ('name = "a"\nsecret_file = "/a"', "only posts"),
        ('name = "a"\n[[notifications]]\nname = "a"', "notifications: two of them have the same `name`"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, f"[[notifications]]\n{text}\n")
    assert words in str(caught.value)
    assert "secret@" not in str(caught.value)

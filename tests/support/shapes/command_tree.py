"""Every command of the command line."""

from collections.abc import Iterator

from cyclopts import App


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Yield every command of the tree; a group whose own command is one of its members only as the member."""
    members = {name: app[name] for name in app if not name.startswith("-")}
    known = [one.default_command for one in members.values()]
    if app.default_command is not None and app.default_command not in known:
        yield path, app
    for name, one in members.items():
        yield from commands(one, (*path, name))

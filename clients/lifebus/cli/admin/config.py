"""`lifebus config` and `lifebus completions`: the settings in force, and a shell's completion script."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import App, Parameter

from lifebus.cli.arguments import parse_choice
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import paint, put, put_json, put_table, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lifebus_supervisor.configuration.resolution import Origin

app = App(name="config")
_File = Annotated[Path | None, Parameter(name="--config", env_var="LIFEBUS_CONFIG")]


@app.default
@app.command
def show(*key: str, config: _File = None, origin: bool = False, json: bool = False) -> ExitCode:
    """Show the settings in force, or some of them.

    Args:
        key: Only these, e.g. ledger.backend; `ledger` is all that begin so.
        config: The configuration file.
        origin: Show where each comes from, and which other values it overrides.
        json: Answer in JSON.
    """
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    _, settings = load(config_path=config)
    origins = _chosen(settings, key)
    if json:
        put_json({key: _plain(one) if origin else one.value for key, one in origins.items()})
        return ExitCode.OK
    if not origin:
        put_table(("key", "value"), [(key, _text(one.value)) for key, one in origins.items()])
        return ExitCode.OK
    rows: list[tuple[str, ...]] = []
    for name, one in origins.items():
        rows.append((name, _text(one.value), one.source, one.where))
        # What lost is listed below what won, so that a setting that has no effect can be found.
        rows += [("", f"({_text(weak.value)})", weak.source, weak.where) for weak in one.overridden]
    put_table(("key", "value", "source", "where"), rows, color_of={"default": "dim", "flag": "cyan"})
    return ExitCode.OK


@app.command
def check(file: Path | None = None, /, *, json: bool = False) -> ExitCode:
    """Check the settings and the manifests they name; exit code 78 if something is wrong.

    Args:
        file: The configuration file; without one, the file that a broker would read.
        json: Answer in JSON.
    """
    from lifebus_supervisor.configuration.adapters import configured_adapters  # noqa: PLC0415
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    settings, origins = load(config_path=file)
    adapters = configured_adapters(settings).all()
    changed = [key for key, one in origins.items() if one.source != "default"]
    if json:
        put_json({"valid": True, "changed": changed, "adapters": [one.manifest.adapter_id for one in adapters]})
        return ExitCode.OK
    put(f"{paint('valid', 'green')}: {len(changed)} settings differ from the defaults, {len(adapters)} adapters")
    if not changed:
        say("`lifebus config show` lists all settings")
    return ExitCode.OK


def _chosen(origins: "Mapping[str, Origin]", keys: "Sequence[str]") -> "Mapping[str, Origin]":
    """Return the settings that are named, by their keys or by the tables they are in; all without a name.

    Raises:
        UsageError: there is no such key.
    """
    tables = dict.fromkeys(name.partition(".")[0] for name in origins)
    for one in keys:
        parse_choice("KEY", one, [*origins, *tables])
    return {name: one for name, one in origins.items() if not keys or name in keys or name.partition(".")[0] in keys}


def _plain(origin: "Origin") -> dict[str, Any]:
    return {
        "value": origin.value,
        "source": origin.source,
        "where": origin.where,
        "overridden": [_plain(weak) for weak in origin.overridden],
    }


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(str(item) for item in cast("tuple[object, ...]", value)) or "none"
    return str(value)


def completions(shell: Literal["bash", "zsh", "fish"]) -> ExitCode:
    """Print a completion script, e.g. `lifebus completions bash > ~/.local/share/bash-completion/completions/lifebus`.

    Args:
        shell: Which shell.
    """
    from lifebus.cli.app import make_app  # noqa: PLC0415

    put(make_app().generate_completion(prog_name="lifebus", shell=shell))
    return ExitCode.OK

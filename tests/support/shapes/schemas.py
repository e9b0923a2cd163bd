"""The JSON Schemas of docs/json: `PYTHONPATH=tests python tests/support/shapes/schemas.py` writes them."""

import json
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from support.paths import DOCS
from support.shapes.commands import LINES, SHAPES, AnyOf

FOLDER: Final = DOCS / "json"


def file_of(command: str) -> Path:
    """Return the file with the schema of a command."""
    return FOLDER / f"{command.replace(' ', '-')}.json"


def schema_of(command: str) -> dict[str, Any]:
    """Return the schema of what a command prints, or of each of its lines."""
    shape = SHAPES[command]
    found = _any_of(shape) if isinstance(shape, AnyOf) else msgspec.json.schema(shape)
    what = "Each document that" if command in LINES else "What"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"lifebus {command} --json",
        "description": f"{what} `lifebus {command} --json` prints.",
        **{name: value for name, value in found.items() if name not in {"title", "description"}},
    }


def _any_of(shape: AnyOf) -> dict[str, Any]:
    found, named = msgspec.json.schema_components(shape.types, ref_template="#/$defs/{name}")
    either = {"anyOf": list(found)}
    return ({"type": "array", "items": either} if shape.listed else either) | {"$defs": named}


def text_of(command: str) -> str:
    """Return the schema as it is written."""
    return json.dumps(schema_of(command), indent=1, ensure_ascii=False) + "\n"


def strict(schema: object) -> Any:
    """Return the schema without room for keys that it does not name: what is printed has to be described."""
    if isinstance(schema, list):
        return [strict(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(one) for name, one in cast("dict[str, object]", schema).items()}
    return found | {"additionalProperties": False} if "properties" in found else found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in SHAPES:
        file_of(name).write_text(text_of(name))

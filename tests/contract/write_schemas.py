"""Write the JSON Schemas that the package ships: `python tests/contract/write_schemas.py`.

They are generated from the structs; tests/contract/test_schemas.py fails when they drift apart.
"""

import json
from pathlib import Path

from lifebus_contract import KINDS, schema_for

SCHEMAS = Path(__file__).parents[2] / "broker" / "lifebus_contract" / "schemas"


def schema_text(kind: str) -> str:
    return json.dumps(schema_for(kind), indent=2, ensure_ascii=False) + "\n"


def write_all() -> None:
    SCHEMAS.mkdir(exist_ok=True)
    for kind in KINDS:
        (SCHEMAS / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    write_all()

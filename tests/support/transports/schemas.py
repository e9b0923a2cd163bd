"""Answers of the gateway against its own description."""

from typing import Any

import jsonschema

from lifebus_transports.http.documents.openapi import openapi


def fits(answer: Any, method: str, path: str) -> Any:
    """Check an answer with the description of its route, and return its body."""
    described = openapi()
    found = described["paths"][path][method]["responses"][str(answer.status_code)]
    schema = found["content"]["application/json"]["schema"] | {"components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())  # pyright: ignore[reportUnknownMemberType]
    return answer.json()

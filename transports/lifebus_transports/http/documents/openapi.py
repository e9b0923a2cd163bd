"""The OpenAPI description of the routes, made of their table.  Pure."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from lifebus_contract import CONTRACT_VERSION
from lifebus_transports.http.following.opening import StreamQuery
from lifebus_transports.http.operations.errors import ErrorBody
from lifebus_transports.http.operations.operation import JSON, Gate, Operation
from lifebus_transports.http.operations.table import OPERATIONS

REFERENCE: Final = "#/components/schemas/{name}"
_ACCESS: Final = (400, 401, 403, 429)
_FAILED: Final = (500, 503)
_WRITING: Final = (408, 413, 415)


def openapi() -> dict[str, Any]:
    """Return the description."""
    types = sorted({kind for one in OPERATIONS for kind in _types(one)} | {ErrorBody}, key=_name)
    _, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    paths["/api/events"] = {"get": _events()}
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "lifebus",
            "version": CONTRACT_VERSION,
            "description": "The gateway of a lifebus broker: see docs/gateway.md.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "http://127.0.0.1:{port}", "variables": {"port": {"default": "8000"}}}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "What `gateway.token` holds."},
                "rbacToken": {"type": "apiKey", "in": "header", "name": "x-codex-rbac-token"},
                "rbacJwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }
    return plain(description)


def plain(description: dict[str, Any]) -> dict[str, Any]:
    """Return a description of lists, objects and texts alone, as whoever reads it has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(description))
    return found


def parameters_of(kind: type[Struct], where: str) -> list[dict[str, Any]]:
    """Return the parameters that a type stands for."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    _, found = msgspec.json.schema_components([kind], ref_template="#/{name}")
    described = found[schema["$ref"].rpartition("/")[2]]
    required = set(described.get("required", ()))
    return [
        {
            "name": name,
            "in": where,
            "required": where == "path" or name in required,
            "schema": _inlined(one, found),
        }
        for name, one in described.get("properties", {}).items()
    ]


def _described(operation: Operation) -> dict[str, Any]:
    parameters = parameters_of(operation.place, "path") + parameters_of(operation.query, "query")
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": _responses(operation),
    }
    if operation.gate is Gate.ROLE:
        found["security"] = [{"token": []}, {"rbacToken": []}, {"rbacJwt": []}]
    elif operation.gate is Gate.OPEN:
        found["security"] = []
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        # A body without fields may be left out.
        found["requestBody"] = {"required": bool(operation.body.__struct_fields__), "content": content}
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    refused = {*_ACCESS, *_FAILED, *(_WRITING if operation.body is not None else ())}
    kinds: Mapping[int, Any] = {**dict.fromkeys(refused, ErrorBody), **operation.answers}
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {operation.media if kind is str else JSON: {"schema": _reference(kind)}},
        }
        for status, kind in sorted(kinds.items())
    }


def _events() -> dict[str, Any]:
    """Return the description of the stream of server-sent events; its frames stand in the AsyncAPI description."""
    refused = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": _reference(ErrorBody)}},
        }
        for status in sorted({*_ACCESS, *_FAILED})
    }
    last = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string", "maxLength": 1024}}
    return {
        "operationId": "events",
        "summary": "Follows topics as server-sent events.",
        "tags": ["streams"],
        "parameters": [*parameters_of(StreamQuery, "query"), last],
        "responses": {
            "200": {"description": "OK", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **refused,
        },
    }


def _types(operation: Operation) -> list[type[Struct]]:
    kinds = [operation.body, *operation.answers.values()]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)]


def _reference(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return {"$ref": REFERENCE.format(name=_name(kind))}
    return {"type": "string" if kind is str else "object"}


def _name(kind: type[Struct]) -> str:
    return kind.__name__


def _inlined(schema: Any, found: Mapping[str, Any]) -> Any:
    """Return a schema whose references are filled in: parameters have no components of their own."""
    if isinstance(schema, dict):
        described = cast("dict[str, Any]", schema)
        if "$ref" in described:
            return _inlined(found[str(described["$ref"]).rpartition("/")[2]], found)
        return {key: _inlined(one, found) for key, one in described.items()}
    if isinstance(schema, list):
        return [_inlined(one, found) for one in schema]  # pyright: ignore[reportUnknownVariableType]
    return schema

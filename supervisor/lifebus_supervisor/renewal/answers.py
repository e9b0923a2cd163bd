"""What a client's three answers say, by the paths of its profile.  Pure; nothing of an answer stands in an error."""

from typing import Any, cast

from msgspec import Struct

from lifebus_contract import InvalidRequest, LifebusError, load_json
from lifebus_contract.fields import MAX_INTEGER
from lifebus_supervisor.renewal.profile import AnswerPaths

_THREAD_CHARACTERS = 256


class Prepared(Struct, frozen=True, kw_only=True):
    """What the client prepared: the thread that it binds, and its token, which `repr` leaves out."""

    thread: str
    token: str
    expires_at: int | None = None

    def __repr__(self) -> str:
        return f"<Prepared {len(self.token)} characters>"


def read_recommendation(stdout: bytes, paths: AnswerPaths) -> bool:
    """Return whether the client recommends a renewal.

    Raises:
        InvalidRequest: the answer is not one JSON object.
    """
    return bool(_at(_object(stdout), paths.action) == paths.renew)


def read_prepared(stdout: bytes, paths: AnswerPaths) -> Prepared:
    """Return what the client prepared.

    Raises:
        InvalidRequest: no JSON object, or without token or thread.
    """
    answer = _object(stdout)
    token, thread = _at(answer, paths.token), _at(answer, paths.thread)
    if not isinstance(token, str) or not token:
        raise InvalidRequest(f"the answer has no text at `{paths.token}`", code="no_token")
    if not _is_thread(thread):
        raise InvalidRequest(f"the answer has no thread at `{paths.thread}`", code="no_thread")
    expires = _at(answer, paths.expires_at) if paths.expires_at else None
    # a bool is an int to isinstance
    if expires is not None and (type(expires) is not int or not 0 <= expires <= MAX_INTEGER):
        raise InvalidRequest(f"the answer has no seconds at `{paths.expires_at}`", code="bad_expiry")
    return Prepared(thread=str(thread), token=token, expires_at=expires)


def read_thread(stdout: bytes, paths: AnswerPaths) -> str | None:
    """Return the thread that the client reports once it has its token back, None where it reports none.

    Raises:
        InvalidRequest: the answer is not one JSON object.
    """
    thread = _at(_object(stdout), paths.thread)
    return str(thread) if _is_thread(thread) else None


def _object(stdout: bytes) -> dict[str, Any]:
    try:
        answer = load_json(stdout)
    except LifebusError:
        answer = None
    if not isinstance(answer, dict):
        raise InvalidRequest("the answer is not one JSON object", code="bad_answer")
    return cast("dict[str, Any]", answer)


def _at(answer: dict[str, Any], path: str) -> Any:
    value: Any = answer
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(key)
    return value


def _is_thread(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _THREAD_CHARACTERS and value.isprintable()

"""The files of the dashboard, as they lie in the package: read once, given out as they are."""

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lifebus_transports.http.operations.errors import refuse
from lifebus_transports.http.requests import respond

_INDEX: Final = "index.html"
_SCREENS: Final = "screens/"
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class DashboardFiles:
    """Gives out the files of the folder `static` and its folder of screens; there are no others."""

    def __init__(self) -> None:
        folder = files("lifebus_transports.http.dashboard").joinpath("static")
        self._files = {
            f"{below}{one.name}": one.read_bytes()
            for below in ("", _SCREENS)
            for one in folder.joinpath(below).iterdir()
            if _type_of(one.name)
        }

    async def answer(self, request: Request) -> Response:
        """Answer with a file."""
        name = request.path_params.get("name", _INDEX)
        data = self._files.get(name)
        if data is None:
            return respond(refuse(404, "not_found", "there is no such file"))
        return Response(data, headers={"Content-Type": f"{_type_of(name)}; charset=utf-8"})


def _type_of(name: str) -> str | None:
    return next((kind for suffix, kind in _TYPES.items() if name.endswith(suffix)), None)

"""The files of the plain runtime: below its root, in the ways in which one can get that wrong."""

import os
from pathlib import Path
from typing import Any

Document = dict[str, Any]


class Refused(Exception):
    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class Files:
    wrong: str
    root: Path

    def path(self, text: str) -> Path:
        if self.wrong == "files.beneath_root":
            found = (self.root / text).resolve()
            if not str(found).startswith(str(self.root)):
                raise Refused("refused", text)
            return found
        found = Path(os.path.normpath(self.root / text))
        if self.wrong != "files.symlinks":
            found = found.resolve()
        if self.root not in (found, *found.parents):
            raise Refused("refused", text)
        return found

    def on_read(self, params: Document) -> Any:
        file = self.path(params["path"])
        if not file.is_file() and self.wrong != "files.read":
            raise Refused("not_found", params["path"])
        return {"content": file.read_text() if file.is_file() else ""}

    def on_write(self, params: Document) -> Any:
        with self.path(params["path"]).open("a" if self.wrong == "files.write" else "w") as file:
            file.write(params["content"])
        return {}

    def on_exists(self, params: Document) -> Any:
        return {"exists": self.path(params["path"]).exists() or self.wrong == "files.exists"}

    def on_list(self, params: Document) -> Any:
        found = list(self.path(params["directory"]).iterdir())
        return {"entries": [one.name for one in found if one.is_file() or self.wrong != "files.list"]}

    def on_delete(self, params: Document) -> Any:
        file = self.path(params["path"])
        if self.wrong != "files.delete":
            file.unlink()
        return {}

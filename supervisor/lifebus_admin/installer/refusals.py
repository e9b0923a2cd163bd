"""Why an installation refuses; nothing was changed in the file that it names.

InstallRefused           what, where, why, what to do next
├── SettingsUnreadable   a settings file that cannot be read with certainty: syntax, encoding, size
├── SettingsConflict     a settings file of another shape, or somebody else's value where ours belongs
├── FileRefused          a file or directory that is not ours to replace: owner, kind, mode, a foreign file
└── FileBusy             somebody kept changing the file while we did
"""

from lifebus_contract import LifebusError


class InstallRefused(LifebusError):
    """An installation, removal or inspection stops here: `what` is wrong, `where`, `why`, and what to do `next`."""

    code_word = "install_refused"

    def __init__(self, what: str, *, where: str, why: str, then: str) -> None:
        super().__init__(
            f"{what} {where}: {why}; {then}",
            field=where,
            code=self.code_word,
        )
        self.what, self.where, self.why, self.next = what, where, why, then


class SettingsUnreadable(InstallRefused):
    """The settings cannot be read with certainty, so nothing in them is touched; `line` and `column` count from 1."""

    code_word = "settings_unreadable"

    def __init__(self, where: str, why: str, *, line: int | None = None, column: int | None = None) -> None:
        place = where if line is None else f"{where}:{line}:{column}"
        super().__init__(
            "cannot read the settings", where=place, why=why, then="correct the file, then try again; it is unchanged"
        )
        self.line, self.column = line, column


class SettingsConflict(InstallRefused):
    """The settings are readable, but ours do not fit into them."""

    code_word = "settings_conflict"

    def __init__(self, where: str, why: str, *, then: str = "change it by hand, then try again") -> None:
        super().__init__("cannot change the settings", where=where, why=why, then=then)


class FileRefused(InstallRefused):
    """The file, or the directory it stands in, is not ours to write."""

    code_word = "file_refused"

    def __init__(self, where: str, why: str, *, then: str) -> None:
        super().__init__("cannot use the file", where=where, why=why, then=then)


class FileBusy(InstallRefused):
    """Another program changed the file at each of our tries; its last version stands."""

    code_word = "file_busy"

    def __init__(self, where: str, tries: int) -> None:
        super().__init__(
            "cannot write",
            where=where,
            why=f"another program changed it during each of {tries} tries",
            then="close that program, then try again; its version stands",
        )

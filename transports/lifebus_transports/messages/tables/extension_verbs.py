"""The verbs of extensions (docs/extensions.md).  Pure."""

from typing import Final

from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.extensions.bodies import (
    AuditPage,
    AuditQuery,
    DenyExtensions,
    ExtensionList,
    ReloadAnswer,
    ReloadExtensions,
    TrustAnswer,
    TrustExtension,
)
from lifebus_transports.messages.verb_types import EXTENSIONS, Access, Repeat, Verb

TABLE: Final = (
    Verb(
        name="extensions_list",
        summary="Lists the loaded extensions.",
        body=Nothing,
        answer=ExtensionList,
        pool=EXTENSIONS,
    ),
    Verb(
        name="extensions_reload",
        summary="Loads all extensions anew, or changes nothing.",
        body=ReloadExtensions,
        answer=ReloadAnswer,
        access=Access.OPERATOR,
        pool=EXTENSIONS,
        timeout_factor=20,  # imports may take their time
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="extensions_trust",
        summary="Records that the present files of an extension are trusted.",
        body=TrustExtension,
        answer=TrustAnswer,
        access=Access.OPERATOR,
        pool=EXTENSIONS,
    ),
    Verb(
        name="extensions_denied",
        summary="Writes down that somebody was not allowed to reload.",
        body=DenyExtensions,
        answer=Nothing,
        access=Access.OPERATOR,
        pool=EXTENSIONS,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="extensions_audit",
        summary="Returns who loaded, trusted and was refused.",
        body=AuditQuery,
        answer=AuditPage,
        pool=EXTENSIONS,
    ),
)
"""Their part of the table of verbs."""

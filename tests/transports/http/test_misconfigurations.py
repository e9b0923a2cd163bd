"""Every setting of the gateway that cannot be: `lifebus up --http` ends with exit code 78 and says why."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.command_line import Shell
from support.running import short_directory
from support.transports.certificates import encrypt_key, make_certificate

Setting = Callable[[Path], dict[str, str]]
SECRET: Final = "x" * 43


def words(**values: str) -> Setting:
    """Settings that are the same everywhere."""
    return lambda _: {f"LIFEBUS_GATEWAY_{name.upper()}": value for name, value in values.items()}


def secret(name: str, text: str = SECRET, mode: int = 0o600, **values: str) -> Setting:
    """A setting that names a file with a secret."""

    def make(at: Path) -> dict[str, str]:
        (at / "secret").write_text(text)
        (at / "secret").chmod(mode)
        return words(**{name: str(at / "secret")}, **values)(at)

    return make


def directory(name: str) -> Setting:
    return lambda at: words(**{name: str(at)})(at)


def tls(certificate: str = "good.pem", key: str = "good.key", **values: str) -> Setting:
    """A certificate and a key of these files, which are made where they have to be."""

    def make(at: Path) -> dict[str, str]:
        for name, days in (("good", 2), ("other", 2), ("late", -1)):
            if {f"{name}.pem", f"{name}.key"} & {certificate, key}:
                make_certificate(at, name, days)
        if key == "encrypted.key":
            encrypt_key(at / "good.key", at / key)
        (at / "junk").write_text("junk\n")
        return words(tls_cert=str(at / certificate), tls_key=str(at / key), **values)(at)

    return make


REFUSED: Final[dict[str, tuple[Setting, str]]] = {
    "an address of others without TLS": (words(host="0.0.0.0"), "reached from other machines"),
    "an address of others without names": (tls(host="::"), "reached from other machines"),
    "a name as address": (words(host="box.example"), "reached from other machines"),
    "an address that is not ours": (tls(host="192.0.2.1", hosts="box:1"), "cannot listen on 192.0.2.1"),
    "a port that there is not": (words(port="65536"), "gateway.port"),
    "a star among the hosts": (words(hosts="*"), "a star stands for nothing"),
    "a star among the origins": (words(origins="https://*.example"), "a star stands for nothing"),
    "a certificate without a key": (words(tls_cert="/c.pem"), "go together"),
    "a key without a certificate": (words(tls_key="/k.pem"), "go together"),
    "a certificate that is not there": (tls(certificate="none.pem"), "cannot read"),
    "a certificate that is none": (tls(certificate="junk"), "no certificate and its key"),
    "a key that is none": (tls(key="junk"), "no certificate and its key"),
    "the key of another certificate": (tls(key="other.key"), "key values mismatch"),
    "a certificate that has expired": (tls("late.pem", "late.key"), "certificate has expired"),
    "a key with a password": (tls(key="encrypted.key"), "is encrypted"),
    "a token that others can read": (secret("token_file", mode=0o644), "others may read"),
    "a token that is too short": (secret("token_file", "x" * 31), "holds no secret of 32 bytes"),
    "a directory as token": (directory("token_file"), "is no file of this user"),
    "roles by header without a secret": (words(rbac_mode="header"), "its secret is not there"),
    "roles by token without a secret": (words(rbac_mode="jwt"), "its secret is not there"),
    "a secret of roles that others can read": (
        secret("rbac_header_secret_file", mode=0o640, rbac_mode="header"),
        "others may read",
    ),
    "a secret of roles that is too short": (
        secret("rbac_jwt_secret_file", "short", rbac_mode="jwt"),
        "holds no secret of 32 bytes",
    ),
    "a mode of roles that there is not": (words(rbac_mode="open"), "gateway.rbac_mode"),
    "tokens that are not signed": (words(rbac_jwt_algorithm="none"), "gateway.rbac_jwt_algorithm"),
    "no connections": (words(max_connections="0"), "gateway.max_connections"),
    "no time to read": (words(send_timeout_ms="0"), "gateway.send_timeout_ms"),
    "a mode of roles by the other name": (lambda _: {"AGENT_EXTENSION_RBAC_MODE": "open"}, "rbac_mode"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_ends_with_78_and_says_why(name: str) -> None:
    setting, why = REFUSED[name]
    with short_directory() as at:
        ran = Shell(at, **setting(at)).run("up", "--http")
        assert (ran.code, ran.out) == (78, ""), ran.err
        assert why in ran.err
        assert "Traceback" not in ran.err
        assert SECRET not in ran.err
        assert not (at / "run/gateway.json").exists()


def test_a_port_that_is_taken_ends_with_78_and_says_so() -> None:
    with short_directory() as at, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = Shell(at).run("up", "--http", LIFEBUS_GATEWAY_PORT=str(port))
        assert ran.code == 78
        assert f"cannot listen on localhost, port {port}" in ran.err

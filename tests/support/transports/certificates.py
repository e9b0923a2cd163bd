"""Certificates for tests, made by `openssl`: good ones, and one for each way in which they are refused."""

import subprocess
from pathlib import Path

from msgspec import Struct


class Pair(Struct, frozen=True):
    """A certificate and its key."""

    certificate: Path
    key: Path


def make_certificate(directory: Path, name: str = "good", days: int = 2) -> Pair:
    """Make a certificate of this machine that signs itself; with negative days it has expired."""
    certificate, key, request = (directory / f"{name}.{end}" for end in ("pem", "key", "csr"))
    names = directory / f"{name}.ext"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n")
    new = ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(*new, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    sign = ["x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-extfile", names]
    _openssl(*sign, "-out", certificate)
    return Pair(certificate, key)


def encrypt_key(key: Path, to: Path) -> None:
    """Write a key that needs a password."""
    _openssl("ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", to)


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

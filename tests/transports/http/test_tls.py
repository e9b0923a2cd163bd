"""The gateway over TLS: real clients, and certificates that no client would take."""

import socket
import ssl
from pathlib import Path

import anyio
import httpx
import pytest

from lifebus_contract import LifebusError
from lifebus_transports.http.access.certificates import check_certificate
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.certificates import Pair, encrypt_key, make_certificate
from support.transports.gateway import emit, next_frame, running_gateway


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A certificate of this machine."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def test_routes_and_streams_are_served_to_clients_that_trust_the_certificate(pair: Pair) -> None:
    trusting = ssl.create_default_context(cafile=str(pair.certificate))
    certificate, key = str(pair.certificate), str(pair.key)
    async with running_gateway(tls_cert=certificate, tls_key=key) as (daemon, address), connected(daemon) as bus:
        assert address.url == f"https://localhost:{address.port}"
        async with address.client(verify=trusting) as client:
            assert (await client.get("/api/health")).json()["status"] == "ok"
            for host in ("127.0.0.1", "[::1]"):
                assert (await client.get(f"https://{host}:{address.port}/api/health")).status_code == 200
            assert (await client.get("/api/health", headers={"Host": "evil.example"})).status_code == 403
            assert (await client.get("/api/health", headers={"Authorization": "x"})).status_code == 401
            await emit(bus, "s1")
            async with client.stream("GET", "/api/events?from=oldest") as answer:
                lines = answer.aiter_lines()
                with anyio.fail_after(PATIENCE_S):
                    while '"type":"receipt"' not in await anext(lines):
                        pass
        async with address.socket("?from=oldest", ssl=trusting) as following:
            assert [(await next_frame(following))["type"] for _ in range(2)] == ["ready", "receipt"]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_who_does_not_trust_it_or_speaks_without_tls_gets_nothing(pair: Pair) -> None:
    certificate, key = str(pair.certificate), str(pair.key)
    async with running_gateway(tls_cert=certificate, tls_key=key) as (_, address):
        async with address.client(verify=ssl.create_default_context()) as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get("/api/health")
        async with httpx.AsyncClient(headers=address.bearer) as plain:
            with pytest.raises(httpx.TransportError):
                await plain.get(f"http://127.0.0.1:{address.port}/api/health")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError):
            await anyio.to_thread.run_sync(handshake, old, address.port)


def handshake(context: ssl.SSLContext, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain, context.wrap_socket(plain) as secure:
        secure.version()


def test_a_good_certificate_passes_and_each_bad_one_is_named(pair: Pair, tmp_path: Path) -> None:
    check_certificate(pair.certificate, pair.key)
    other, late = make_certificate(tmp_path, "other"), make_certificate(tmp_path, "late", days=-1)
    encrypt_key(pair.key, tmp_path / "encrypted")
    (tmp_path / "junk").write_text("no certificate\n")
    chain = tmp_path / "chain"
    chain.write_bytes(other.certificate.read_bytes() + pair.certificate.read_bytes())
    refused = [
        (late.certificate, late.key, "certificate has expired"),
        (pair.certificate, other.key, "key values mismatch"),
        (chain, pair.key, "key values mismatch"),
        (tmp_path / "junk", pair.key, "in PEM"),
        (pair.certificate, tmp_path / "junk", "in PEM"),
        (pair.certificate, tmp_path / "encrypted", "is encrypted"),
        (tmp_path / "none", pair.key, "No such file"),
        (pair.certificate, tmp_path, "Is a directory"),
    ]
    for certificate, key, words in refused:
        with pytest.raises(LifebusError, match=words) as fault:
            check_certificate(certificate, key)
        assert fault.value.code == "gateway_certificate"

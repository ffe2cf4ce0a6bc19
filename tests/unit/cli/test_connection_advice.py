"""What a command says that cannot reach a server."""

import re
import socket
import subprocess
import sys
import threading

import click
import pytest

from groundwire.cli.connection import advice_on, connect
from groundwire.client.transport import addresses
from groundwire.kernel.errors import InvalidRequestError, UnavailableError

REFUSED = "connections to all backends failing; last error: UNKNOWN: ipv6:%5B::1%5D:5: Connection refused"
HUNG_UP = "connections to all backends failing; last error: UNAVAILABLE: ipv4:127.0.0.1:5: Socket closed"
EXPIRED = (
    "connections to all backends failing; last error: UNKNOWN: ipv4:127.0.0.1:5: Tls handshake failed "
    "(TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: "
    "certificate has expired: OK"
)


@pytest.mark.parametrize("messages", [(HUNG_UP,), (REFUSED, HUNG_UP), (HUNG_UP, REFUSED)])
def test_a_name_with_an_address_at_which_nothing_listens_does_not_hide_that_the_other_wants_tls(
    messages: tuple[str, ...],
) -> None:
    assert "add --tls-ca" in advice_on(*messages)


def test_of_a_failed_handshake_only_the_reason_is_told() -> None:
    assert advice_on(REFUSED, EXPIRED) == " over TLS: CERTIFICATE_VERIFY_FAILED: certificate has expired"


@pytest.mark.parametrize("problem", ["self signed certificate", "unable to get local issuer certificate"])
def test_an_authority_that_is_not_known_can_be_named(problem: str) -> None:
    told = advice_on(EXPIRED.replace("certificate has expired", problem))
    assert told == f" over TLS: CERTIFICATE_VERIFY_FAILED: {problem}; name its authority with --tls-ca"


def test_a_certificate_for_another_name_is_told_in_plain_words() -> None:
    message = "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed."
    told = advice_on(f"connections to all backends failing; last error: UNKNOWN: {message}")
    assert told == " over TLS: its certificate is for another name than that of the address"


def test_what_is_known_of_the_call_is_told_with_the_advice() -> None:
    with click.Context(click.Command("reindex")) as context:
        context.meta["groundwire.address"] = "127.0.0.1:1"
        with pytest.raises(UnavailableError, match=r"^no server answers at 127\.0\.0\.1:1") as raised, connect():
            raise UnavailableError("gone", operation="operations/1")
    assert raised.value.metadata == {"operation": "operations/1"}


def test_where_nothing_listens_a_server_has_to_be_started() -> None:
    assert advice_on(REFUSED, REFUSED).startswith("; start one with `groundwire serve`")


def test_a_server_without_tls_is_told_in_one_line() -> None:
    """Of a process of its own, because the library reads at its import what it may log."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        host, port = listener.getsockname()
        command = [sys.executable, "-m", "groundwire.cli", "stats", "--tls", "--address", f"{host}:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        listener.shutdown(socket.SHUT_RDWR)
    assert done.stderr == (
        f"error UNAVAILABLE: no server answers at {host}:{port} over TLS: what listens there does not speak TLS; "
        "leave out --tls and the like\n"
    )


@pytest.mark.parametrize("address", ["http://127.0.0.1:50051", "https://a:1", "ingest=a:1,retrieve=HTTP://b:1"])
def test_an_address_is_no_url(address: str) -> None:
    with pytest.raises(InvalidRequestError, match="without http://"):
        addresses(address)
    assert addresses("dns:///a:1")["ingest"] == "dns:///a:1"


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("localhost", "localhost:50051"),
        ("ingest=a:1,retrieve=localhost", "localhost:50051"),
        ("[::1]", "[::1]:50051"),
    ],
)
def test_an_address_has_a_port(address: str, meant: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"needs a port, such as {re.escape(meant)}"):
        addresses(address)
    assert addresses("[::1]:1")["answer"] == "[::1]:1"
    assert addresses("unix:/run/groundwire")["answer"] == "unix:/run/groundwire"


@pytest.mark.parametrize("address", ["ingest=", "a:1,ingest=b:1", "ingest=a:1,ingest=b:1"])
def test_an_address_of_each_service_names_it_once(address: str) -> None:
    with pytest.raises(InvalidRequestError, match="names each service once"):
        addresses(address)

"""How commands reach the server: the connection, and what to do without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundwire.cli.options import option_value
from groundwire.client import GroundwireClient
from groundwire.client.clients import tls_from_files, token_from_file
from groundwire.client.transport import addresses
from groundwire.kernel.errors import DeadlineError, GroundwireError, UnauthenticatedError, UnavailableError

# Short, because the failure itself is known already and a person waits for its reason.
_PROBE_S = 1.0


def connection(timeout_s: float | None = None) -> dict[str, Any]:
    """Return the arguments of a client: the server and credentials that the command's options name."""
    files = option_value("tls_ca"), option_value("tls_client_certificate"), option_value("tls_client_key")
    token_file = option_value("token_file")
    return {
        "address": option_value("address"),
        "timeout_s": timeout_s,
        "credentials": tls_from_files(*files) if option_value("tls") or any(files) else None,
        "metadata": None if token_file is None else token_from_file(token_file),
    }


@contextmanager
def connect() -> Iterator[GroundwireClient]:
    """Open a client for the time of a command.

    Raises:
        UnavailableError: nothing answers at the address, with what people can do about it.
        UnauthenticatedError: with what to do, if the command has no credential.
    """
    with GroundwireClient(**connection()) as client:
        try:
            yield client
        except UnavailableError as error:
            # A subclass is the error of a server that can be reached.
            if type(error) is UnavailableError and (silent := unreachable()):
                advice = advice_on(error.message, *silent.values())
                message = f"no server answers at {', '.join(silent)}{advice}"
                raise UnavailableError(message, **error.metadata) from error
            raise
        except UnauthenticatedError as error:
            if option_value("token_file") is None:
                advice = "name a file with an API key or a token with --token-file"
                raise UnauthenticatedError(f"{error.message}: {advice}", **error.metadata) from error
            raise


def advice_on(*messages: str) -> str:
    """Return what people can do, who are told that no server answers, where the library said `messages`.

    Each tells of one address alone, of a name such as `localhost` often of that at which nothing listens.
    """
    reasons = [message.rpartition("last error: ")[2] for message in messages]
    for reason in reasons:
        if "WRONG_VERSION_NUMBER" in reason:
            return " over TLS: what listens there does not speak TLS; leave out --tls and the like"
        if "Hostname Verification" in reason:
            return " over TLS: its certificate is for another name than that of the address"
        if "handshake" in reason or "Verification" in reason:
            problem = reason.rpartition("OPENSSL_internal:")[2].removesuffix(": OK")
            is_unknown = "self signed" in problem or "local issuer" in problem
            return f" over TLS: {problem}{'; name its authority with --tls-ca' if is_unknown else ''}"
    if any("Socket closed" in reason for reason in reasons):
        return (
            "; what listens there hangs up, as servers do that ask for TLS or a client certificate: add --tls-ca, or "
            "--tls-client-certificate and --tls-client-key"
        )
    return "; start one with `groundwire serve`, or name one with --address"


def unreachable() -> dict[str, str]:
    """Return, for each address at which no server can be reached, not even for its health, what the library says."""
    # One service for each address: the client asks where that service is.
    at = {target: service for service, target in addresses(str(option_value("address"))).items()}
    silent: dict[str, str] = {}
    with GroundwireClient(**connection(_PROBE_S)) as client:
        for target, service in at.items():
            try:
                client.health(service=f"groundwire.api.{service}.v1.{service.title()}Service")
            except (UnavailableError, DeadlineError) as error:
                silent[target] = error.message
            except GroundwireError:  # such as that it has no such service: it answers
                continue
    return silent

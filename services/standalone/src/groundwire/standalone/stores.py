"""Where the databases of a process are, and whether several processes can share its stores."""

from typing import TYPE_CHECKING

from pydantic import SecretStr

from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.standalone.settings import ServerSettings, ServiceName

if TYPE_CHECKING:
    from groundwire.catalog.database import Database

_SERVERS = ("postgresql:", "postgres:")


def open_database(server: ServerSettings, url: str, file: str, field: str, password: SecretStr | None) -> "Database":
    """Open a catalog, or a database of sessions; `file` below the data folder is that of `sqlite:` without one.

    Raises:
        InvalidRequestError: the URL is of another form; names the field.
        GroundwireError: as `Database.open` does.
    """
    from groundwire.catalog.database import Database, Limits  # noqa: PLC0415 - answers need no database

    if url.startswith("sqlite:"):
        url = f"sqlite:{server.data / (url.removeprefix('sqlite:') or file)}"
    elif not url.startswith(_SERVERS):
        raise InvalidRequestError.of(field, f"{url!r} is of neither form: sqlite:FILE, postgresql://…")
    return Database.open(
        url,
        folder=server.data,
        password=None if password is None else password.get_secret_value(),
        limits=Limits(server.catalog_connections, server.catalog_wait_s, server.catalog_statement_s),
    )


def check_stores(service: ServiceName, server: ServerSettings) -> None:
    """Return if a process can run this service on the stores that are configured.

    Raises:
        InvalidRequestError: naming the setting that does not fit.
    """
    is_answer, is_alone = service is ServiceName.ANSWER, service is not ServiceName.ALL
    shares_catalog, shares_sessions = server.catalog.startswith(_SERVERS), server.sessions.startswith(_SERVERS)
    rules = (
        (is_answer and not server.retrieve, "retrieve", "must say where to search, such as dns:///retrieve:50051"),
        (not is_answer and server.retrieve, "retrieve", "is for `serve answer`"),
        (not is_answer and server.ingest, "ingest", "is for `serve answer`"),
        (not is_answer and server.sessions, "sessions", "is for `serve answer`; elsewhere they are in the catalog"),
        (
            server.processes > 1 and service not in {ServiceName.RETRIEVE, ServiceName.ANSWER},
            "processes",
            "is for `serve retrieve` and `serve answer`",
        ),
        (
            is_answer and server.processes > 1 and not shares_sessions,
            "sessions",
            "must be postgresql://…, which several processes can share",
        ),
        (
            is_alone and not is_answer and not shares_catalog,
            "catalog",
            f"must be postgresql://… for `serve {service}`: SQLite has one owner, which is `serve`",
        ),
        (
            is_alone and not is_answer and "://" not in server.vectors,
            "vectors",
            f"must be a server for `serve {service}`, such as qdrant://HOST: an engine in a folder has one owner",
        ),
    )
    violations = [FieldViolation(field, message) for is_broken, field, message in rules if is_broken]
    if violations:
        raise InvalidRequestError(violations)

"""Settings of the embedded process; every field is described in docs/reference/settings.md."""

import hashlib
import os
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from groundwire.answer.settings import AnswerSettings
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, refuse
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.logs import LogFormat
from groundwire.rpc.methods import CALL_LIMITS, FIRST_MESSAGE_S, STREAM_IDLE_S, Work
from groundwire.vectorstores.engine_process import HUNG_AFTER_S

PREFIX = "GROUNDWIRE_"
CLIENT_VARIABLES = {
    "GROUNDWIRE_ADDRESS",
    "GROUNDWIRE_COLLECTION",
    "GROUNDWIRE_ENV_FILE",
    "GROUNDWIRE_TLS",
    "GROUNDWIRE_TLS_CA",
    "GROUNDWIRE_TLS_CLIENT_CERTIFICATE",
    "GROUNDWIRE_TLS_CLIENT_KEY",
    "GROUNDWIRE_TOKEN_FILE",
}
"""Variables that the command line reads, not the server."""
_FOLDERS = ("GROUNDWIRE_DATA", "GROUNDWIRE_CACHE", "GROUNDWIRE_INGEST_STAGING")
_TEST_PREFIX = "GROUNDWIRE_TEST_"
_SECRETS = "GROUNDWIRE_SECRETS"

IN_MEMORY = "memory:"
"""Sessions that are lost with their process."""


class ServiceName(StrEnum):
    """What a process can be started as."""

    ALL = "all"
    INGEST = "ingest"
    RETRIEVE = "retrieve"
    ANSWER = "answer"


AnySettings = TypeVar("AnySettings", bound=BaseSettings)


class ServerSettings(BaseSettings):
    """What the process listens on, where it keeps its data, and which engines it uses."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    listen: str = "127.0.0.1:50051"
    metrics: str = ""
    insecure: bool = False
    keys: Path | None = None
    jwks: Path | None = None
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_tenant_claim: str = "tenant"
    jwt_rights_claim: str = "rights"
    jwt_scopes_claim: str = "scopes"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_services: str = ""
    caller_units_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    caller_burst: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    caller_calls: int | None = Field(default=None, ge=1)
    tenant_documents: int | None = Field(default=None, ge=1)
    tenant_stored_bytes: int | None = Field(default=None, ge=1)
    data: Path = Path("groundwire-data")
    cache: Path = Field(
        default_factory=lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundwire"
    )
    catalog: str = "sqlite:"
    catalog_password: SecretStr | None = None
    catalog_connections: int = Field(default=16, ge=2, le=256)
    catalog_wait_s: float = Field(default=10.0, ge=1, le=600)
    catalog_statement_s: float = Field(default=60.0, ge=1, le=3600)
    vectors: str = "qdrant-edge:"
    vectors_api_key: SecretStr | None = None
    vectors_open_collections: int = Field(default=32, ge=1, le=1000)
    engine_hung_after_s: float = Field(default=HUNG_AFTER_S, ge=5, le=3600)
    embedder: str = "sentence-transformers:all-MiniLM-L6-v2"
    embedder_api_key: SecretStr | None = None
    generator: str = "extractive:"
    retrieve: str = ""
    ingest: str = ""
    retrieve_tls_ca: Path | None = None
    service_key: SecretStr | None = None
    sessions: str = ""
    sessions_password: SecretStr | None = None
    processes: int = Field(default=1, ge=1, le=64)
    token_key: SecretStr | None = None
    workers: int = Field(default=8, ge=2, le=256)
    max_search_calls: int = Field(default=CALL_LIMITS[Work.SEARCH], ge=1)
    max_read_calls: int = Field(default=CALL_LIMITS[Work.READ], ge=1)
    max_write_calls: int = Field(default=CALL_LIMITS[Work.WRITE], ge=1)
    max_upload_calls: int = Field(default=CALL_LIMITS[Work.UPLOAD], ge=1)
    max_stream_calls: int = Field(default=CALL_LIMITS[Work.STREAM], ge=1)
    max_conversation_calls: int = Field(default=CALL_LIMITS[Work.CONVERSATION], ge=1)
    first_message_s: float = Field(default=FIRST_MESSAGE_S, gt=0, le=86400)
    stream_idle_s: float = Field(default=STREAM_IDLE_S, gt=0, le=86400)
    drain_s: float = Field(default=20.0, ge=0, le=86400)
    default_deadline_s: float = Field(default=60.0, gt=0, le=86400)
    reflection: bool = True
    public_reflection: bool = False
    log_format: LogFormat = "auto"

    # Not with ValueError, of which the library would not say which settings it is about.
    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidRequestError.of("GROUNDWIRE_TLS_CERTIFICATE", "must be set together with GROUNDWIRE_TLS_KEY")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            needs = "needs GROUNDWIRE_TLS_CERTIFICATE and GROUNDWIRE_TLS_KEY"
            raise InvalidRequestError.of("GROUNDWIRE_TLS_CLIENT_CA", needs)
        if self.jwks is not None and not (self.jwt_issuer and self.jwt_audience):
            needs = (
                "needs GROUNDWIRE_JWT_ISSUER and GROUNDWIRE_JWT_AUDIENCE, or tokens meant for others would be accepted"
            )
            raise InvalidRequestError.of("GROUNDWIRE_JWKS", needs)
        return self

    @property
    def has_credentials(self) -> bool:
        """Return whether callers are asked for a credential: a key, a token, or a client certificate."""
        return any(each is not None for each in (self.keys, self.jwks, self.tls_client_ca))

    @property
    def has_bearers(self) -> bool:
        """Return whether callers are asked for a key or a token, which answer can pass on."""
        return self.keys is not None or self.jwks is not None

    @property
    def signing_key(self) -> bytes | None:
        """Return the key of page and consistency tokens, None for one that is made in the data folder."""
        given = self.token_key and self.token_key.get_secret_value()
        return hashlib.sha256(given.encode()).digest() if given else None


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """All settings of the process, one frozen model for each part."""

    server: ServerSettings
    ingest: IngestSettings
    retrieve: RetrieveSettings
    answer: AnswerSettings

    def of_process(self, index: int, listen: str) -> "ProcessSettings":
        """Return the settings of one of several processes that share a port; figures have one of its own each."""
        own: dict[str, Any] = {"listen": listen, "processes": 1}
        host, _, port = self.server.metrics.rpartition(":")
        if port not in {"", "0"}:
            own["metrics"] = f"{host}:{int(port) + index}"
        server = self.server.model_copy(update=own)
        return ProcessSettings(server, self.ingest, self.retrieve, self.answer)

    def shown(self) -> dict[str, Any]:
        """Return every variable with its value as JSON has it, None where there is none, sorted by name.

        Secrets are blanked.
        """
        values = {
            variable_name(type(model), name): value
            for model in (self.server, self.ingest, self.retrieve, self.answer)
            for name, value in model.model_dump(mode="json").items()
        }
        return dict(sorted(values.items()))


def load_settings(**flags: Any) -> ProcessSettings:
    """Read the settings: command-line flags, then variables, then secret files, then defaults.

    Args:
        flags: fields of `ServerSettings` given on the command line; None means not given.

    Raises:
        InvalidRequestError: naming every variable that is unknown or has a bad value.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    secrets = _secret_files()
    settings = ProcessSettings(
        _load(ServerSettings, **given), _load(IngestSettings), _load(RetrieveSettings), _load(AnswerSettings)
    )
    known = set(settings.shown()) | CLIENT_VARIABLES | {_SECRETS}
    unknown = {name for name in (*os.environ, *secrets) if name.startswith(PREFIX) and name not in known}
    # Without the prefix, by which all are alike.
    names = {name.removeprefix(PREFIX): name for name in sorted(known)}
    violations = []
    for name in sorted(unknown):
        if not name.startswith(_TEST_PREFIX):
            near = get_close_matches(name.removeprefix(PREFIX), names, n=2)
            hint = f"; did you mean {' or '.join(names[each] for each in near)}?" if near else ""
            violations.append(FieldViolation(name, f"is not a setting{hint}"))
    # A variable of a script that is not set; as a path it would be the folder that the process happens to run in.
    for name, value in {**{name: os.environ.get(name) for name in _FOLDERS}, "data": flags.get("data")}.items():
        if value == "":
            violations.append(FieldViolation(name, "is empty; name a folder, or leave it out for the default"))
    refuse(violations)
    return settings


def variable_name(model: type[BaseSettings], field: str) -> str:
    return f"{model.model_config.get('env_prefix', '')}{field}".upper()


def _secret_files() -> set[str]:
    """Return the names of the variables that have a secret file.

    Raises:
        InvalidRequestError: the folder or a file of a variable cannot be read. A server that starts without its keys
            would look well.
    """
    folder = os.environ.get(_SECRETS)
    if not folder:
        return set()
    names, violations = set(), []
    try:
        for path in Path(folder).iterdir():
            if (name := path.name.upper()).startswith(PREFIX):
                names.add(name)
                try:
                    path.read_text()
                except (OSError, UnicodeDecodeError) as error:
                    why = getattr(error, "strerror", None) or "it is not UTF-8"
                    violations.append(FieldViolation(name, f"its file in {folder!r} cannot be read: {why}"))
    except OSError as error:
        violations.append(FieldViolation(_SECRETS, f"the folder {folder!r} cannot be read: {error.strerror}"))
    refuse(violations)
    return names


def _load(model: type[AnySettings], **given: Any) -> AnySettings:
    try:
        return model(_secrets_dir=os.environ.get(_SECRETS) or None, **given)
    except ValidationError as error:
        violations = [
            FieldViolation(variable_name(model, str(problem["loc"][0])), problem["msg"]) for problem in error.errors()
        ]
        raise InvalidRequestError(violations) from error

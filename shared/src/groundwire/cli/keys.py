"""`groundwire keys`: make, list and revoke API keys in the file that servers read."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from groundwire.cli.options import COUNT, WholeNumber, json_option
from groundwire.cli.output import print_fields, print_line, print_list, printed_as_json
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.identity import Identity, Quota, Right
from groundwire.rpc.key_file import ApiKey, create_key, parse_rights, parse_scopes, read_key_file, revoke_key

app = click.Group("keys", help="Create, list and revoke API keys in the key file of a server.")
_COLUMNS = ("key", "tenant", "subject", "rights", "scopes", "state", "expires")


def keys_option(*, exists: bool) -> Callable[[Any], Any]:
    """Return the option that names the file of keys, which only `create` may have to make."""
    return click.option(
        "--keys",
        "path",
        required=True,
        envvar="GROUNDWIRE_KEYS",
        type=click.Path(path_type=Path, dir_okay=False, exists=exists),
        help="The file of keys.",
    )


@app.command("create")
@click.argument("subject", help="Who will use the key: a person or a program.")
@click.option(
    "--right",
    "rights",
    type=click.Choice([right.value for right in Right]),
    multiple=True,
    required=True,
    help="What the key allows: write includes read, admin both; service is for `serve answer`.",
)
@click.option("--tenant", default=DEFAULT_TENANT, help="Tenant whose data the key can access.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="Scope of records that the key can access; all if not given.",
)
@click.option("--days", type=click.IntRange(1, 36_500), help="Days until the key expires; never if not given.")
@click.option("--per-second", type=click.FloatRange(min=0, min_open=True), help="Units of work a second.")
@click.option("--burst", type=click.FloatRange(min=0, min_open=True), help="Units of work at once after a pause.")
@click.option("--at-a-time", type=COUNT, help="Concurrent calls.")
@click.option("--documents", type=COUNT, help="Documents that the tenant may have stored.")
@click.option("--stored-bytes", type=WholeNumber(64, least=1), help="Bytes of text that the tenant may have stored.")
@keys_option(exists=False)
@json_option
def create(
    subject: str,
    rights: tuple[str, ...],
    tenant: str,
    scopes: tuple[str, ...],
    days: int | None,
    per_second: float | None,
    burst: float | None,
    at_a_time: int | None,
    documents: int | None,
    stored_bytes: int | None,
    path: Path,
) -> None:
    """Create a key and print it; this is the only time it is shown, because the file holds only its hash.

    A subject may have two active keys: make the new one, give it to whoever calls, then revoke the old one.
    """
    identity = Identity(
        tenant,
        subject,
        parse_rights(list(rights), "--right", Right),
        parse_scopes(list(scopes) or None, "--scope"),
        Quota(per_second, burst, at_a_time, documents, stored_bytes),
    )
    now = datetime.now(UTC).replace(microsecond=0)
    key, secret = create_key(path, identity, None if days is None else now + timedelta(days=days))
    if not printed_as_json(_to_json(key) | {"secret": secret}):
        print_line(secret)


@app.command("list")
@keys_option(exists=True)
@json_option
def list_keys(path: Path) -> None:
    """List the keys without their secrets, which are not stored."""
    listed = [_to_json(key) for key in read_key_file(path).keys.values()]
    rows = [
        (
            each["key"],
            each["tenant"],
            each["subject"],
            ", ".join(each["rights"]),
            "all" if each["scopes"] is None else ", ".join(each["scopes"]),
            each["state"],
            each["expires"] or "never",
        )
        for each in listed
    ]
    print_list(listed, _COLUMNS, rows, "no keys")


@app.command("revoke")
@click.argument("key_id", metavar="KEY", help="Id of the key, as `keys list` shows it.")
@keys_option(exists=True)
@json_option
def revoke(key_id: str, path: Path) -> None:
    """Revoke a key: servers refuse it within a second, on open connections too."""
    revoked = _to_json(revoke_key(path, key_id))
    if not printed_as_json(revoked):
        print_fields({name: revoked[name] for name in ("key", "tenant", "subject", "revoked")})


def _to_json(key: ApiKey) -> dict[str, Any]:
    identity = key.identity
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    return {
        "key": key.key_id,
        "tenant": identity.tenant,
        "subject": identity.subject,
        "rights": [right.value for right in Right if right in identity.rights],
        "scopes": None if identity.scopes is None else list(identity.scopes),
        "state": key.state(datetime.now(UTC)),
    } | {name: None if time is None else time.isoformat() for name, time in times.items()}

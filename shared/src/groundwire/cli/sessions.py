"""`groundwire sessions`: look at sessions, end them and delete them."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import counted, print_fields, print_json, print_line, print_table, print_text
from groundwire.cli.paging import PAGE_SIZE, all_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundwire.api.answer.v1 import answer_service_pb2 as pb
    from groundwire.api.answer.v1 import session_pb2

app = click.Group("sessions", help="List, show, end and delete sessions.")
COLUMNS = ("session", "collection", "state", "messages", "last activity", "user")

session_argument = click.argument("session_id", metavar="ID", help="Id of the session.")


@app.command("list")
@click.option("--collection", "-c", default="", help="Only sessions about this collection.")
@click.option("--user", default="", help="Only sessions of this user.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only sessions with this label; repeatable."
)
@address_option
@json_option
def list_sessions(collection: str, user: str, labels: tuple[str, ...], address: str, as_json: bool) -> None:
    """List sessions, the most recently active first."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    pairs = [label.partition("=") for label in labels]
    wrong = next((key for key, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not KEY=VALUE", param_hint="--label")
    with connect(address) as client:

        def fetch(token: str) -> "tuple[Sequence[session_pb2.Session], str]":
            page = client.list_sessions(
                collection=collection,
                user_id=user,
                labels={key: value for key, _, value in pairs},
                page_size=PAGE_SIZE,
                page_token=token,
            )
            return page.sessions, page.next_page_token

        sessions = list(all_items(fetch))
    if as_json:
        print_json([message_json(session) for session in sessions])
        return
    shown = [message_json(session, short_names=True) for session in sessions]
    rows = [
        (
            each["session_id"],
            each["collection"],
            each["state"],
            str(each["message_count"]),
            each["last_activity_time"],
            each["user_id"],
        )
        for each in shown
    ]
    print_table(COLUMNS, rows, "no sessions")


@app.command("get")
@session_argument
@address_option
@json_option
def get_session(session_id: str, address: str, as_json: bool) -> None:
    """Show a session; `sessions messages` shows what was said."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        session = client.get_session(session_id=session_id).session
    if as_json:
        print_json(message_json(session))
        return
    fields = message_json(session, short_names=True)
    for long in ("messages", "transitions"):
        fields.pop(long)
    print_fields(fields)


@app.command("messages")
@session_argument
@address_option
@json_option
def list_messages(session_id: str, address: str, as_json: bool) -> None:
    """Show all that was said in a session, oldest first."""
    from groundwire.api.common.v1 import role_pb2  # noqa: PLC0415 - --help stays fast
    from groundwire.cli.messages import enum_name, message_json  # noqa: PLC0415 - the same

    with connect(address) as client:

        def fetch(token: str) -> "tuple[Sequence[session_pb2.Message], str]":
            page = client.list_messages(session_id=session_id, page_size=PAGE_SIZE, page_token=token)
            return page.messages, page.next_page_token

        messages = list(all_items(fetch))
    if as_json:
        print_json([message_json(message) for message in messages])
        return
    for message in messages:
        role = enum_name(role_pb2.Role.DESCRIPTOR, message.role)
        print_line((f"{role} · {message.message_time.ToJsonString()}", "dim"))
        print_text(message.content)


@app.command("end")
@session_argument
@address_option
@json_option
def end_session(session_id: str, address: str, as_json: bool) -> None:
    """End a session; it takes no more questions."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        session = client.end_session(session_id=session_id).session
    if as_json:
        print_json(message_json(session))
    else:
        print_line(f"ended {session.session_id}")


@app.command("delete")
@click.argument("session_id", metavar="[ID]", default="", help="Id of the session.")
@click.option("--user", default="", help="Delete all sessions of this user instead.")
@address_option
@json_option
def delete_session(session_id: str, user: str, address: str, as_json: bool) -> None:
    """Delete a session with all its messages, or all sessions of a user, for good."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    if bool(session_id) == bool(user):
        raise click.UsageError("give either the ID of a session or --user")
    response: pb.DeleteSessionResponse | pb.DeleteSessionsResponse
    with connect(address) as client:
        if user:
            response = client.delete_sessions(user_id=user)
            told = f"{counted(response.deleted_session_count, 'session')} of {user}"
        else:
            response = client.delete_session(session_id=session_id)
            told = f"{session_id}: {counted(response.deleted_message_count, 'message')}"
    if as_json:
        print_json(message_json(response))
    else:
        print_line(f"deleted {told}")

"""`groundwire sessions`: look at sessions, end them and delete them."""

import click

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1 import role_pb2
from groundwire.cli.connection import all_items, connect
from groundwire.cli.messages import message_json, shown_name
from groundwire.cli.options import server_options
from groundwire.cli.output import (
    counted,
    print_fields,
    print_line,
    print_table,
    print_text,
    printed_as_json,
)

app = click.Group("sessions", help="List, show, end and delete sessions.")
_COLUMNS = ("session", "collection", "state", "messages", "last activity", "user")

session_argument = click.argument("session_id", metavar="ID", help="Id of the session.")


@app.command("list")
@click.option("--collection", "-c", default="", help="Only sessions about this collection.")
@click.option("--user", default="", help="Only sessions of this user.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only sessions with this label; repeatable."
)
@server_options
def list_sessions(collection: str, user: str, labels: tuple[str, ...]) -> None:
    """List sessions, the most recently active first."""
    pairs = [label.partition("=") for label in labels]
    wrong = next((key for key, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not KEY=VALUE", param_hint="--label")
    with connect() as client:
        by_label = {key: value for key, _, value in pairs}
        pages = all_items(client.list_sessions, "sessions", collection=collection, user_id=user, labels=by_label)
        sessions = list(pages)
    if printed_as_json(sessions):
        return
    rows = [
        (
            each["session_id"],
            each["collection"],
            each["state"],
            str(each["message_count"]),
            each["last_activity_time"],
            each["user_id"],
        )
        for each in (message_json(session, short_names=True) for session in sessions)
    ]
    print_table(_COLUMNS, rows, "no sessions")


@app.command("get")
@session_argument
@server_options
def get_session(session_id: str) -> None:
    """Show a session; `sessions messages` shows what was said."""
    with connect() as client:
        session = client.get_session(session_id=session_id).session
    if printed_as_json(session):
        return
    fields = message_json(session, short_names=True)
    for long in ("messages", "transitions"):
        fields.pop(long)
    print_fields(fields)


@app.command("messages")
@session_argument
@server_options
def list_messages(session_id: str) -> None:
    """Show all that was said in a session, oldest first."""
    with connect() as client:
        messages = list(all_items(client.list_messages, "messages", session_id=session_id))
    if printed_as_json(messages):
        return
    for message in messages:
        role = shown_name(role_pb2.Role.DESCRIPTOR, message.role)
        state = shown_name(session_pb2.MessageState.DESCRIPTOR, message.state)
        note = "" if message.state == session_pb2.MESSAGE_STATE_COMPLETE else f" · {state}"
        print_line((f"{role} · {message.message_time.ToJsonString()}{note}", "dim"))
        print_text(message.content)


@app.command("end")
@session_argument
@server_options
def end_session(session_id: str) -> None:
    """End a session; it takes no more questions."""
    with connect() as client:
        session = client.end_session(session_id=session_id).session
    if not printed_as_json(session):
        print_line(f"ended {session.session_id}")


@app.command("delete")
@click.argument("session_id", metavar="[ID]", default="", help="Id of the session.")
@click.option("--user", default="", help="Delete all sessions of this user instead.")
@server_options
def delete_session(session_id: str, user: str) -> None:
    """Delete a session with all its messages, or all sessions of a user, for good."""
    if bool(session_id) == bool(user):
        raise click.UsageError("give either the ID of a session or --user")
    response: pb.DeleteSessionResponse | pb.DeleteSessionsResponse
    with connect() as client:
        if user:
            response = client.delete_sessions(user_id=user)
            deleted = f"{counted(response.deleted_session_count, 'session')} of {user}"
        else:
            response = client.delete_session(session_id=session_id)
            deleted = f"{session_id}: {counted(response.deleted_message_count, 'message')}"
    if not printed_as_json(response):
        print_line(f"deleted {deleted}")

"""`groundwire sessions`, `chat` and `consolidate`: sessions, their questions, and what a conversation leaves behind."""

import sys
import uuid

import click

from groundwire.api.answer.v1 import answer_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import retrieval_options_pb2
from groundwire.cli.connection import connect
from groundwire.cli.messages import answer_json, message_json, shown_name
from groundwire.cli.options import collection_option, is_json, server_options, text_option
from groundwire.cli.output import (
    counted,
    error_json,
    print_json,
    print_line,
    print_list,
    print_message,
    print_text,
    printed_as_json,
)
from groundwire.cli.search import (
    answering_options,
    retrieval_options,
    show_generation,
    show_opposing,
    show_places,
    streamed,
)
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items
from groundwire.client.values import enum_value
from groundwire.kernel.errors import InvalidRequestError

app = click.Group("sessions", help="List, show, end and delete sessions.")
_COLUMNS = ("session", "collection", "state", "messages", "last activity", "user")

session_argument = click.argument("session_id", metavar="ID", help="Id of the session.")


@app.command("list")
@text_option("--collection", "-c", help="Only sessions about this collection.")
@text_option("--user", help="Only sessions of this user.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only sessions with this label; may be given several times.",
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
        pages = all_items.blocking(
            client, Contract.list_sessions, "sessions", collection=collection, user_id=user, labels=by_label
        )
        sessions = list(pages)
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
    print_list(sessions, _COLUMNS, rows, "no sessions")


@app.command("get")
@session_argument
@server_options
def get_session(session_id: str) -> None:
    """Show a session; `sessions messages` shows what was said."""
    with connect() as client:
        session = client.get_session(session_id=session_id).session
    print_message(session, hidden=("messages", "transitions"))


@app.command("messages")
@session_argument
@server_options
def list_messages(session_id: str) -> None:
    """Show all messages of a session, oldest first."""
    with connect() as client:
        messages = list(all_items.blocking(client, Contract.list_messages, "messages", session_id=session_id))
    if printed_as_json(messages):
        return
    for message in messages:
        role = shown_name(message, "role")
        state = shown_name(message, "state")
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
@text_option("--user", help="Delete all sessions of this user instead.")
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


_NEW = "new"


@click.command()
@collection_option
@text_option("--session", "session_id", help="Session to continue; a new one begins if not given.")
@text_option("--user", help="User of the new session; `sessions delete --user` deletes it.")
@text_option(
    "--conversation",
    metavar="ID",
    help="Record the new session in this conversation, conv-…; `new` begins one and prints its id.",
)
@text_option("--scope", help="With --conversation: global or entity:NAME; the scope of --user if not given.")
@answering_options
@retrieval_options
@server_options
def chat(
    collection: str,
    session_id: str,
    user: str,
    conversation: str,
    scope: str,
    grounding: str,
    strictness: float | None,
    options: retrieval_options_pb2.RetrievalOptions,
) -> None:
    """Ask questions one after another in a session.

    Each line is a question, understood from those before; the session ends with the input, Ctrl-D on a terminal. A
    question that breaks a rule is refused and the next one asked. With --json each answer is one line of JSON.
    """
    is_typed = sys.stdin.isatty()
    if session_id and (user or conversation or scope):
        raise click.UsageError("--user, --conversation and --scope can only be given for a new session")
    with connect() as client:
        if not session_id:
            session = client.create_session(
                collection=collection,
                user_id=user,
                conversation_id="" if conversation == _NEW else conversation,
                new_conversation=conversation == _NEW,
                scope=scope,
            ).session
            session_id, conversation = session.session_id, session.conversation_id
        of_conversation = f" of {conversation}" if conversation else ""
        print_line((f"session {session_id}{of_conversation}", "dim"), err=True)
        has_failed = False
        while True:
            if is_typed:
                print_line("> ", err=True, end="")
            line = sys.stdin.readline()
            if not line:
                break
            question = line.strip()
            if not question:
                continue
            request = pb.AskRequest(
                question=question,
                collection=collection,
                session_id=session_id,
                message_id=str(uuid.uuid4()),
                options=options,
                grounding=enum_value(answer_pb2.GroundingPolicy.DESCRIPTOR, grounding),
                strictness=strictness,
            )
            try:
                answer = streamed(client, request, quiet=is_json())
            except InvalidRequestError as error:
                has_failed = True
                if is_json():
                    print_json({"error": error_json(error)}, err=True, indent=None)
                else:
                    print_line((str(error), "red"), err=True)
                continue
            if is_json():
                print_json(answer_json(answer, request.message_id), indent=None)
                continue
            show_opposing(answer)
            show_places((*answer.citations, *answer.opposing_citations))
            show_generation(answer)
            print_line()
    if has_failed and not is_typed:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("conversation", help="Id of the conversation, conv-….")
@collection_option
@click.option("--scope", default="global", help="Scope of its records: global or entity:NAME.")
@server_options
def consolidate(conversation: str, collection: str, scope: str) -> None:
    """Derive memories from what the user said in a conversation; repeating it changes nothing."""
    with connect() as client:
        response = client.consolidate_conversation(collection=collection, conversation_id=conversation, scope=scope)
    rows = [("new" if each.created else "known", each.record_id, each.text) for each in response.memories]
    print_list(response, ("", "memory", "what was said"), rows, "nothing to remember", is_excerpt=True)

"""`groundwire chat` and `consolidate`: questions of a session, and what a conversation leaves behind."""

import sys
import uuid

import click

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.messages import answer_json
from groundwire.cli.options import collection_option, is_json, server_options
from groundwire.cli.output import print_json, print_line, print_table, printed_as_json
from groundwire.cli.search import show_generation, show_places, streamed
from groundwire.kernel.errors import InvalidRequestError

_NEW = "new"


@click.command()
@collection_option
@click.option("--session", "session_id", default="", help="Session to continue; a new one otherwise.")
@click.option("--user", default="", help="Whose new session it is; `sessions delete --user` deletes it.")
@click.option(
    "--conversation",
    default="",
    metavar="ID",
    help="Record the new session in this conversation, conv-…; `new` begins one and prints its id.",
)
@click.option("--scope", default="", help="With --conversation: global or entity:NAME; of the --user if not given.")
@server_options
def chat(collection: str, session_id: str, user: str, conversation: str, scope: str) -> None:
    """Ask one question after the other in a session.

    Each line is a question, understood from those before; the session ends with the input, Ctrl-D on a terminal. A
    question that breaks a rule is refused and the next one asked. With --json each answer is one line of JSON.
    """
    is_typed = sys.stdin.isatty()
    if session_id and (user or conversation or scope):
        raise click.UsageError("--user, --conversation and --scope are said when a session begins")
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
                question=question, collection=collection, session_id=session_id, message_id=str(uuid.uuid4())
            )
            try:
                answer = streamed(client, request, quiet=is_json())
            except InvalidRequestError as error:
                has_failed = True
                print_line((str(error), "red"), err=True)
                continue
            if is_json():
                print_json(answer_json(answer, request.message_id), indent=None)
                continue
            show_places(answer.citations)
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
    if printed_as_json(response):
        return
    rows = [("new" if each.created else "known", each.record_id, each.text) for each in response.memories]
    print_table(("", "memory", "what was said"), rows, "nothing to remember", is_excerpt=True)

"""`groundwire chat`: one question after the other in a session, typed or piped."""

import sys
import uuid

import click

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.messages import answer_json
from groundwire.cli.options import collection_option, server_options
from groundwire.cli.output import print_json, print_line
from groundwire.cli.search import show_generation, show_places, streamed
from groundwire.kernel.errors import InvalidRequestError


@click.command()
@collection_option
@click.option("--session", "session_id", default="", help="Session to continue; a new one otherwise.")
@click.option("--user", default="", help="Whose new session it is; `sessions delete --user` deletes it.")
@server_options
def chat(collection: str, session_id: str, user: str, address: str, as_json: bool) -> None:
    """Ask one question after the other in a session.

    Each line is a question, understood from those before; the session ends with the input, Ctrl-D on a terminal. A
    question that breaks a rule is refused and the next one asked. With --json each answer is one line of JSON.
    """
    is_typed = sys.stdin.isatty()
    with connect(address) as client:
        if not session_id:
            session_id = client.create_session(collection=collection, user_id=user).session.session_id
        print_line((f"session {session_id}", "dim"), err=True)
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
                answer = streamed(client, request, quiet=as_json)
            except InvalidRequestError as error:
                has_failed = True
                print_line((str(error), "red"), err=True)
                continue
            if as_json:
                print_json(answer_json(answer, request.message_id), indent=None)
                continue
            show_places(answer.citations)
            show_generation(answer)
            print_line()
    if has_failed and not is_typed:
        raise click.exceptions.Exit(1)

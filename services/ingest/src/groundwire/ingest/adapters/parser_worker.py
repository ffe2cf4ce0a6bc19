"""The parser process: takes documents apart, one at a time, until its parent is gone.

It imports neither torch nor grpc, starts in a quarter of a second, has a memory limit, and is killed by its parent
when a document takes too long.
"""

import os
import resource
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from groundwire.embedders.tokenization import load_tokenizer
from groundwire.ingest.adapters.frames import receive_frame, send_frame
from groundwire.ingest.adapters.semantic_splitter import SemanticSplitter
from groundwire.ingest.adapters.source_readers import read_source
from groundwire.ingest.domain.parse_messages import parsed_to_message, refusal_to_message, rules_from_message
from groundwire.ingest.domain.parsing import parse_document
from groundwire.kernel.embedder import Tokenizer, TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import InvalidRequestError

_NICENESS = 5
_PARENT_CHECK_S = 1.0


def main(descriptor: int) -> None:
    """Serve the parent over the socket with this file descriptor."""
    os.nice(_NICENESS)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    with socket.socket(fileno=descriptor) as parent:
        try:
            _serve(parent)
        except (EOFError, BrokenPipeError):
            return


def _serve(parent: socket.socket) -> None:
    start, _ = receive_frame(parent, _never)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (start["memory_bytes"], start["memory_bytes"]))
    given = start["tokenizer"]
    tokenizer = load_tokenizer(TokenizerDefinition(given["name"], TokenizerFormat(given["format"]), given["content"]))
    send_frame(parent, {"ready": True}, b"", _never)
    while True:
        message, body = receive_frame(parent, _never)
        send_frame(parent, *_answer(message, body, tokenizer), _never)


def _answer(message: dict[str, Any], body: bytearray, tokenizer: Tokenizer) -> tuple[dict[str, Any], bytes]:
    rules = rules_from_message(message["rules"])
    try:
        data = Path(message["path"]).read_bytes() if message["path"] else bytes(body)
        parsed, rows = parsed_to_message(parse_document(data, rules, read_source, partial(SemanticSplitter, tokenizer)))
    except InvalidRequestError as error:
        return {"refused": refusal_to_message(error)}, b""
    except MemoryError:
        return {"out_of_memory": True}, b""
    return {"parsed": parsed}, rows


def _never() -> None:
    """Stand for the wait between timeouts, of which this side's socket has none."""


def _watch_parent(parent_id: int) -> None:
    """End the process when the parent died in the middle of a document."""
    while os.getppid() == parent_id:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)

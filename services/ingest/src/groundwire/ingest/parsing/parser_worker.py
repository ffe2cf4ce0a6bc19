"""The parser process: takes documents apart, one at a time, until its parent is gone.

It imports neither torch nor grpc and starts in a quarter of a second. It has limits of memory and processor time, may
write no file and opens few; its parent kills it when a document takes too long.
Messages are JSON and raw bytes, never pickles: a document may take over the process that reads it.
"""

import resource
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundwire.embedders.tokenization import ModelTokenizer
from groundwire.ingest.parsing.parse_document import parse_document
from groundwire.ingest.parsing.parsed_document import parsed_to_message, refusal_to_message, rules_from_message
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.kernel.embedder import Tokenizer, TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError
from groundwire.processes.channel import json_parts, read_json, receive_message, send_message

_MAX_OPEN_FILES = 64


def main(connections: Sequence[socket.socket]) -> None:
    """Serve the parent over the only connection until it is closed."""
    (parent,) = connections
    try:
        start, _ = read_json(receive_message(parent))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES))
        resource.setrlimit(resource.RLIMIT_AS, (start["memory_bytes"], start["memory_bytes"]))
        limits = ReadingLimits(**start["reading"])
        given = start["tokenizer"]
        definition = TokenizerDefinition(given["name"], TokenizerFormat(given["format"]), given["content"])
        tokenizer = ModelTokenizer(definition)
        send_message(parent, *json_parts({"ready": True}))
        while True:
            message, body = read_json(receive_message(parent))
            # Anew for each document: both count what the process has used before.
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + message["cpu_s"], hard))
            # So that allocations fail which would take this process so much further than it is.
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            used_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most_bytes = used_pages * resource.getpagesize() + message["more_memory_bytes"]
            resource.setrlimit(resource.RLIMIT_AS, (min(hard, most_bytes), hard))
            send_message(parent, *json_parts(*_answer(message, body, limits, tokenizer)))
    except (EOFError, ConnectionError):
        return


def _answer(
    message: dict[str, Any], body: bytearray, limits: ReadingLimits, tokenizer: Tokenizer
) -> tuple[dict[str, Any], bytes]:
    rules = rules_from_message(message["rules"])
    try:
        data = Path(message["path"]).read_bytes() if message["path"] else bytes(body)
        parsed, rows = parsed_to_message(parse_document(data, rules, limits, tokenizer))
    except InvalidRequestError as error:
        return {"refused": refusal_to_message(error)}, b""
    except MissingExtraError as error:
        return {"missing_extra": error.message}, b""
    except MemoryError:
        return {"out_of_memory": message["more_memory_bytes"]}, b""
    except Exception as error:  # noqa: BLE001 - whatever a library raises on a hostile file, the next one must work
        # For the operator: the caller hears no more than that the document is built wrongly.
        traceback.print_exc(file=sys.stderr)
        return {"failed": type(error).__name__}, b""
    return {"parsed": parsed}, rows

"""The parser process: takes documents apart, one at a time, until its parent is gone.

It imports neither torch nor grpc and starts in a quarter of a second. It has limits of memory and processor time, may
write no file and opens few; its parent kills it when a document takes too long.
"""

import os
import resource
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from groundwire.embedders.tokenization import load_tokenizer
from groundwire.ingest.adapters.frames import receive_frame, send_frame
from groundwire.ingest.parsing.parse_document import parse_document
from groundwire.ingest.parsing.parsed_document import parsed_to_message, refusal_to_message, rules_from_message
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.kernel.embedder import Tokenizer, TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import InvalidRequestError, MissingExtraError

_NICENESS = 5
_PARENT_CHECK_S = 1.0
_MAX_OPEN_FILES = 64


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
    _limit_process(start["memory_bytes"])
    limits = ReadingLimits(**start["reading"])
    given = start["tokenizer"]
    tokenizer = load_tokenizer(TokenizerDefinition(given["name"], TokenizerFormat(given["format"]), given["content"]))
    send_frame(parent, {"ready": True}, b"", _never)
    while True:
        message, body = receive_frame(parent, _never)
        _limit_time(message["cpu_s"])
        _limit_memory(message["more_memory_bytes"])
        send_frame(parent, *_answer(message, body, limits, tokenizer), _never)


def _limit_process(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _limit_time(cpu_s: int) -> None:
    """Let the system end this process when it has used so much more processor time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + cpu_s, hard))


def _limit_memory(more_bytes: int) -> None:
    """Let allocations fail that would take this process so much further than it is."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (min(hard, pages * resource.getpagesize() + more_bytes), hard))


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
        traceback.print_exc(file=sys.stderr)
        return {"failed": type(error).__name__}, b""
    return {"parsed": parsed}, rows


def _never() -> None:
    """Stand for the wait between timeouts, of which this side's socket has none."""


def _watch_parent(parent_id: int) -> None:
    """End the process when the parent died in the middle of a document."""
    while os.getppid() == parent_id:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)

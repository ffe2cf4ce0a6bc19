"""An embedding endpoint on loopback that speaks the protocol of OpenAI: hashed words, or what a script says."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from groundwire.embedders.hashing import HashingEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors


@dataclass
class EmbeddingEndpoint:
    """Answers with vectors of hashed words, or those of `model`, after the `statuses`, one for each request.

    `spoil` changes a reply before it leaves. While `hangs` is set nobody is answered. `requests` holds the bodies,
    `key` is the bearer token that is asked for.
    """

    dimensions: int = 256
    key: str = ""
    model: Callable[[Sequence[str]], Vectors] | None = None
    statuses: list[int] = field(default_factory=list)
    spoil: Callable[[dict[str, Any]], Any] = lambda reply: reply
    requests: list[dict[str, Any]] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"openai+http://127.0.0.1:{self.port}/v1"

    def answer(self, path: str, authorization: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append(body)
        if self.hangs.is_set():
            self.ended.wait(60)
        if path != "/v1/embeddings":
            return 404, {"error": {"message": "no such path"}}
        if self.key and authorization != f"Bearer {self.key}":
            return 401, {"error": {"message": "no"}}
        if self.statuses:
            return self.statuses.pop(0), {"error": {"message": "no"}}
        assert all(text.strip() for text in body["input"])  # as services demand
        hashed = HashingEmbedder(body.get("dimensions", self.dimensions))
        vectors = self.model(body["input"]) if self.model else hashed.embed_documents(body["input"], Budget())
        rows = [{"object": "embedding", "index": row, "embedding": each.tolist()} for row, each in enumerate(vectors)]
        return 200, self.spoil({"object": "list", "model": body["model"], "data": rows[::-1]})


@contextmanager
def embedding_endpoint(port: int = 0, **script: Any) -> Iterator[EmbeddingEndpoint]:
    """Give an endpoint that listens on loopback."""
    endpoint = EmbeddingEndpoint(**script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, reply = endpoint.answer(self.path, self.headers.get("authorization", ""), body)
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Say nothing of clients that left."""

    with Server(("127.0.0.1", port), Handler) as server:
        endpoint.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield endpoint
        finally:
            endpoint.ended.set()
            server.shutdown()

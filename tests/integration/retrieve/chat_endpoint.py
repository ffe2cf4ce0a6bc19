"""A small HTTP server that speaks the chat protocol, and misbehaves when told to."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class ChatEndpoint:
    """Replies with `content` as a model would; `behaviour` is one of the keys of `_BEHAVIOURS`.

    `requests` are the bodies it got, `headers` those of the last one, `flooded` how often it sent 64 KiB of a flood.
    """

    def __init__(self) -> None:
        self.content = "{}"
        self.behaviour = "reply"
        self.requests: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.flooded = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint._handle(self)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"openai+http://127.0.0.1:{self._server.server_address[1]}/v1#tiny"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def say(self, **written: object) -> None:
        """Let the model write this JSON."""
        self.content, self.behaviour = json.dumps(written), "reply"

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.requests.append(json.loads(body))
        self.headers = dict(handler.headers.items()) | {"path": handler.path}
        reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": self.content}}]}).encode()
        try:
            self._send(handler, reply)
        except OSError:  # the client left
            handler.close_connection = True

    def _send(self, handler: BaseHTTPRequestHandler, reply: bytes) -> None:
        match self.behaviour:
            case "hang":
                time.sleep(60)
            case "drip":
                handler.send_response(200)
                handler.end_headers()
                for byte in reply:
                    handler.wfile.write(bytes([byte]))
                    handler.wfile.flush()
                    time.sleep(0.1)
            case "drip-headers":
                handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for _ in range(600):
                    handler.wfile.write(b"x-wait: 1\r\n")
                    handler.wfile.flush()
                    time.sleep(0.1)
            case "flood":
                handler.send_response(200)
                handler.end_headers()
                for self.flooded in range(2000):
                    handler.wfile.write(b" " * 65_536)
            case "cut":
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(reply) + 100))
                handler.end_headers()
                handler.wfile.write(reply)
                handler.close_connection = True
            case behaviour:
                status, data = (200, reply) if behaviour == "reply" else (int(behaviour), b"no")
                handler.send_response(status)
                handler.send_header("Location", "/elsewhere")
                handler.send_header("Content-Length", str(len(data)))
                handler.end_headers()
                handler.wfile.write(data)

"""A proxy before an S3 API, on 127.0.0.1, that does what a store or a line can do to a writer."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

CONDITIONS = ("if-none-match", "if-match")


class Faults:
    """What goes wrong; nothing, until a field is set. Keys are paths without their query."""

    def __init__(self) -> None:
        self.lose_answer: Callable[[str], bool] = lambda key: False  # of a PUT that was done, once
        self.lose_write: Callable[[str], bool] = lambda key: False  # acknowledged, and not done
        self.drop_conditions: tuple[str, ...] = ()  # headers that never reach the store
        self.lost: list[str] = []  # keys, as they happened


@contextmanager
def between(endpoint: str) -> Iterator[tuple[str, Faults]]:
    """The address of a proxy before `endpoint`, and its faults."""
    faults, there = Faults(), urlsplit(endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = unquote(urlsplit(self.path).path)
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in (*faults.drop_conditions, "connection")
            }
            if self.command == "PUT" and faults.lose_write(key):
                faults.lost.append(key)
                self.send_response(200)
                self.send_header("ETag", '"0123456789abcdef0123456789abcdef"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(there.hostname or "", there.port, timeout=30)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            if self.command == "PUT" and key not in faults.lost and faults.lose_answer(key):
                faults.lost.append(key)
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("content-length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

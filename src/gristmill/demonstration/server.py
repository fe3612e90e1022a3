"""A local HTTP server for the files of a folder, with Range (RFC 9110, section 14), for the demo
and for tests.
"""

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder's files on 127.0.0.1; yields the address, `http://127.0.0.1:PORT`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(folder.resolve()))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(folder: Path) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = (folder / self.path.lstrip("/").partition("?")[0]).resolve()
            if not path.is_relative_to(folder) or not path.is_file():
                self.send_error(404)
                return
            data = path.read_bytes()
            etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            if self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.send_header("ETag", etag)
                self.end_headers()
                return
            start, stop = 0, len(data)
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked and self.headers.get("If-Range", etag) == etag:
                start = int(asked[1])
                stop = min(int(asked[2]) + 1, len(data)) if asked[2] else len(data)
                if start >= stop:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(data)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", etag)
            self.end_headers()
            self.wfile.write(data[start:stop])

        def log_message(self, *message: object) -> None:
            """Print nothing."""

    return Handler

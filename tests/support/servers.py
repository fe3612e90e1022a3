"""Real servers for tests, on ports of their own, ended by their process id: nginx, and an S3 API
(moto) over HTTP.
"""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(command: list[str], address: str, log: Path) -> Iterator[str]:
    """A server process that answers at an address; killed in the end."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        for _ in range(1200):  # a minute: machines are busy
            try:
                with urlopen(address, timeout=5):
                    break
            except OSError as error:
                if getattr(error, "code", None) is not None:
                    break  # it answers, if only with a refusal
                if process.poll() is not None:
                    raise RuntimeError(f"{command[0]} ended: {log.read_text()}") from None
                time.sleep(0.05)
        else:
            raise RuntimeError(f"{command[0]} does not answer: {log.read_text()}")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def nginx_binary() -> str | None:
    """Debian puts it where not every PATH looks."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@contextmanager
def nginx(served: Path, folder: Path, *, ranges: bool = True, more: str = "") -> Iterator[str]:
    """nginx over a folder; without `ranges` it answers 200 to all that ask for one."""
    server = f"root {served}; {'' if ranges else 'max_ranges 0;'} {more}"
    with _nginx(f"access_log {folder}/access.log; sendfile on;", server, folder) as address:
        yield address


@contextmanager
def edge(origin: str, folder: Path) -> Iterator[str]:
    """nginx as the edge of a CDN before an origin: it caches as the origin's Cache-Control says,
    asks the origin once for what many want at a time, and says in X-Cache-Status what it did;
    status.log has `cache status, answer, URI` a line.
    """
    http = (
        f"proxy_cache_path {folder}/cache keys_zone=edge:4m use_temp_path=off;\n"
        "log_format status '$upstream_cache_status $status $uri';\n"
        f"access_log {folder}/status.log status; sendfile on;"
    )
    server = (
        f"location / {{ proxy_pass {origin}; proxy_cache edge; proxy_cache_lock on; "
        "proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s; proxy_cache_key $uri; "
        "add_header X-Cache-Status $upstream_cache_status always; }"
    )
    with _nginx(http, server, folder) as address:
        yield address


@contextmanager
def _nginx(http: str, server: str, folder: Path) -> Iterator[str]:
    binary = nginx_binary()
    assert binary is not None
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = "".join(
        f"{kind}_temp_path {folder}/temporary;"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ {http} {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; {server} }} }}\n"
    )
    command = [
        binary,
        "-p",
        str(folder),
        "-e",
        str(folder / "error.log"),
        "-c",
        str(folder / "nginx.conf"),
    ]
    with running(command, f"http://127.0.0.1:{port}/", folder / "log") as address:
        yield address.rstrip("/")


@contextmanager
def s3(folder: Path) -> Iterator[str]:
    """An S3 API over HTTP."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, f"http://127.0.0.1:{port}/moto-api/", folder / "log") as address:
        yield address.removesuffix("/moto-api/")

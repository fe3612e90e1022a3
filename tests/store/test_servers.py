"""Downloads from servers as they are out there: nginx with ranges and without, an S3 API."""

import functools
import hashlib
import http.server
import importlib.util
import os
import random
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import SourceError
from gristmill.store.cache import Cache
from gristmill.store.http.client import Client
from gristmill.store.http.remotes import Remote, expand
from gristmill.store.http.settings import Settings
from gristmill.store.http.transfer import Transfer
from tests.support import servers
from tests.support.faults import site
from tests.support.skips import missing

BODY = random.Random(3).randbytes(3_000_000)
SHA256 = hashlib.sha256(BODY).hexdigest()
QUICK = Settings(backoff=0.01, retries=3, timeout=10.0, checkpoint_bytes=500_000)


class Killed(BaseException):
    """The process ends here."""


def killed(cache: Path, remote: Remote, after: int) -> None:
    def tell(here: int, size: int | None, resumed: int) -> None:
        if here >= after:
            raise Killed

    with pytest.raises(Killed):
        Transfer(Cache(cache), QUICK).fetch(remote, on_progress=tell)


def resumed(cache: Path, remote: Remote) -> int:
    """Fetch what was begun; returns where it was taken up."""
    where: list[int] = []
    got = Transfer(Cache(cache), QUICK).fetch(
        remote, on_progress=lambda here, size, resumed: where.append(resumed)
    )
    assert got.sha256 == SHA256
    assert got.path.read_bytes() == BODY
    return where[-1]


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "a.bin").write_bytes(BODY)
    os.utime(folder / "a.bin", (1_600_000_000, 1_600_000_000))
    return folder


def need_nginx() -> None:
    if servers.nginx_binary() is None:
        missing("nginx", "nginx is not installed (Debian: apt-get install nginx-light)")


@pytest.mark.parametrize("ranges", [True, False])
def test_nginx(tmp_path: Path, cache: Path, served: Path, ranges: bool) -> None:
    need_nginx()
    with servers.nginx(served, tmp_path / "nginx", ranges=ranges) as address:
        remote = Remote(f"{address}/a.bin")
        killed(cache, remote, 2_000_000)
        assert (resumed(cache, remote) > 0) == ranges
        told = (tmp_path / "nginx/access.log").read_text()
        assert (" 206 " in told) == ranges
        # Unchanged, it is not sent again; changed while a download rests, it comes whole.
        assert Transfer(Cache(cache), QUICK).fetch(remote).sha256 == SHA256
        for _ in range(100):  # nginx writes its log behind the answer
            if " 304 " in (tmp_path / "nginx/access.log").read_text():
                break
            time.sleep(0.02)
        else:
            pytest.fail("it was sent again")
        other = tmp_path / "other"
        killed(other, remote, 2_000_000)
        (served / "a.bin").write_bytes(BODY[::-1])
        assert Transfer(Cache(other), QUICK).fetch(remote).path.read_bytes() == BODY[::-1]
        # Changed twice within a second and to the same length: nginx gives both the same ETag.
        third = tmp_path / "third"
        (served / "a.bin").write_bytes(BODY)
        killed(third, remote, 2_000_000)
        (served / "a.bin").write_bytes(BODY[::-1])
        assert Transfer(Cache(third), QUICK).fetch(remote).path.read_bytes() == BODY[::-1]


def test_nginx_that_packs_what_it_sends(tmp_path: Path, cache: Path, served: Path) -> None:
    """Asked for plain bytes, it sends plain bytes; a file packed beforehand is what is asked
    for.
    """
    need_nginx()
    (served / "text.txt").write_text("word " * 10_000)
    with servers.nginx(
        served, tmp_path / "nginx", more="gzip on; gzip_types text/plain; gzip_min_length 1;"
    ) as address:
        assert (
            Transfer(Cache(cache), QUICK).fetch(Remote(f"{address}/text.txt")).path.read_text()
            == "word " * 10_000
        )
        with pytest.raises(SourceError, match="the server answered 404"):
            Transfer(Cache(cache), QUICK).fetch(Remote(f"{address}/none.txt"))


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("obstore") is None:
        missing("moto", "moto[server] and obstore are not installed")
    from gristmill.store.http import remotes

    with servers.s3(tmp_path / "s3") as address:
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(remotes, "_stores", {})
        import boto3

        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1")
        client.create_bucket(Bucket="crawl")
        yield client


def test_an_object_store_is_resumed_and_listed(tmp_path: Path, cache: Path, bucket: Any) -> None:
    client = bucket
    for key in ("data/a.bin", "data/b.txt", "data/deep/c.bin", "other.bin"):
        client.put_object(Bucket="crawl", Key=key, Body=BODY)
    time.sleep(3)  # what is younger than its date can tell is not resumed
    remote = Remote("s3://crawl/data/a.bin")
    killed(cache, remote, 2_000_000)
    note = next((cache / "partial").glob("*.json")).read_text()
    assert "s3://crawl/data/a.bin" in note
    assert "Signature" not in note
    assert resumed(cache, remote) > 0
    assert Transfer(Cache(cache), QUICK).fetch(remote).sha256 == SHA256  # unchanged: a HEAD tells
    http = Client(QUICK)
    assert expand(Remote("s3://crawl/data/*.bin"), http) == ["s3://crawl/data/a.bin"]
    assert expand(Remote("s3://crawl/data/**/*.bin"), http) == [
        "s3://crawl/data/a.bin",
        "s3://crawl/data/deep/c.bin",
    ]
    assert expand(Remote("s3://crawl/data/a.bin"), http) == ["s3://crawl/data/a.bin"]
    with pytest.raises(SourceError, match="s3://crawl/none.bin: the server answered 404") as error:
        Transfer(Cache(cache), QUICK).fetch(Remote("s3://crawl/none.bin"))
    assert "Signature" not in str(error.value)


def test_an_object_of_several_parts_is_held_to_no_checksum_of_parts(
    tmp_path: Path, cache: Path, bucket: Any
) -> None:
    client = bucket
    made = client.create_multipart_upload(Bucket="crawl", Key="parts.bin")
    parts = []
    for number, piece in enumerate((BODY * 2, BODY), 1):
        done = client.upload_part(
            Bucket="crawl",
            Key="parts.bin",
            PartNumber=number,
            UploadId=made["UploadId"],
            Body=piece,
        )
        parts.append({"PartNumber": number, "ETag": done["ETag"]})
    client.complete_multipart_upload(
        Bucket="crawl", Key="parts.bin", UploadId=made["UploadId"], MultipartUpload={"Parts": parts}
    )
    remote = Remote("s3://crawl/parts.bin")
    killed(cache, remote, 4_000_000)
    got = Transfer(Cache(cache), QUICK).fetch(remote)
    assert got.sha256 == hashlib.sha256(BODY * 3).hexdigest()


def test_the_signature_is_the_library_s_alone(cache: Path, bucket: Any) -> None:
    """obstore signs the host and nothing else: no header of ours has to be signed (ADR 14)."""
    key = "with space/a+b%25 \u00e9.bin"
    bucket.put_object(
        Bucket="crawl", Key=key.replace("%25", "%"), Body=BODY, ChecksumAlgorithm="SHA256"
    )
    remote = Remote(f"s3://crawl/{key}")
    for method in ("GET", "HEAD"):
        request = remote.request(method)
        assert not request.headers
        assert "X-Amz-SignedHeaders=host&" in request.url + "&"
    transfer = Transfer(Cache(cache), QUICK)
    assert transfer.ask(remote)[0] == len(BODY)
    assert transfer.fetch(remote).sha256 == SHA256


def test_an_object_that_changed_between_two_attempts_comes_whole(cache: Path, bucket: Any) -> None:
    client = bucket
    client.put_object(Bucket="crawl", Key="a.bin", Body=BODY)
    remote = Remote("s3://crawl/a.bin")
    killed(cache, remote, 2_000_000)
    client.put_object(Bucket="crawl", Key="a.bin", Body=BODY[::-1])
    assert Transfer(Cache(cache), QUICK).fetch(remote).path.read_bytes() == BODY[::-1]


def test_the_store_s_extra_is_named_where_it_is_missing() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from gristmill.store.http.remotes import Remote\n"
        "try: Remote('s3://b/k').request()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert told.startswith(
        "SourceError s3://b/k: object stores need an extra: pip install 'gristmill[stores]'"
    )


@pytest.fixture
def secure(tmp_path: Path, served: Path) -> Iterator[tuple[str, Path]]:
    """https over a folder, a page `down` that leads to plain http beside it, and the certificate
    that it shows.
    """
    if shutil.which("openssl") is None:
        missing("openssl", "openssl is not installed: no certificate can be made")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith("/down/"):
                return super().do_GET()
            self.send_response(302)
            self.send_header("Location", f"http://{self.path.removeprefix('/down/')}")
            self.send_header("Content-Length", "0")
            return self.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = functools.partial(Handler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}", certificate
        server.shutdown()
        thread.join()


def test_a_certificate_must_be_trusted(
    cache: Path, secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, certificate = secure
    remote = Remote(f"{address}/a.bin")
    with pytest.raises(SourceError, match=r"/a.bin: its certificate is not trusted: "):
        Transfer(Cache(cache), QUICK).fetch(remote)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert Transfer(Cache(cache), QUICK).fetch(remote).sha256 == SHA256


def test_a_redirect_down_to_http_is_not_followed_with_a_secret_or_without(
    cache: Path, secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, certificate = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with site() as plain:
        plain.put("/a", b"text")
        for secret in (None, "Bearer s3cret"):
            remote = Remote(f"{address}/down/{plain.address.removeprefix('http://')}/a", secret)
            with pytest.raises(
                SourceError, match=f"redirected from https to plain http .{plain.address}/a."
            ) as error:
                Transfer(Cache(cache), QUICK).fetch(remote)
            assert error.value.reason == "redirected"
        assert plain.connections == 0

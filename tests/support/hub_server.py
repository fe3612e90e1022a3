"""A server that speaks the hub's HTTP API, as far as publishing and reading a data set needs it:
repositories, preupload, Git LFS with one part or several, commits, trees, files.

Written from the API's description (https://huggingface.co/docs/hub/api, the LFS batch API of
https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md) and from what huggingface_hub asks.
Everything is in memory. It listens on a port of its own, in a thread.
"""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_the_tests"  # noqa: S105 (of nobody)
PART = 1 << 14  # bytes: larger objects are uploaded in parts


@dataclass
class Blob:
    """A file of a commit; `stored` is the sha256 and size of one whose bytes are in the service for
    large files.
    """

    data: bytes
    lfs: bool
    stored: tuple[str, int] | None = None

    def entry(self, path: str) -> dict[str, Any]:
        sha256, size = self.stored or (hashlib.sha256(self.data).hexdigest(), len(self.data))
        pointer = (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
        ).encode()
        stored = pointer if self.lfs else self.data
        oid = hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()
        found = {"type": "file", "path": path, "size": size, "oid": oid}
        if self.lfs:
            found["lfs"] = {"oid": sha256, "size": size, "pointerSize": len(pointer)}
        return found


@dataclass
class Hub:
    """What the server holds, and what was asked of it."""

    address: str = ""
    commits: dict[str, list[tuple[str, dict[str, Blob]]]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)  # sha256 of each object that was sent
    refuse_uploads_after: int | None = None
    after_upload: Any = None  # called after each object
    xet: str = ""  # where Xet keeps large files: local:// and a folder; empty: not offered
    xet_tokens: int = 0  # how often one was asked for
    before_commit: Any = None  # called once, before the next commit is taken
    corrupt: bool = False  # the next commit loses the last byte of its large files
    lock: Any = field(default_factory=threading.RLock)

    def head(self, name: str) -> str:
        return self.commits[name][-1][0]

    def files(self, name: str) -> dict[str, bytes]:
        return {path: blob.data for path, blob in self.commits[name][-1][1].items()}

    def at(self, name: str, revision: str) -> tuple[str, dict[str, Blob]]:
        if revision == "main":
            return self.commits[name][-1]
        return next(one for one in self.commits[name] if one[0] == revision)

    def add(self, name: str, files: dict[str, Blob]) -> str:
        """A commit with exactly these files."""
        before = self.commits.setdefault(name, [])
        listing = sorted((path, blob.entry(path)["oid"]) for path, blob in files.items())
        said = json.dumps([len(before), listing]).encode()
        oid = hashlib.sha1(said).hexdigest()
        before.append((oid, files))
        return oid


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def _answer(
        self, status: int, value: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for key, word in (headers or {}).items():
            self.send_header(key, word)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _refuse(self, status: int, message: str, code: str = "") -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._answer(status, {"error": message}, headers)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        pieces = [unquote(piece) for piece in path.split("/")[1:]]
        with self.hub.lock:
            match pieces:
                case ["api", "datasets", owner, name, *rest] if self._known(f"{owner}/{name}"):
                    self._dataset(f"{owner}/{name}", rest)
                case ["datasets", owner, name, "resolve", revision, *file] if self._known(
                    f"{owner}/{name}"
                ):
                    self._file(f"{owner}/{name}", revision, "/".join(file))
                case _:
                    self._refuse(404, "Repository not found", "RepoNotFound")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _known(self, name: str) -> bool:
        return name in self.hub.commits

    def _dataset(self, name: str, rest: list[str]) -> None:
        revision = rest[1] if len(rest) > 1 else "main"
        commit, files = self.hub.at(name, revision)
        if rest[:1] == ["xet-write-token"] and not self.hub.xet:
            self._refuse(404, "Not found")
        elif rest[:1] == ["xet-write-token"]:
            self.hub.xet_tokens += 1
            ends = int(time.time()) + 3600
            said = {"casUrl": self.hub.xet, "accessToken": "xet", "exp": ends}
            headers = {
                "X-Xet-Cas-Url": self.hub.xet,
                "X-Xet-Access-Token": "xet",
                "X-Xet-Token-Expiration": str(ends),
            }
            self._answer(200, said, headers)
        elif rest[:1] == ["tree"]:
            self._answer(200, [blob.entry(path) for path, blob in sorted(files.items())])
        else:
            siblings = [{"rfilename": path} for path in sorted(files)]
            self._answer(200, {"id": name, "sha": commit, "siblings": siblings})

    def _file(self, name: str, revision: str, path: str) -> None:
        commit, files = self.hub.at(name, revision)
        if path not in files:
            return self._refuse(404, "Entry not found", "EntryNotFound")
        data = files[path].data
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        self._answer(200, data, {"X-Repo-Commit": commit, "ETag": etag})
        return None

    def do_POST(self) -> None:
        body = self._body()
        pieces = [unquote(piece) for piece in urlsplit(self.path).path.split("/")[1:]]
        if pieces[0] != "complete" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._refuse(401, "Invalid username or password.")
        with self.hub.lock:
            match pieces:
                case ["api", "validate-yaml"]:
                    self._answer(200, {"errors": [], "warnings": []})
                case ["api", "repos", "create"]:
                    self._create(json.loads(body))
                case ["api", "datasets", owner, name, "preupload", _]:
                    self._preupload(f"{owner}/{name}", json.loads(body))
                case ["datasets", _, _, "info", "lfs", "objects", "batch"]:
                    self._batch(json.loads(body))
                case ["complete", oid]:
                    self._complete(oid, json.loads(body))
                case ["api", "datasets", owner, name, "commit", "main"]:
                    self._commit(f"{owner}/{name}", body)
                case _:
                    self._refuse(404, "Not found")
        return None

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if asked["type"] != "dataset":
            return self._refuse(400, "the tests have data sets alone")
        if name in self.hub.commits:
            url = f"{self.hub.address}/datasets/{name}"
            said = {"error": "You already created this dataset repo", "url": url}
            return self._answer(409, said)
        self.hub.add(name, {".gitattributes": Blob(b"*.parquet filter=lfs\n", lfs=False)})
        return self._answer(200, {"url": f"{self.hub.address}/datasets/{name}", "id": name})

    def _preupload(self, name: str, asked: dict[str, Any]) -> None:
        files = self.hub.commits[name][-1][1]
        found = []
        for one in asked["files"]:
            there = files.get(one["path"])
            entry = there.entry(one["path"]) if there else {}
            found.append(
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["path"].endswith(".parquet") else "regular",
                    "shouldIgnore": False,
                    "oid": entry.get("lfs", entry).get("oid"),
                }
            )
        self._answer(200, {"files": found})

    def _batch(self, asked: dict[str, Any]) -> None:
        assert asked["operation"] == "upload"
        found = []
        for one in asked["objects"]:
            oid, size = one["oid"], one["size"]
            action: dict[str, Any] = {"oid": oid, "size": size}
            if oid not in self.hub.objects:
                upload: dict[str, Any] = {"href": f"{self.hub.address}/upload/{oid}/0"}
                if size > PART:
                    count = -(-size // PART)
                    upload = {
                        "href": f"{self.hub.address}/complete/{oid}",
                        "header": {"chunk_size": str(PART)}
                        | {
                            f"{part + 1:05d}": f"{self.hub.address}/upload/{oid}/{part + 1}"
                            for part in range(count)
                        },
                    }
                action["actions"] = {"upload": upload}
            found.append(action)
        self._answer(200, {"transfer": "basic", "objects": found})

    def do_PUT(self) -> None:
        data = self._body()
        _, oid, part = self.path.split("/")[1:]
        with self.hub.lock:
            if part == "0":
                return self._store(oid, data)
            self.hub.parts[oid, int(part)] = data
        return self._answer(200, {}, {"ETag": hashlib.md5(data).hexdigest()})

    def _complete(self, oid: str, asked: dict[str, Any]) -> None:
        numbers = [one["partNumber"] for one in asked["parts"]]
        assert numbers == list(range(1, len(numbers) + 1))
        self._store(oid, b"".join(self.hub.parts.pop((oid, number)) for number in numbers))

    def _store(self, oid: str, data: bytes) -> None:
        if hashlib.sha256(data).hexdigest() != oid:
            return self._refuse(400, "the object does not have its sha256")
        limit = self.hub.refuse_uploads_after
        if limit is not None and len(self.hub.uploads) >= limit:
            return self._refuse(403, "the tests' server takes no more")
        self.hub.uploads.append(oid)
        self.hub.objects[oid] = data
        if self.hub.after_upload is not None:
            self.hub.after_upload()
        return self._answer(200, {})

    def _commit(self, name: str, body: bytes) -> None:
        if (called := self.hub.before_commit) is not None:
            self.hub.before_commit = None
            called()
        lines = [json.loads(line) for line in body.splitlines()]
        parent = lines[0]["value"].get("parentCommit")
        if parent not in (None, self.hub.head(name)):
            return self._refuse(412, "A commit has happened since. Please refresh and try again.")
        files = dict(self.hub.commits[name][-1][1])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]), lfs=False)
            elif line["key"] == "lfsFile":
                data = self.hub.objects.get(value["oid"])
                if data is None and self.hub.xet:
                    stored = (value["oid"], value["size"])
                    files[value["path"]] = Blob(b"", lfs=True, stored=stored)
                    continue
                if data is None:
                    return self._refuse(400, f"{value['path']}: its object was not uploaded")
                files[value["path"]] = Blob(data[:-1] if self.hub.corrupt else data, lfs=True)
            elif files.pop(value["path"], None) is None:
                return self._refuse(404, "A file with this name doesn't exist", "EntryNotFound")
        commit = self.hub.add(name, files)
        url = f"{self.hub.address}/datasets/{name}/commit/{commit}"
        return self._answer(200, {"commitUrl": url, "commitOid": commit})


@contextmanager
def hub_server() -> Iterator[Hub]:
    """A hub with nothing in it."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()

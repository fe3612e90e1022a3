"""Publishing to folders and to an S3 API: what is written, resumed, refused, and what two
publishers do to each other.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError
from gristmill.network.releases import layout, targets
from gristmill.network.releases.publish import publish
from gristmill.network.releases.publisher import Publisher, UploadSettings
from gristmill.network.releases.targets import TargetChangedError, open_target
from gristmill.progress.terminal import Display
from gristmill.store import manifest as manifests
from gristmill.system.ownership import MARKER
from tests.support.command import command_line
from tests.support.corpora import jsonl, pages
from tests.support.releases import bucket, everything_at, names, pointer_of, small_corpus


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus(tmp_path_factory.mktemp("first") / "corpus", 1)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus(tmp_path_factory.mktemp("second") / "corpus", 2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with bucket(tmp_path_factory.mktemp("s3")) as client:
        yield client


@pytest.fixture(params=["folder", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "target")
    request.getfixturevalue("store")
    return f"s3://releases/{hashlib.sha256(str(tmp_path).encode()).hexdigest()}"


def manifest_of(corpus: Path) -> str:
    return hashlib.sha256((corpus / "manifest.json").read_bytes()).hexdigest()


def test_a_corpus_is_published_then_another_and_only_what_is_missing_goes(
    first: Path, second: Path, target: str
) -> None:
    done = publish(first, target)
    parts = json.loads((first / "manifest.json").read_bytes())["parts"]
    assert (done["release"], done["new"], done["objects"], done["present"]) == (1, True, 9, 0)
    assert done["bytes"] == sum(part["size"] for part in parts)
    newest = everything_at(target)
    assert newest.release.manifest == manifest_of(first)
    assert (newest.release.previous, newest.signed, newest.release.number) == (None, False, 1)
    again = publish(first, target)
    assert (again["release"], again["new"], again["objects"], again["present"]) == (1, False, 0, 9)
    other = publish(second, target)
    assert (other["release"], other["objects"], other["present"]) == (
        2,
        4,
        5,
    )  # one tokenizer, equal ends
    newest = everything_at(target)
    assert newest.release.manifest == manifest_of(second)
    assert newest.release.previous == done["sha256"]
    back = publish(first, target)  # an earlier corpus is a new release
    assert (back["release"], back["objects"]) == (3, 0)


def test_headers_of_objects_and_of_the_pointer(first: Path, store: Any) -> None:
    publish(first, "s3://releases/headers", settings=UploadSettings(max_age=7))
    found = {}
    for entry in store.list_objects_v2(Bucket="releases", Prefix="headers/")["Contents"]:
        if entry["Key"].endswith(MARKER):
            continue  # readers never ask for it
        head = store.head_object(Bucket="releases", Key=entry["Key"])
        found[entry["Key"].removeprefix("headers/")] = head["CacheControl"]
    assert found.pop("latest.json") == "public, max-age=7"
    assert len(found) == 9 + 3 + 1
    assert set(found.values()) == {"public, max-age=31536000, immutable"}
    for key in found:
        if key.startswith("objects/"):
            body = store.get_object(Bucket="releases", Key=f"headers/{key}")["Body"].read()
            assert key == layout.object_key(hashlib.sha256(body).hexdigest())


def test_a_file_of_several_blocks(tmp_path: Path, target: str) -> None:
    """10 MB: an upload of two parts."""
    publish(small_corpus(tmp_path / "corpus", 3, tokens=5 << 20, shards=1), target)
    assert everything_at(target).release.number == 1


# -- killed

KILLED = """
import os, signal, sys
from pathlib import Path
from gristmill.network.releases.publish import publish
from tests.support.releases import everything_at
first, second, base, target, *keys = sys.argv[1:]
root = {"root": Path(target) / "trust/1.root.json"} if keys else {}
import shutil

def child(at):
    pid = os.fork()
    if pid == 0:
        count, rename = 0, Path.rename
        def counted(self, to):
            nonlocal count
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, to)
        Path.rename = counted
        publish(second, target, keys=keys)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

at = 0
while True:
    at += 1
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(base, target)
    ended = child(at)
    before = everything_at(target, **root).release.number
    assert before == (2 if ended == 0 else before), before
    print(before, flush=True)
    if ended == 0:
        break
    assert os.WTERMSIG(ended) == signal.SIGKILL
    assert child(0) == 0
    newest = everything_at(target, **root)
    assert newest.release.number == 2
    assert not list(Path(target).rglob("*.writing")), "left behind"
"""


@pytest.mark.parametrize("signed", [False, True])
def test_killed_before_any_name_appears_a_publisher_continues(
    first: Path, second: Path, tmp_path: Path, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see release 1 or 2, whole, after a kill before each rename."""
    keys = []
    if signed:
        from gristmill.network.trust.keys import new_key

        monkeypatch.setenv("GRISTMILL_KEY_PASSPHRASE", "secret words")
        new_key(tmp_path / "key", "secret words")
        keys = [tmp_path / "key"]
    publish(first, tmp_path / "base", keys=keys)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, first, second, tmp_path / "base", tmp_path / "t", *keys],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    seen = [int(line) for line in done.stdout.split()]
    # 4 objects, manifest, lock, sums, release, pointer; and targets, snapshot, timestamp
    assert len(seen) == (13 if signed else 10)
    assert sorted(seen) == seen
    assert (seen[0], seen[-1]) == (1, 2)


def test_a_killed_publisher_at_an_object_store_continues(
    first: Path, second: Path, store: Any
) -> None:
    url = "s3://releases/killed"
    publish(first, url)
    code = (
        "import os, signal, sys\n"
        "from gristmill.network.releases import targets\n"
        "from gristmill.network.releases.publish import publish\n"
        "put, done = targets.BucketTarget.put_file, []\n"
        "def counted(self, *given):\n"
        "    put(self, *given)\n"
        "    done.append(1)\n"
        "    if len(done) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "targets.BucketTarget.put_file = counted\n"
        "publish(sys.argv[1], sys.argv[2])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, second, url], check=False)
    assert killed.returncode == -9
    assert everything_at(url).release.number == 1
    done = publish(second, url)
    assert (done["release"], done["objects"] + done["present"]) == (2, 9)
    assert done["present"] >= 3
    assert everything_at(url).release.manifest == manifest_of(second)


# -- two publishers


def test_of_two_publishers_the_second_is_refused_and_harms_nothing(
    first: Path, second: Path, target: str
) -> None:
    publish(first, target)
    slow = Publisher(open_target(target))
    done = publish(second, target)
    data = (first / "manifest.json").read_bytes()
    with pytest.raises(
        TargetChangedError, match=r"latest.json: another publisher wrote it meanwhile"
    ):
        slow.release(data, ["tokens"])
    slow.close()
    assert open_target(target).get(layout.release_key(3), 10_000) is None
    newest = everything_at(target)
    assert (newest.release.number, newest.sha256) == (2, done["sha256"])


def test_a_publisher_that_stopped_before_the_pointer_is_stepped_over(
    first: Path, second: Path, target: str
) -> None:
    publish(first, target)
    stopped = Publisher(open_target(target))
    data = (second / "manifest.json").read_bytes()
    stopped.put_bytes(data)
    release = stopped._claim(
        lambda number: layout.Release(
            number=number,
            manifest=manifest_of(second),
            manifest_size=len(data),
            previous=None,
            included=["tokens"],
        )
    )
    assert release.number == 2
    assert everything_at(target).release.number == 1
    done = publish(second, target, with_=["tokens"])
    assert done["release"] == 3  # another `previous`: not its release
    with pytest.raises(TargetChangedError, match="another publisher wrote it meanwhile"):
        stopped.point(release)
    stopped.close()
    assert everything_at(target).release.number == 3


def test_publishers_at_once_leave_one_whole_release_each(
    first: Path, second: Path, tmp_path: Path
) -> None:
    results: list[Any] = []
    begin = threading.Barrier(4)

    def go(corpus: Path) -> None:
        begin.wait()
        try:
            results.append(publish(corpus, tmp_path / "target")["release"])
        except GristmillError as error:
            results.append(error)

    threads = [threading.Thread(target=go, args=(corpus,)) for corpus in (first, second) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [result for result in results if isinstance(result, Exception)]
    assert all(isinstance(error, TargetChangedError) for error in refused)
    assert len(refused) < 4
    newest = everything_at(tmp_path / "target")
    assert newest.release.number == max(result for result in results if isinstance(result, int))


# -- altered, full, refused


def test_an_object_that_the_target_altered_is_found(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    put = targets.FolderTarget.put_file

    def altered(self: Any, key: str, path: Path, sha256: str, size: int, headers: Any) -> None:
        put(self, key, path, sha256, size, headers)
        with open(self.root / key, "r+b") as file:
            file.write(b"\xff\xff")

    with monkeypatch.context() as patch:
        patch.setattr(targets.FolderTarget, "put_file", altered)
        with pytest.raises(VerificationError, match="the target altered it"):
            publish(first, target)
    assert not (target / "latest.json").exists()
    publish(first, target)
    shard = json.loads((first / "manifest.json").read_bytes())["parts"][1]
    path = target / layout.object_key(shard["sha256"])
    whole = path.read_bytes()
    path.write_bytes(b"\0" * len(whole))
    assert publish(first, target)["new"] is False  # sizes alone are compared
    with pytest.raises(VerificationError, match="It was removed: run the same command again"):
        publish(first, target, settings=UploadSettings(check_all=True))
    assert publish(first, target, settings=UploadSettings(check_all=True))["objects"] == 1
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-1])
    with pytest.raises(VerificationError, match=r"bytes, expected [\d,]+: an object was altered"):
        publish(first, target)


def test_a_full_disk_stops_and_the_next_run_continues(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, left = os.fsync, [3]

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="no space left on the disk"):
        publish(first, tmp_path / "target", settings=UploadSettings(connections=1))
    monkeypatch.setattr(os, "fsync", fsync)
    assert publish(first, tmp_path / "target")["present"] >= 1
    assert everything_at(tmp_path / "target").release.number == 1


def test_a_store_that_refuses(first: Path, store: Any) -> None:
    with pytest.raises(RecipeError, match=r"there is no such bucket \(NoSuchBucket\)"):
        publish(first, "s3://nobucket/prefix")
    address = os.environ["AWS_ENDPOINT_URL"]

    def enforce(after: str) -> None:
        data = after.encode()
        request = urllib.request.Request(
            f"{address}/moto-api/reset-auth", data, {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    enforce("0")
    try:
        with pytest.raises(MachineError, match="the store refused|the store did not do it") as got:
            publish(first, "s3://releases/forbidden")
    finally:
        enforce("inf")
    assert "s3cret" not in str(got.value)
    assert "Signature" not in str(got.value)


# -- what is refused


def test_corpora_that_are_refused(first: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "empty").mkdir()
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        publish(tmp_path / "empty", target)

    def copy(name: str) -> Path:
        shutil.copytree(first, tmp_path / name)
        return tmp_path / name

    def refused(corpus: Path, said: str, error: type[Exception] = VerificationError) -> None:
        with pytest.raises(error, match=said):
            publish(corpus, target)
        assert not target.exists()

    corpus = copy("altered")
    with open(corpus / "tokens/web/train_00002.bin", "r+b") as file:
        file.write(b"\xff")
    refused(corpus, "train_00002.bin: not as it was written.*Nothing was published")
    corpus = copy("lost")
    (corpus / "tokens/web/train_00002.docs").unlink()
    refused(corpus, r"train_00002.docs: not as it was written")
    corpus = copy("lock")
    (corpus / "manifest.lock").write_text("0" * 64 + "  manifest.json\n")
    refused(corpus, "manifest.json and manifest.lock disagree")
    corpus = copy("sums")
    (corpus / "SHA256SUMS").write_text("")
    refused(corpus, "SHA256SUMS: not as manifest.json says")
    corpus = copy("link")
    shard = corpus / "tokens/web/train_00001.bin"
    shard.rename(tmp_path / "outside.bin")
    shard.symlink_to(tmp_path / "outside.bin")
    refused(corpus, "train_00001.bin: a link to")
    for number, name in enumerate(("../../etc/passwd", "/etc/passwd", "tokens/../../x", "a\\b")):
        corpus = copy(f"hostile{number}")
        text = (corpus / "manifest.json").read_text()
        text = text.replace("tokens/web/train_00001.bin", name.replace("\\", "\\\\"))
        (corpus / "manifest.json").write_text(text)
        (corpus / "manifest.lock").write_bytes(manifests.make_lock(text.encode()))
        refused(corpus, "that leaves the corpus")
    corpus = copy("later")
    text = (corpus / "manifest.json").read_text().replace('"format": 2', '"format": 9')
    (corpus / "manifest.json").write_text(text)
    (corpus / "manifest.lock").write_bytes(manifests.make_lock(text.encode()))
    refused(corpus, "has format 9; this gristmill reads formats 1 to 2")
    corpus = copy("secret")
    text = (corpus / "manifest.json").read_text()
    text = text.replace('"name": "web"', '"name": "web", "urls": ["https://u:p@host/a?token=s3x"]')
    (corpus / "manifest.json").write_text(text)
    (corpus / "manifest.lock").write_bytes(manifests.make_lock(text.encode()))
    with pytest.raises(RecipeError, match=r"https://host/a with a secret") as got:
        publish(corpus, target)
    assert "s3x" not in str(got.value)


def test_targets_that_are_refused(first: Path, tmp_path: Path, store: Any) -> None:
    for url in ("https://host/x", "ftp://host/x", "hf:/x://y"):
        with pytest.raises(RecipeError, match="nothing can be published there: name s3://BUCKET"):
            publish(first, url)
    with pytest.raises(RecipeError, match="without a query, a fragment and dots"):
        publish(first, "s3://releases/a/../b")
    with pytest.raises(RecipeError, match="lies in the corpus: name a folder elsewhere"):
        publish(first, first / "target")
    assert not (first / "target").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").touch()
    with pytest.raises(MachineError, match=r"holds 'cat.jpg', .* nothing is touched there"):
        publish(first, tmp_path / "photos")
    store.put_object(Bucket="releases", Key="photos/cats/1.jpg", Body=b"")
    with pytest.raises(MachineError, match=r"holds 'cats', .* nothing is touched there"):
        publish(first, "s3://releases/photos")
    with pytest.raises(RecipeError, match=r"--with texts: .* has no parts there; it has tokeni"):
        publish(first, tmp_path / "target", with_=["texts"])
    publish(first, tmp_path / "later")
    pointer = tmp_path / "later/latest.json"
    pointer.write_bytes(pointer.read_bytes().replace(b'"format": 1', b'"format": 2, "x": 1'))
    with pytest.raises(VerificationError, match="a pointer of format 2; this gristmill reads form"):
        publish(first, tmp_path / "later")
    with pytest.raises(VerificationError, match="Install a later version of gristmill"):
        everything_at(tmp_path / "later")
    pointer.write_bytes(b'{"format": 1}')
    with pytest.raises(VerificationError, match="latest.json: no pointer"):
        publish(first, tmp_path / "later")
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="a file stands where a folder should be"):
        publish(first, tmp_path / "file")


def test_no_secret_of_a_run_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(pages(4)))
    (tmp_path / "recipe.toml").write_text(
        f'output = "corpus"\n[[source]]\nname = "web"\n'
        f'urls = ["file://{tmp_path}/a.jsonl?token=very-s3cret"]\n'
    )
    monkeypatch.setenv("GRISTMILL_AUTH_X", "very-s3cret")
    gristmill.run(tmp_path / "recipe.toml", workers=1)
    (tmp_path / "corpus/notes.txt").write_text("very-s3cret")  # no part of the corpus
    said: list[str] = []
    done = publish(tmp_path / "corpus", tmp_path / "target", on_line=said.append)
    assert done["included"] == ["funnel.json", "plan.json", "recipe.toml"]
    assert "text" in said[0] and "(--with adds them)" in said[0]
    done = publish(tmp_path / "corpus", tmp_path / "target", with_=["all"])
    assert "text" in done["included"]
    assert b"very-s3cret" not in b"".join(
        (tmp_path / "target" / name).read_bytes() for name in names(tmp_path / "target")
    )
    assert "run.json" not in str(names(tmp_path / "target"))


# -- the command line


def test_progress_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(as_json=True) as display:
        shown = display.transfer("publish")
        shown(1_000, 4_000)
        shown(2_000, 4_000)  # within 5 seconds: not shown
        display.line("not published: text")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["progress", "line"]
    assert (events[0]["phase"], events[0]["done"], events[0]["jobs"]) == ("publish", 1_000, 4_000)
    assert all(event["time"].endswith("+00:00") for event in events)
    with Display(as_json=False) as display:
        display.transfer("pull")(1_000, 4_000)
        display.line("a line")
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("pull: 1 kB of 4 kB, ")
    assert said[1] == "a line"


def test_the_verb(first: Path, tmp_path: Path) -> None:
    def mill(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)

    done = mill("publish", first, tmp_path / "target")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{(tmp_path / 'target').as_uri()}: release 1"
    assert lines[1].startswith("9 objects, 0.1 MB uploaded; 0 were there")
    done = mill("publish", first, tmp_path / "target", "--json")
    found = json.loads(done.stdout)
    assert (found["event"], found["new"]) == ("published", False)
    done = mill("publish", tmp_path, tmp_path / "target")
    assert (done.returncode, "not a corpus" in done.stderr) == (4, True)
    done = mill("publish", first, "https://host/x")
    assert (done.returncode, "nothing can be published there" in done.stderr) == (2, True)
    assert pointer_of(tmp_path / "target").release == 1

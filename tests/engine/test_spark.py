"""Spark against the embedded engine: a real standalone cluster on 127.0.0.1, the same bytes, also
when a worker dies.
"""

import importlib.util
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import RecipeError, run, train_perplexity, train_tokenizer, verify
from gristmill.engine import nodes
from gristmill.engine.spark import work
from tests.support import ROOT, four_languages
from tests.support.corpora import article, digests, jsonl, pages
from tests.support.duplicates import edited, real_documents
from tests.support.faults import site as http_site
from tests.support.growing import growing
from tests.support.releases import bucket
from tests.support.servers import s3
from tests.support.skips import missing
from tests.support.spark import JAVA, Cluster, cluster
from tests.support.stored import copied, names

RECIPE = """
[[source]]
name = "web"
files = ["web/*.jsonl"]
[[source]]
name = "docs"
files = ["docs/*.jsonl"]
[[step]]
use = "gopher"
sources = ["web"]
[[step]]
use = "perplexity"
model = "usual.model"
drop_highest = 0.1
[[step]]
use = "ensemble"
scores = ["perplexity.perplexity"]
combine = "rank_mean"
reverse = ["perplexity.perplexity"]
buckets = 3
[[step]]
use = "decontaminate"
benchmarks = [{ name = "made", file = "items.jsonl", fields = ["text"] }]
common = 8
[[step]]
use = "private"
after_dedup = true
[deduplicate]
url = true
scope = "SCOPE"
order = "ORDER"
near = {}
lines = { most = 40 }
substrings = { bytes = 20 }
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
repeat = { by = "copies", table = { 1 = 1, 2 = 1.5, 4 = 3 } }
partition = { by = ["ensemble.bucket"] }
"""
# A driver that cannot do the work of the nodes; they are processes of their own, which can.
DRIVER = """
from gristmill.cli.app import main
from gristmill.kernels.hashing import band_keys, minhash, pairs
from gristmill.kernels.substrings import repeats, runs

def refuse(*given, **named):
    raise AssertionError("done on the driver")

band_keys.Repeated = refuse
minhash.band_keys = minhash.distinct_shingles = refuse
pairs.agreement = pairs.jaccard = repeats.repeated = runs.find_runs = refuse
main()
"""

# A driver that says what it fetches itself.
FETCHES = """
from gristmill.cli.app import main
from gristmill.store.http.transfer import Transfer

fetch = Transfer.fetch

def said(self, remote, *given):
    print("driver fetches", remote.shown)
    return fetch(self, remote, *given)

Transfer.fetch = said
main()
"""
REMOTE = """
[[source]]
name = "open"
urls = ["{open}"]
[[source]]
name = "secret"
urls = ["{secret}"]
authorization = "GRISTMILL_AUTH_TEST"
[[source]]
name = "store"
urls = ["s3://crawl/c.jsonl"]
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, soak: int) -> Iterator[Cluster]:
    """A cluster of one worker of two cores, or of two workers under `make soak`."""
    if shutil.which("java") is None:
        missing("java", "Spark needs Java, and there is none")
    with cluster(tmp_path_factory.mktemp("spark"), 1 if soak == 1 else 2) as started:
        yield started


def lay_out(folder: Path, texts: list[str], shards: int, scope: str, order: str = "plan") -> Path:
    """Documents over the shards of two sources, with URLs that repeat; a model and a benchmark of
    some of them.
    """
    (folder / "usual.jsonl").write_bytes(jsonl([{"text": text} for text in texts[:100]]))
    train_perplexity([folder / "usual.jsonl"], folder / "usual.model")
    train_tokenizer([folder / "usual.jsonl"], folder / "tokenizer.json", vocabulary=400)
    (folder / "items.jsonl").write_bytes(
        jsonl([{"text": " ".join(text.split()[:60])} for text in texts[100:130]])
    )
    pick = random.Random(7)
    for number in range(shards):
        rows = [
            {"url": f"https://x.example/{pick.randrange(3 * len(texts))}", "text": text}
            for text in texts[number::shards]
        ]
        path = folder / ("web" if number % 2 else "docs") / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jsonl(rows))
    (folder / "recipe.toml").write_text(RECIPE.replace("SCOPE", scope).replace("ORDER", order))
    return folder / "recipe.toml"


def run_on(
    spark: Cluster, recipe: Path, out: Path, *more: str, driver: str = DRIVER
) -> "subprocess.Popen[bytes]":
    """A run from the command line: a Spark session is one a process."""
    command = [
        sys.executable,
        "-c",
        driver,
        "run",
        str(recipe),
        "--out",
        str(out),
        "--engine",
        spark.address,
        *more,
    ]
    return subprocess.Popen(
        command, env=outside({}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ended(process: "subprocess.Popen[bytes]") -> str:
    told = process.communicate(timeout=900)[0].decode("utf-8", "replace")
    assert process.returncode == 0, told
    return told


@pytest.mark.parametrize("scope", ["corpus", pytest.param("source", marks=pytest.mark.soak)])
def test_the_same_bytes_from_both_engines(spark: Cluster, tmp_path: Path, scope: str) -> None:
    pick = random.Random(11)
    texts = [article(number, 30) for number in range(200)]
    texts += [
        edited(pick.choice(texts), pick.choice([0.0, 0.005, 0.02, 0.08]), pick) for _ in range(300)
    ]
    # A template near the threshold fills buckets, so that rounds are needed.
    page = article("template", 30)
    texts += [edited(page, 0.02, pick) for _ in range(150)]
    recipe = lay_out(tmp_path, texts, 6, scope, "longest")
    process = run_on(spark, recipe, tmp_path / "spark")
    here = run(recipe, out=tmp_path / "local", workers=2).table
    ended(process)
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")
    reasons = {
        reason for step in here["steps"] for reason, count in step["reasons"].items() if count
    }
    assert reasons >= {
        "deduplicate.same_url",
        "deduplicate.near_duplicate",
        "perplexity.highest",
        "decontaminate.overlap",
    }
    verify(tmp_path / "spark")
    # The other engine finds nothing to do: what was done is not Spark's, or the embedded engine's.
    assert run(recipe, out=tmp_path / "spark", workers=1).table == here


@pytest.mark.soak
def test_settings_of_languages_give_the_same_bytes(spark: Cluster, tmp_path: Path) -> None:
    four_languages.lay_out(tmp_path)
    recipe, settings = tmp_path / "recipe.toml", four_languages.asked(four_languages.ENTRIES)
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    ended(run_on(spark, recipe, tmp_path / "spark", *given))
    run(recipe, out=tmp_path / "local", workers=1, settings=settings)
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")


def test_nodes_fetch_what_needs_no_secret_of_the_driver(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two raw shards by HTTP, one of which needs an authorization, and one of an object store."""
    for package in ("moto", "obstore", "boto3"):
        if importlib.util.find_spec(package) is None:
            missing("moto", f"{package} is not installed")
    import boto3

    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with http_site() as site, s3(tmp_path / "s3") as store:
        keys |= {"AWS_ENDPOINT_URL": store, "AWS_REGION": "us-east-1"}
        for name, value in {**keys, "GRISTMILL_AUTH_TEST": "Bearer x"}.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=store, region_name="us-east-1")
        client.create_bucket(Bucket="crawl")
        client.put_object(Bucket="crawl", Key="c.jsonl", Body=jsonl(pages(20, "c")))
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(
            REMOTE.format(
                open=site.put("/a.jsonl", jsonl(pages(20, "a"))),
                secret=site.put("/b.jsonl", jsonl(pages(20, "b"))),
            )
        )
        # Nodes have credentials of their own: here Spark gives them.
        conf = tmp_path / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(
            "".join(f"spark.executorEnv.{name} {value}\n" for name, value in keys.items())
        )
        monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
        cache = ("--cache-dir", str(tmp_path / "cache"))
        told = ended(run_on(spark, recipe, tmp_path / "spark", *cache, driver=FETCHES))
        asked = [path for _, path, _ in site.asked]
        run(recipe, out=tmp_path / "local", workers=1, cache_dir=tmp_path / "other")
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")
    # What the driver fetched itself: only what needs its secret.
    assert [line for line in told.splitlines() if line.startswith("driver fetches")] == [
        f"driver fetches {site.address}/b.jsonl"
    ]
    assert sorted(set(asked)) == ["/a.jsonl", "/b.jsonl"]


STORED = """
[[source]]
name = "web"
urls = ["{web}"]
[[source]]
name = "docs"
files = ["docs/*.jsonl"]
[[step]]
use = "perplexity"
model = "usual.model"
drop_highest = 0.1
[[step]]
use = "private"
after_dedup = true
[deduplicate]
near = {{}}
lines = {{ most = 40 }}
substrings = {{ bytes = 20 }}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
"""
PLAIN = "from gristmill.cli.app import main; main()"
# A driver that ends, as if killed, when the third record of a phase is written.
ENDS = """
import os, signal
from gristmill.cli.app import main
from gristmill.store.bucket.bucket import Bucket

put, seen = Bucket.put, []

def counted(self, key, data):
    put(self, key, data)
    seen.append(key)
    if sum(key.startswith("work/state/") for key in seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Bucket.put = counted
main()
"""


@pytest.mark.soak
def test_a_corpus_in_a_store_and_no_shared_folder(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes' folders are their own. A driver is killed; another, with an empty scratch folder,
    goes on, and loses a worker.
    """
    texts = [article(number, 20) for number in range(60)] + [article(3, 20)] * 3
    lay_out(tmp_path, texts, 3, "corpus")
    with http_site() as site, bucket(tmp_path / "s3", "corpora") as client:
        (tmp_path / "recipe.toml").write_text(
            STORED.format(web=site.put("/a.jsonl", (tmp_path / "web/1.jsonl").read_bytes()))
        )
        conf = tmp_path / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(
            "".join(
                f"spark.executorEnv.{name} {value}\n"
                for name, value in os.environ.items()
                if name.startswith("AWS_")
            )
        )
        monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
        more = (tmp_path / "recipe.toml", Path("s3://corpora/web"), "--cache-dir")
        killed = run_on(spark, *more, str(tmp_path / "a"), driver=ENDS)
        killed.communicate(timeout=600)
        assert killed.returncode == -9
        process = run_on(spark, *more, str(tmp_path / "b"), driver=PLAIN)
        while process.poll() is None and not _records(client, "tokenize"):
            time.sleep(0.1)
        # The other worker does what the first one was at.
        subprocess.run(["pkill", "-KILL", "-P", str(spark.workers[0].pid)], check=False)
        spark.workers[0].kill()
        spark.add_worker()
        told = ended(process)
        run(tmp_path / "recipe.toml", out=tmp_path / "local", workers=1)
        assert copied(client, "web", tmp_path / "copy") == digests(tmp_path / "local")
    assert [path for _, path, _ in site.asked].count("/a.jsonl") <= 3, told
    # The driver's folder has no file of a task about one raw shard.
    assert not list((tmp_path / "b").glob("corpora/*/work/stage/**/0000*"))


def _records(client: Any, phase: str) -> bool:
    """Whether the store has a record of a phase."""
    return any(name.startswith(f"work/state/{phase}/") for name in names(client, "web"))


@pytest.mark.soak
def test_targets_and_a_corpus_that_grows(spark: Cluster, tmp_path: Path) -> None:
    """Sources with priorities and targets, and then with higher ones, on each engine; the third
    corpus begins on one engine and grows on the other.
    """
    for recipe in growing(tmp_path):
        if (tmp_path / "local").exists():
            shutil.copytree(tmp_path / "local", tmp_path / "mixed")
            ended(run_on(spark, recipe, tmp_path / "mixed"))
        ended(run_on(spark, recipe, tmp_path / "spark"))
        run(recipe, out=tmp_path / "local", workers=2)
        assert digests(tmp_path / "spark") == digests(tmp_path / "local")
        verify(tmp_path / "spark")
    assert digests(tmp_path / "mixed") == digests(tmp_path / "local")
    assert len(list((tmp_path / "local/tokens/web").glob("train_*.bin"))) >= 5


@pytest.mark.soak
def test_20000_real_documents_and_a_worker_that_dies(
    spark: Cluster, data: Path, tmp_path: Path
) -> None:
    pick = random.Random(12)
    texts = real_documents(data)
    texts = [text[:2500] for text in texts if len(text) > 300]
    while len(texts) < 20_000:
        texts.append(edited(pick.choice(texts), pick.choice([0.0, 0.005, 0.01, 0.02, 0.05]), pick))
    recipe = lay_out(tmp_path, texts, 12, "corpus")
    process = run_on(spark, recipe, tmp_path / "spark")

    def kill() -> None:
        """As soon as the first shard is done, a worker and all that it runs goes; another comes."""
        state = tmp_path / "spark/work/state/process"
        while process.poll() is None and not (state.is_dir() and any(state.iterdir())):
            time.sleep(0.05)
        subprocess.run(["pkill", "-KILL", "-P", str(spark.workers[0].pid)], check=False)
        spark.workers[0].kill()
        spark.add_worker()

    killer = threading.Thread(target=kill)
    killer.start()
    told = ended(process)
    killer.join()
    assert "failed" not in told
    table = run(recipe, out=tmp_path / "local", workers=2).table
    assert table["documents"] == len(texts) >= 20_000
    assert sum(table["steps"][-1]["reasons"].values()) > 2_000
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")


# Starts with each environment; what is said, and how long the nodes were asked (Spark's own start
# aside).
ASKED = """
import json, os, sys, time
from gristmill.engine import nodes, spark
from gristmill.errors import RecipeError
ask = nodes.check
def timed(*given):
    begun = time.monotonic()
    try:
        ask(*given)
    finally:
        print(time.monotonic() - begun)
nodes.check = timed
for environment in json.loads(sys.argv[2]):
    os.environ |= environment
    try:
        spark.connect(sys.argv[1]).stop()
        print("as here")
    except RecipeError as error:
        print(str(error))
    for name in environment:
        del os.environ[name]
"""


def outside(more: dict[str, str]) -> dict[str, str]:
    """The environment of a driver, without what the cluster's processes are given."""
    ours = ("PYSPARK_PYTHON", "PYTHONPATH")
    return (
        {key: value for key, value in os.environ.items() if key not in ours}
        | {"SPARK_LOCAL_IP": "127.0.0.1", **JAVA}
        | more
    )


def said_of(spark: Cluster, *environments: dict[str, str]) -> list[str]:
    """What is said of nodes with each of these environments, one after another."""
    command = [sys.executable, "-c", ASKED, spark.address, json.dumps(environments)]
    done = subprocess.run(command, env=outside({}), capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    # A second or two alone; most of it is the start of executors, which takes a minute where this
    # machine is busy.
    assert max(map(float, said[::2])) < 300, said
    return said[1::2]


@pytest.mark.soak
def test_nodes_with_other_libraries_are_named_before_any_work(
    spark: Cluster, tmp_path: Path
) -> None:
    # One library of another version, and gristmill of other files.
    other = tmp_path / "other"
    (other / "numba-0.1.dist-info").mkdir(parents=True)
    (other / "numba-0.1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: numba\nVersion: 0.1\n"
    )
    shutil.copytree(Path(gristmill.__file__).parent, other / "gristmill")
    (other / "gristmill/errors.py").write_text("changed = True\n")
    (said,) = said_of(spark, {"PYTHONPATH": str(other)})
    assert re.search(
        r"gristmill is (\S+ \(files \w+\)) \(here: (?!\1)\S+ \(files \w+\)\), "
        r"numba is 0.1 \(here: \d",
        said,
    )


@pytest.mark.soak
def test_nodes_that_cannot_do_it_are_named_before_any_work(spark: Cluster, tmp_path: Path) -> None:
    # A Python of the same version that has nothing installed.
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True
    )
    bare = str(tmp_path / "bare/bin/python")
    none = str(tmp_path / "none")
    bare_said, none_said, here_said = said_of(
        spark, {"PYSPARK_PYTHON": bare, "PYTHONPATH": str(tmp_path)}, {"PYSPARK_PYTHON": none}, {}
    )
    assert re.search(
        r"nodes are not as this machine.*: gristmill is not there "
        r"\(here: \S+ \(files \w+\)\), brotli is not there",
        bare_said,
    )
    assert (
        f"Install the same gristmill, with the same libraries, on every node for {bare}"
        in bare_said
    )
    assert re.search(f"Python does not run on the nodes: .*{none}", none_said)
    assert here_said == "as here"


def test_a_node_that_comes_later_is_asked_by_its_first_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = pickle.dumps(({**nodes.here(), "numba": "0.1", "of this machine": "1"}, len, []))
    kind, error, _ = pickle.loads(work(task))
    assert kind == "error"
    assert re.search(r"numba is \S+ \(here: 0.1\), of this machine is not there", str(error))


def test_libraries_that_are_asked_for_are_those_that_make_bytes() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    named = {re.match(r"[\w.-]+", line)[0] for line in table}  # type: ignore[index]
    assert named - {"rich", "tomli-w", "typer", "urllib3"} <= {*nodes.LIBRARIES, *nodes.EXTRAS}


def test_no_such_engine(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": "text"}]))
    with pytest.raises(RecipeError, match="no such engine; there are: local, spark"):
        run([str(tmp_path / "a.jsonl")], out=tmp_path / "corpus", engine="yarn")

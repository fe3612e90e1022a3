"""A folder with a file of every kind that a user can name, what damage is, and the commands that
read each file.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gristmill import LoaderPlan, pipeline, train_classifier, train_perplexity
from tests.support.command import command_line
from tests.support.corpora import RECIPE, article, jsonl, lay_out, pages, record
from tests.support.fasttext_files import packaged
from tests.support.token_corpora import token_corpus

SPARE = "SPARE"  # in a command: an empty folder


class File(NamedTuple):
    """A file, relative to the folder of all, and the commands that read it."""

    path: str  # it may be a pattern: the first file is meant
    commands: Sequence[str]


def flipped(data: bytes, count: int) -> bytes:
    """Bytes of which some bits have another value."""
    pick, out = random.Random(count), bytearray(data)
    for _ in range(count if out else 0):
        out[pick.randrange(len(out))] ^= 1 << pick.randrange(8)
    return bytes(out)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "noise": lambda data: random.Random(1).randbytes(min(len(data), 5000)),
    "nested": lambda _: b"[" * 100_000,
    "flipped": lambda data: flipped(data, 40),
    "empty": lambda _: b"",
    "a table": lambda _: b'{"a": {"b": null}}',
    "no start": lambda data: data[7:],
    "zeros": lambda data: bytes(len(data)),
    "a list": lambda _: b"[1, 2]",
    "UTF-16": lambda _: "hello\n".encode("utf-16"),
    "a long line": lambda _: b"x" * 300_000,
    "half a gzip": lambda _: gzip.compress(b"hello world" * 100)[:20],
    "a byte short": lambda data: data[:-1],
    "a word": lambda _: b"hello\n",
    "NaN": lambda _: b"NaN\n",
}

# Files that a step reads: where they are, the step, and its parameters.
STEPS = {
    "classifier": ("classifier.model", "classifier", 'model = "FILE"\nmin_score = 0.5'),
    "fastText": ("lid.ftz", "language", 'keep = ["en"]\nmodel = "FILE"'),
    "n-grams": ("perplexity.model", "perplexity", 'model = "FILE"\nmax_perplexity = 1e9'),
    "domains": ("domains.txt", "url", 'domains = ["FILE"]'),
    "packed domains": ("domains.txt.gz", "url", 'domains = ["FILE"]'),
    "phrases": ("phrases.txt", "phrases", 'lists = ["FILE"]'),
    "bad words": ("bad.txt", "c4", 'bad_words = "FILE"'),
    "withdrawn": ("withdrawn.txt", "withdrawn", 'list = "FILE"'),
    "toxicity": ("toxic.txt", "toxicity", 'lists = ["FILE"]\nmax_words = 9'),
    **{
        f"benchmark {end}": (
            f"bench.{end}",
            "decontaminate",
            '[[step.benchmarks]]\nname = "b"\nfile = "FILE"\nfields = ["question"]',
        )
        for end in ("jsonl", "json", "csv", "parquet", "jsonl.gz")
    },
    **{
        f"scores {end}": (
            f"scores.{end}",
            "scores",
            'files = ["FILE"]\nby = "url"\nnumbers = ["edu"]',
        )
        for end in ("jsonl", "parquet", "jsonl.gz")
    },
}
RAW = (
    "a.wet.gz b.jsonl c.jsonl.gz e.csv f.tsv g.parquet h.arrow i.json j.jsonl.zst k.html l.txt "
    "m.warc.gz n.jsonl.bz2 o.jsonl.xz p.arc.gz q.jsonl.lz4"
).split()
IMPORTS = {
    "nanogpt": ["train.bin", "meta.pkl"],
    "megatron": ["*_train*.idx", "*_train*.bin"],
    "olmo": ["web/train*.npy", "web/train*.csv.gz"],
    "datatrove": ["web/train/*.ds", "web/train/*.index", "web/train/*.metadata"],
    "hf-parquet": ["data/train*.parquet"],
    "llmc": ["*train*.bin"],
}
PARTS = (
    "manifest.json manifest.lock SHA256SUMS plan.json recipe.toml funnel.json "
    "tokens/web/train_00000.bin tokens/web/train_00000.docs documents/*.parquet "
    "verdicts/*.parquet measures/*.parquet samples/*.parquet signatures/*.parquet "
    "duplicates/pairs.parquet tokenizer/tokenizer.json .gristmill.json"
).split()


def run(recipe: str, more: str = "") -> str:
    """The command that runs a recipe."""
    return f"run {recipe} --out SPARE/out --workers 1 --cache-dir SPARE/cache {more}".strip()


CORPUS = [
    *("verify corpus", "status corpus", "check corpus", "stats corpus", "diff corpus tokens"),
    *("report corpus --out SPARE/r.html", "card corpus --out SPARE/c.md", "why corpus 0:1"),
    *("duplicates corpus", "pack corpus --sequence-length 64"),
    *("explore corpus --out SPARE/e.parquet", "rejudge recipe.toml", "size recipe.toml"),
    *(f"export corpus --out SPARE/x --to {to}" for to in ("jsonl", "score-jobs", "megatron")),
    *("publish corpus SPARE/target", "run recipe.toml --workers 1 --cache-dir cache"),
    *("release withdraw 0:1 --corpus corpus", "mix show mix.toml --corpus corpus"),
    "tokenizer train corpus --vocabulary 300 --out SPARE/t.json",
]
TRAINED = [
    "tokenizer train FILE --vocabulary 300 --out SPARE/t.json",
    "tokenizer show tokenizer.json FILE",
    "tokenizer grow web=FILE --merges 9 --out SPARE/t.json",
    "model train-classifier --good FILE --bad raw/o.jsonl.xz --out SPARE/m",
    "model train-perplexity FILE --out SPARE/m",
]
FETCHED = ["node target --node-id a --cache-dir SPARE/n", "pull target SPARE/p"]
SIGNED = "release sign target --key in/key"
FILES: dict[str, File] = {
    "recipe": File(
        "recipe.toml",
        [
            *(
                run("recipe.toml"),
                "size recipe.toml",
                "rejudge recipe.toml",
                "mix show recipe.toml",
            ),
            *("mix propose recipe.toml --runs 2 --out SPARE/out", "doremi recipe.toml --size nano"),
        ],
    ),
    **{f"raw {name}": File(f"raw/{name}", [run(f"raw/{name}")]) for name in RAW},
    **{
        f"trained {name}": File(
            f"raw/{name}", [one.replace("FILE", f"raw/{name}") for one in TRAINED]
        )
        for name in ("b.jsonl", "c.jsonl.gz", "g.parquet", "a.wet.gz")
    },
    **{
        name: File(f"in/{path}", [run(f"steps/{path}.toml")])
        for name, (path, _, _) in STEPS.items()
    },
    "list": File("in/list.txt", [run("steps/list.txt.toml")]),
    "packed list": File("in/list.txt.gz", [run("steps/list.txt.gz.toml")]),
    "sha256sums": File("in/sums.txt", [run("steps/sums.toml")]),
    "languages": File("in/languages.toml", [run("steps/languages.toml")]),
    "reference": File("reference/manifest.json", [run("steps/reference.toml")]),
    "tokenizer": File(
        "tokenizer.json",
        [
            *(run("recipe.toml"), "tokenizer show tokenizer.json"),
            "import in/nanogpt --from nanogpt --out SPARE/out --tokenizer tokenizer.json",
        ],
    ),
    "grown tokenizer": File(
        "in/grown.json",
        ["tokenizer grow web=raw/b.jsonl --tokenizer in/grown.json --merges 5 --out SPARE/t.json"],
    ),
    "classifier alone": File("in/classifier.model", ["model show in/classifier.model"]),
    "n-grams alone": File("in/perplexity.model", ["model show in/perplexity.model"]),
    "plan": File("in/run-plan.json", [run("recipe.toml", "--plan in/run-plan.json")]),
    "loader's plan": File("in/plan.json", ["seen tokens --plan in/plan.json --step 1"]),
    "ratios": File("in/ratios.csv", ["mix fit in/ratios.csv in/metrics.csv"]),
    "metrics": File("in/metrics.csv", ["mix fit in/ratios.csv in/metrics.csv"]),
    "nodes": File("in/nodes.txt", [f"{FETCHED[0]} --assignment rendezvous --nodes in/nodes.txt"]),
    "root": File("in/root.json", [f"{one} --root in/root.json" for one in FETCHED]),
    "key": File(
        "in/key",
        [
            *("publish corpus SPARE/t --key in/key", SIGNED),
            "release rotate target --key in/key --threshold targets=1",
        ],
    ),
    "public key": File(
        "in/key.pub", ["release rotate target --key in/key --add targets=in/key.pub"]
    ),
    "draft": File(
        "in/draft.json",
        [
            *("release sign in/draft.json --key in/key", f"{SIGNED} --signed in/draft.json"),
            "publish corpus target --key in/key --signed in/draft.json",
        ],
    ),
    "doremi's state": File(
        "in/doremi/*.pt",
        ["doremi tokens --out in/doremi --size nano --steps 1 --sequence-length 4"],
    ),
    **{
        f"import {place}{form} {name}": File(
            f"in/{place}{form}/{name}",
            [f"import in/{place}{form} --from {form} --out SPARE/out --tokenizer tokenizer.json"],
        )
        for form, names in IMPORTS.items()
        for name in names
        for place in ("", "bare-")
    },
    **{
        f"import nanogpt {name}": File(
            f"in/nanogpt/{name}", ["import in/nanogpt --from nanogpt --out SPARE/out"]
        )
        for name in ("gristmill.json", "SHA256SUMS", "tokenizer.json")
    },
    **{f"corpus {name}": File(f"corpus/{name}", CORPUS) for name in PARTS},
    **{
        f"published {name}": File(
            f"target/{name}", [*FETCHED, "publish corpus target --key in/key", SIGNED]
        )
        for name in (
            *("latest.json", "trust/1.root.json", "trust/timestamp.json", "releases/*.json"),
            ".gristmill.json",
        )
    },
}


class Told(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    error: str


def mill(folder: Path, command: str, spare: Path) -> Told:
    """Run a command in a folder."""
    spare.mkdir()
    words = [word.replace(SPARE, str(spare)) for word in command.split()]
    done = subprocess.run(
        command_line(*words),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        env={**os.environ, "GRISTMILL_KEY_PASSPHRASE": "a passphrase"},
        timeout=300,
    )
    return Told(done.returncode, done.stdout, done.stderr)


def write_raw(folder: Path) -> None:
    """A raw shard of each kind and packing."""
    rows = pa.table(
        {
            "text": [article(f"row {number}") for number in range(12)],
            "url": [f"https://rows.example/{number}" for number in range(12)],
        }
    )
    many = jsonl(pages(20, "z"))
    pyarrow.csv.write_csv(rows, folder / "e.csv")
    pyarrow.csv.write_csv(rows, folder / "f.tsv", pyarrow.csv.WriteOptions(delimiter="\t"))
    pq.write_table(rows, folder / "g.parquet")
    with (
        pa.OSFile(str(folder / "h.arrow"), "wb") as file,
        pa.ipc.new_file(file, rows.schema) as out,
    ):
        out.write_table(rows)
    (folder / "i.json").write_text(json.dumps(rows.to_pylist()))
    (folder / "k.html").write_text(f"<html><body><p>{article('page')}</p></body></html>")
    (folder / "l.txt").write_text(article("l", 60))
    (folder / "n.jsonl.bz2").write_bytes(bz2.compress(many))
    (folder / "o.jsonl.xz").write_bytes(lzma.compress(many))
    for name, codec in (("j.jsonl.zst", "zstd"), ("q.jsonl.lz4", "lz4")):
        with pa.CompressedOutputStream(str(folder / name), codec) as packed:
            packed.write(many)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + article("w").encode()
    records = [record(answer, f"http://w.example/{n}", n, kind="response") for n in range(5)]
    (folder / "m.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    version = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    first = b"filedesc://x.arc 0.0.0.0 20080101000000 text/plain %d\n" % len(version)
    body = b"".join(
        b"http://a.example/%d 1.2.3.4 20080102000000 text/html %d\n%s\n" % (n, len(answer), answer)
        for n in range(4)
    )
    (folder / "p.arc.gz").write_bytes(gzip.compress(first + version + b"\n" + body))


def write_inputs(root: Path) -> None:
    """What steps, mixes and the other verbs read."""
    inputs = root / "in"
    raw = [root / "raw/b.jsonl", root / "raw/c.jsonl.gz"]
    train_classifier(good=raw[0], bad=raw[1], out=inputs / "classifier.model")
    train_perplexity(raw[0], out=inputs / "perplexity.model")
    shutil.copy(packaged(), inputs / "lid.ftz")
    domains = "bad.example\nworse.example\n"
    (inputs / "domains.txt").write_text(domains)
    (inputs / "domains.txt.gz").write_bytes(gzip.compress(domains.encode()))
    for name in ("phrases", "bad", "toxic"):
        (inputs / f"{name}.txt").write_text("some words\n")
    (inputs / "withdrawn.txt").write_text("# withdrawn\n0:1\thttps://a.example\n")
    items = [{"question": article(f"item {number}", 4)} for number in range(5)]
    scores = [{"url": f"https://rows.example/{n}", "edu": n / 2} for n in range(12)]
    for name, rows in (("bench", items), ("scores", scores)):
        lines = jsonl(rows)
        (inputs / f"{name}.jsonl").write_bytes(lines)
        (inputs / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines))
        pq.write_table(pa.Table.from_pylist(rows), inputs / f"{name}.parquet")
    (inputs / "bench.json").write_text(json.dumps(items))
    pyarrow.csv.write_csv(pa.Table.from_pylist(items), inputs / "bench.csv")
    (inputs / "list.txt").write_text("raw/l.txt\n")
    (inputs / "list.txt.gz").write_bytes(gzip.compress(b"raw/l.txt\n"))
    digest = hashlib.sha256((root / "raw/l.txt").read_bytes()).hexdigest()
    (inputs / "sums.txt").write_text(f"{digest}  l.txt\n")
    (inputs / "languages.toml").write_text("[en]\n[en.gopher]\nmin_words = 10\n")
    (inputs / "nodes.txt").write_text("a\nb\nc\n")
    LoaderPlan.start(root / "tokens", sequence_length=4, batch_size=2).save(inputs / "plan.json")
    pick = np.random.default_rng(1)
    shares, metrics = ["run,web,code"], ["run,loss"]
    for number in range(12):
        share = pick.uniform(0.2, 0.8)
        shares.append(f"run-{number},{share:.6f},{1 - share:.6f}")
        metrics.append(f"run-{number},{2 + share:.4f}")
    (inputs / "ratios.csv").write_text("\n".join(shares) + "\n")
    (inputs / "metrics.csv").write_text("\n".join(metrics) + "\n")


def write_recipes(root: Path) -> None:
    """A recipe for each file that only a recipe names."""
    web = '[[source]]\nname = "web"\n'
    files = f'{web}files = ["../raw/l.txt"]\n'
    recipes = {
        path: f'{files}[[step]]\nuse = "{use}"\n{given}'.replace("FILE", f"../in/{path}")
        for path, use, given in STEPS.values()
    }
    for name in ("list.txt", "list.txt.gz"):
        recipes[name] = f'{web}paths = "../in/{name}"\nbase_url = "file://{root}/"\n'
    recipes["sums"] = f'{files}sha256sums = "../in/sums.txt"\n'
    recipes["languages"] = (
        f'{files}[[step]]\nuse = "language"\nkeep = ["en"]\n[[step]]\nuse = "gopher"\n'
        '[languages]\nparameters = "../in/languages.toml"\n'
    )
    recipes["reference"] = f'{files}[deduplicate]\nnear = {{}}\nagainst = ["../reference"]\n'
    for name, text in recipes.items():
        (root / f"steps/{name}.toml").write_text(text)
    (root / "mix.toml").write_text(
        f'output = "corpus"\n{web}files = ["raw/a.wet.gz"]\n'
        '[tokens]\ntokenizer = "tokenizer.json"\n[mix]\nweights = { web = 1.0 }\nbatch_size = 2\n'
    )


def write_all(root: Path, *, torch: bool) -> None:
    """Every file of FILES; `torch`: also what only torch writes."""
    recipe = f'output = "corpus"\n{RECIPE.replace("raw/*", "raw/[abc].*")}'
    lay_out(root, count=30, recipe=recipe)
    for name in ("in", "steps"):
        (root / name).mkdir()
    write_raw(root / "raw")
    pipeline.run(root / "recipe.toml", workers=1, cache_dir=root / "cache")
    documents = [[1, 2, 3, 0]] * 60
    token_corpus(root / "tokens", {"web": documents, "code": documents})
    (root / "reference.toml").write_text(recipe.replace("near = {}", "near = {}\nindex = true"))
    pipeline.run(
        root / "reference.toml", out=root / "reference", workers=1, cache_dir=root / "cache"
    )
    write_inputs(root)
    write_recipes(root)
    shutil.copy(root / "corpus/plan.json", root / "in/run-plan.json")
    doremi = FILES["doremi's state"].commands if torch else []
    for number, command in enumerate(
        (
            "release key in/key",
            "publish corpus target --key in/key",
            "release sign target --key in/key --draft in/draft.json",
            "tokenizer grow web=raw/b.jsonl --merges 5 --out in/grown.json",
            *(f"export corpus --to {form} --out in/{form}" for form in IMPORTS),
            *doremi,
        )
    ):
        told = mill(root, command, root.with_name(f"spare-{number}"))
        assert told.code == 0, (command, told.error)
    for form in IMPORTS:
        bare = shutil.copytree(root / "in" / form, root / "in" / f"bare-{form}")
        for name in ("gristmill.json", "SHA256SUMS", ".gristmill.json"):
            (bare / name).unlink()
    shutil.copy(root / "target/trust/1.root.json", root / "in/root.json")

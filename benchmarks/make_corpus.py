"""Large WET input from real prose: `python make_corpus.py OUTDIR --documents 100000 --shards 8
--seed 1 [--bytes N]`.

    originals    paragraphs of real texts, drawn at random, 8 % of the words replaced by others of
                 the language
    exact        copies, byte for byte, of an original anywhere in the corpus; some originals are
                 copied very often
    near         copies with a few words changed: word-5-gram Jaccard about 0.75 to 0.99
    junk         stubs, bullet lists, walls of symbols, one phrase over and over, lines cut off with
                 `…`

A document is 1 to 12 KB, like the text of web pages (median 4 KB). About one original in eight is
in another language than English. The texts: I_prose (novels) and C_neardup (pages of a government's
site and of manuals) below $GRISTMILL_DATA, by default ~/.cache/gristmill-data.

Each shard depends only on the seed, its number and the planned numbers of documents and shards;
each document has a random generator of its own, so that a copy makes its original again instead of
looking for it. That keeps memory flat, whatever the size. Shards are gzip with one member a record,
as Common Crawl's. The members' bytes also depend on the zlib that deflates them.

Reading the texts costs 10 s and 400 MB, once; then it makes about 8 MB of text a second on each
core, with flat memory.
"""

import argparse
import base64
import gzip
import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

REPLACED = 0.08  # of the words of an original
SHARES = {"original": 0.82, "exact": 0.04, "near": 0.06, "junk": 0.08}
OTHER_LANGUAGES = 0.12  # of the originals
MEDIAN_BYTES, SIGMA, LEAST_BYTES, MOST_BYTES = 4000.0, 0.6, 1000, 12000
MOST_PARAGRAPH_WORDS = 120  # longer ones are cut: no two originals may share more than a small part
POPULAR = 64  # originals at the start of shard 0 that a tenth of all copies are of
LANGUAGES = {
    "cze": "ces",
    "deu": "deu",
    "fra": "fra",
    "gre": "ell",
    "hun": "hun",
    "pol": "pol",
    "por": "por",
    "rom": "ron",
    "spa": "spa",
    "srp": "srp",
    "swe": "swe",
    "ukr": "ukr",
}
JUNK = ("stub", "bullets", "symbols", "repeated", "truncated")


def data_folder() -> Path:
    """Where the real texts lie."""
    return Path(os.environ.get("GRISTMILL_DATA") or Path.home() / ".cache" / "gristmill-data")


def tei_paragraphs(path: Path) -> list[str]:
    """The paragraphs of a TEI file's <text>, white space flattened."""
    from xml.etree import ElementTree

    name = "{http://www.tei-c.org/ns/1.0}"
    body = ElementTree.parse(path).getroot().find(f"{name}text")
    if body is None:
        return []
    found = (
        " ".join("".join(element.itertext()).split())
        for element in body.iter()
        if element.tag in (f"{name}p", f"{name}l")
    )
    return [paragraph for paragraph in found if paragraph]


def plain_paragraphs(text: str) -> list[str]:
    """The paragraphs of wrapped plain text, each as one line."""
    return [
        flat
        for block in re.split(r"\r?\n[ \t]*\r?\n", text.lstrip("\ufeff"))
        if (flat := " ".join(block.split()))
    ]


def english_paragraphs(folder: Path) -> list[str]:
    """All English paragraphs: novels, plays, news; of web pages and manuals runs of lines, their
    breaks kept.
    """
    prose = folder / "I_prose"
    found: list[str] = []
    for path in [*sorted(prose.glob("english_novels/*.txt")), *sorted(prose.glob("*.txt"))]:
        found += plain_paragraphs(path.read_text("utf-8", "replace"))
    for path in sorted(prose.glob("nltk_*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".txt"):
                    found += plain_paragraphs(archive.read(name).decode("latin-1"))
    for path in sorted(folder.glob("C_neardup/*/docs.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                found += line_runs(json.loads(line)["text"])
    return found


def line_runs(text: str) -> list[str]:
    """A page's lines in runs of about 80 words."""
    runs, run, words = [], [], 0
    for line in text.splitlines():
        flat = " ".join(line.split())
        if flat:
            run.append(flat)
            words += flat.count(" ") + 1
        if words >= 80:
            runs.append("\n".join(run))
            run, words = [], 0
    return [*runs, "\n".join(run)] if run else runs


class Pool(NamedTuple):
    """One language's paragraphs as word numbers."""

    language: str  # ISO 639-3
    words: list[bytes]  # by number
    stream: np.ndarray  # (n,) int32: the words of all paragraphs, one after another
    starts: np.ndarray  # (paragraphs + 1,) int64
    lengths: np.ndarray  # (paragraphs,) int64
    mean: float  # bytes of a word, its space included


def make_pool(language: str, paragraphs: list[str]) -> Pool:
    """Number the words of paragraphs of at least 8 words; long paragraphs are cut into pieces of
    equal length.
    """
    numbers: dict[str, int] = {}
    stream: list[int] = []
    starts = [0]
    for paragraph in paragraphs:
        words = paragraph.split(" ")
        if len(words) < 8:
            continue
        pieces = -(-len(words) // MOST_PARAGRAPH_WORDS)
        begin = len(stream)
        stream.extend([numbers.setdefault(word, len(numbers)) for word in words])
        starts.extend(begin + len(words) * (piece + 1) // pieces for piece in range(pieces))
    if len(starts) == 1:
        raise SystemExit(f"no paragraphs for {language} below {data_folder()}: set GRISTMILL_DATA")
    spelled = [word.encode() for word in numbers]
    lengths = np.array([len(word) + 1 for word in spelled])
    array = np.array(stream, np.int32)
    bounds = np.array(starts, np.int64)
    return Pool(
        language, spelled, array, bounds, np.diff(bounds), float(lengths[array].sum()) / len(array)
    )


def load_pools(folder: Path) -> list[Pool]:
    """All pools, English first. It costs about 10 s and 400 MB, once: workers share them."""
    pools = [make_pool("eng", english_paragraphs(folder))]
    for name, language in LANGUAGES.items():
        paragraphs = [
            found
            for path in sorted(folder.glob(f"I_prose/eltec_{name}/*.xml"))
            for found in tei_paragraphs(path)
        ]
        if paragraphs:
            pools.append(make_pool(language, paragraphs))
    if len(pools) == 1:
        raise SystemExit(
            f"{folder}: no text but English: the share of other languages cannot be made"
        )
    return pools


def mean_bytes() -> float:
    """The expected size of an original, for --bytes."""
    draws = np.exp(np.random.default_rng(0).normal(np.log(MEDIAN_BYTES), SIGMA, 200_000))
    return float(np.clip(draws, LEAST_BYTES, MOST_BYTES).mean())


class Document(NamedTuple):
    """A document before it is a record."""

    text: bytes
    language: str
    kind: str


class Maker:
    """Makes any document of a corpus by its shard and row."""

    def __init__(self, pools: list[Pool], seed: int, rows: list[int]) -> None:
        self._pools = pools
        self._seed = seed
        self._rows = rows
        self._bounds = np.cumsum(list(SHARES.values()))
        self._names = list(SHARES)

    def make(self, shard: int, row: int) -> Document:
        """The document at a place."""
        random, kind = self._begin(shard, row)
        if kind == "original":
            pool, paragraphs = self._original(random)
            return Document(_join(pool, paragraphs), pool.language, kind)
        if kind == "junk":
            return self._junk(random)
        while True:  # which original it is a copy of
            if random.random() < 0.1:
                place = (0, int(random.integers(min(POPULAR, self._rows[0]))))
            else:
                other = int(random.integers(len(self._rows)))
                place = (other, int(random.integers(self._rows[other])))
            again, found = self._begin(*place)
            if found == "original":
                break
            if sum(self._rows) < 20:
                return self._junk(random)
        pool, paragraphs = self._original(again)
        if kind == "near":
            whole = np.concatenate(paragraphs)
            edits = int(random.integers(1, max(2, len(whole) // 36)))
            places = random.integers(len(whole), size=edits)
            whole[places] = pool.stream[random.integers(len(pool.stream), size=edits)]
            paragraphs = np.split(whole, np.cumsum([len(words) for words in paragraphs])[:-1])
        return Document(_join(pool, paragraphs), pool.language, kind)

    def _begin(self, shard: int, row: int) -> tuple[np.random.Generator, str]:
        digest = hashlib.blake2b(b"%d %d %d" % (self._seed, shard, row), digest_size=16).digest()
        random = np.random.Generator(
            np.random.PCG64DXSM(np.random.SeedSequence(int.from_bytes(digest)))
        )
        return random, self._names[
            min(int(np.searchsorted(self._bounds, random.random(), "right")), len(SHARES) - 1)
        ]

    def _original(self, random: np.random.Generator) -> tuple[Pool, list[np.ndarray]]:
        other = random.random() < OTHER_LANGUAGES
        pool = self._pools[int(random.integers(1, len(self._pools)))] if other else self._pools[0]
        size = float(
            np.clip(np.exp(random.normal(np.log(MEDIAN_BYTES), SIGMA)), LEAST_BYTES, MOST_BYTES)
        )
        chosen: list[int] = []
        words, wanted = 0, size / pool.mean
        while words < wanted:
            chosen.append(int(random.integers(len(pool.lengths))))
            words += int(pool.lengths[chosen[-1]])
        whole = np.concatenate(
            [pool.stream[pool.starts[place] : pool.starts[place + 1]] for place in chosen]
        )
        replaced = random.random(len(whole)) < REPLACED
        whole[replaced] = pool.stream[random.integers(len(pool.stream), size=int(replaced.sum()))]
        return pool, np.split(whole, np.cumsum(pool.lengths[chosen])[:-1])

    def _junk(self, random: np.random.Generator) -> Document:
        pool = self._pools[0]
        kind = JUNK[int(random.integers(len(JUNK)))]

        def phrase(count: int) -> bytes:
            begin = int(random.integers(len(pool.stream) - count))
            return b" ".join(
                [pool.words[number] for number in pool.stream[begin : begin + count].tolist()]
            )

        lines = int(random.integers(20, 80))
        if kind == "stub":
            text = b"404 - page not found\n" + phrase(int(random.integers(3, 40)))
        elif kind == "bullets":
            text = b"\n".join(
                (b"- ", "• ".encode(), b"* ")[k % 3] + phrase(6).replace(b"\n", b" ")
                for k in range(lines)
            )
        elif kind == "symbols":
            text = b"\n".join("###…#…".encode() * 3 + b" " + phrase(4) for _ in range(lines))
        elif kind == "repeated":
            text = b"\n".join([phrase(3)] * (4 * lines))
        else:
            text = b"\n".join(
                phrase(9).replace(b"\n", b" ") + ("…" if k % 2 else ".").encode()
                for k in range(lines)
            )
        return Document(text, "eng", kind)


def _join(pool: Pool, paragraphs: list[np.ndarray]) -> bytes:
    spell = pool.words.__getitem__
    return b"\n".join([b" ".join(map(spell, words.tolist())) for words in paragraphs])


def record(kind: str, headers: list[tuple[str, str]], block: bytes) -> bytes:
    """A WARC record (ISO 28500) as one gzip member without a time."""
    fields = [("WARC-Type", kind), *headers, ("Content-Length", str(len(block)))]
    head = "WARC/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    return deflate.compress(head.encode() + block + b"\r\n\r\n") + deflate.flush()


def records(
    maker: Maker, seed: int, shard: int, rows: int, counts: dict[str, Any]
) -> Iterator[bytes]:
    """The members of one shard; `counts` is filled on the way."""
    info = (
        b"Software-Info: make_corpus.py\r\nDescription: real prose, recombined\r\nisPartOf: "
        b"seed %d\r\n"
    ) % seed
    name = f"{seed} {shard} warcinfo"
    yield record(
        "warcinfo",
        [
            ("WARC-Date", "2024-05-01T00:00:00Z"),
            ("WARC-Filename", f"shard-{shard:05d}.warc.wet.gz"),
            ("WARC-Record-ID", _record_id(name)),
            ("Content-Type", "application/warc-fields"),
        ],
        info,
    )
    for row in range(rows):
        document = maker.make(shard, row)
        seconds = (shard * 86_400 + row * 7) % (28 * 86_400)
        date = time.strftime("2024-05-%dT%H:%M:%SZ", time.gmtime(seconds))
        name = f"{seed} {shard} {row}"
        digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        host = f"www.site-{int(digest[:4], 16) % 5000}.example"
        url = f"https://{host}/{document.language}/{digest}.html"
        headers = [
            ("WARC-Target-URI", url),
            ("WARC-Date", date),
            ("WARC-Record-ID", _record_id(name)),
            ("WARC-Refers-To", _record_id(f"{name} response")),
            (
                "WARC-Block-Digest",
                "sha1:" + base64.b32encode(hashlib.sha1(document.text).digest()).decode(),
            ),
            ("WARC-Identified-Content-Language", document.language),
            ("Content-Type", "text/plain"),
        ]
        kind = document.kind if document.kind not in JUNK else f"junk.{document.kind}"
        counts["kinds"][kind] = counts["kinds"].get(kind, 0) + 1
        counts["languages"][document.language] = counts["languages"].get(document.language, 0) + 1
        counts["text_bytes"] += len(document.text)
        yield record("conversion", headers, document.text)


def _record_id(name: str) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return f"<urn:uuid:{uuid.UUID(bytes=digest, version=4)}>"


_pools: list[Pool] = []  # filled before the workers are forked, which share them


def _write_shard(task: tuple[str, int, int, list[int]]) -> dict[str, Any]:
    folder, seed, shard, rows = task
    counts: dict[str, Any] = {
        "documents": rows[shard],
        "text_bytes": 0,
        "file_bytes": 0,
        "kinds": {},
        "languages": {},
    }
    path = Path(folder) / f"shard-{shard:05d}.warc.wet.gz"
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for member in records(Maker(_pools, seed, rows), seed, shard, rows[shard], counts):
            counts["file_bytes"] += file.write(member)
    part.rename(path)
    return counts


def write(folder: Path, *, documents: int, shards: int, seed: int, workers: int) -> dict[str, Any]:
    """Write a corpus and `corpus.json` with its counts; return those."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [documents // shards + (shard < documents % shards) for shard in range(shards)]
    if not _pools:
        _pools.extend(load_pools(data_folder()))
    tasks = [(str(folder), seed, shard, rows) for shard in range(shards)]
    total: dict[str, Any] = {
        "seed": seed,
        "shards": shards,
        "documents": 0,
        "text_bytes": 0,
        "file_bytes": 0,
        "kinds": {},
        "languages": {},
    }
    with multiprocessing.get_context("fork").Pool(min(workers, shards)) as pool:
        for counts in pool.imap(_write_shard, tasks):
            for name in ("documents", "text_bytes", "file_bytes"):
                total[name] += counts[name]
            for name in ("kinds", "languages"):
                for key, count in counts[name].items():
                    total[name][key] = total[name].get(key, 0) + count
    for name in ("kinds", "languages"):
        total[name] = dict(sorted(total[name].items()))
    (folder / "corpus.json").write_text(json.dumps(total, indent=1) + "\n")
    return total


def documents_for(size: int) -> int:
    """How many documents make about so many bytes of text."""
    others = SHARES["junk"] * 1900  # a junk document's mean size
    return max(
        1, round(size / (mean_bytes() * (1 - SHARES["junk"]) * 1.07 + others))
    )  # a last paragraph overshoots


def main(arguments: list[str] | None = None) -> None:
    """Make a corpus from the command line."""
    parser = argparse.ArgumentParser(description="Make large WET input from real prose.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument(
        "--bytes", type=int, help="about so many bytes of text, instead of --documents"
    )
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    documents = documents_for(asked.bytes) if asked.bytes else asked.documents
    start = time.perf_counter()
    counts = write(
        asked.folder,
        documents=documents,
        shards=asked.shards,
        seed=asked.seed,
        workers=asked.workers,
    )
    json.dump(counts, sys.stdout, indent=1)
    took = time.perf_counter() - start
    print(
        f"\n{counts['text_bytes'] / 1e6:,.1f} MB of text in {took:.1f} s: "
        f"{counts['text_bytes'] / 1e6 / took:.1f} MB/s"
    )


if __name__ == "__main__":
    main()

"""Training byte-level BPE beside HF tokenizers, gigatoken and rustbpe, on all processors.

    python train_bpe.py train WHO FILE VOCABULARY    one training, timed; prints a line of JSON

Texts are the novels of the real data, whole paragraphs in documents of some 4 KB. A training is a
fresh process; loading, imports and a training of a few words first are not timed. Who trains takes
turns. Equal: the same merges in the same order as ours. gigatoken and rustbpe take one text with
separators, and an iterator; HF tokenizers an iterator.
"""

import hashlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from section import Section

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
END = "<|endoftext|>"
# How often each one trains for a size; ours trains as often as the most of them.
PEERS = {"gigatoken": 3, "tokenizers": 1, "rustbpe": 1}
# Tokens. Of English alone there are hardly 100,000 that occur twice.
SIZES = {"english": (8_000, 32_000), "13 languages": (8_000, 32_000, 100_000)}
SLOW_FROM = 100_000  # HF and rustbpe are not asked for as many tokens: minutes each


def prepare(folder: Path) -> dict[str, Path]:
    """The texts: English novels, and novels of 13 languages with them."""
    import documents
    import make_corpus

    paths = {name: folder / f"train-bpe-{name}.json" for name in SIZES}
    if not all(path.exists() for path in paths.values()):
        prose = make_corpus.data_folder() / "I_prose"
        english = documents._pieces(
            [path.read_text("utf-8") for path in sorted(prose.glob("english_novels/*.txt"))]
        )
        others = documents._tei_pieces(sorted(prose.glob("eltec_*/*.xml")))
        for name, texts in (("english", english), ("13 languages", english + others)):
            paths[name].write_text(json.dumps(texts, ensure_ascii=False), "utf-8")
    return paths


def rows(
    folder: Path, peers: str | None, environment: dict[str, str], say: Any
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of the section, and versions."""
    found: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for name, path in prepare(folder).items():
        for vocabulary in SIZES[name]:
            who = [peer for peer in PEERS if vocabulary < SLOW_FROM or peer == "gigatoken"]
            times: dict[str, list[dict[str, Any]]] = {peer: [] for peer in ("ours", *who)}
            failed: dict[str, str] = {}
            for turn in range(max(PEERS.values())):
                for peer, results in times.items():
                    if turn >= PEERS.get(peer, max(PEERS.values())) or peer in failed:
                        continue
                    python = sys.executable if peer == "ours" else peers
                    try:
                        got = _train(python, peer, path, vocabulary, environment)
                    except RuntimeError as error:
                        failed[peer] = str(error)
                        continue
                    versions |= got.pop("versions")
                    results.append(got)
                    say(f"train-bpe {name} {vocabulary} {peer}: {got}")
            found += _rows(name, vocabulary, who, times, failed)
    return found, versions


def _rows(
    name: str,
    vocabulary: int,
    who: list[str],
    times: dict[str, list[dict[str, Any]]],
    failed: dict[str, str],
) -> list[dict[str, Any]]:
    out = []
    for peer in who:
        row: dict[str, Any] = {"documents": name, "vocabulary": vocabulary, "peer": peer}
        if peer in failed or not times["ours"]:
            out.append({**row, "failed": failed.get(peer) or failed.get("ours")})
            continue
        ours, theirs = times["ours"], times[peer]
        for clock in ("cpu", "wall"):
            pairs = list(zip(ours, theirs, strict=False))
            row |= {
                f"ours_{clock}": statistics.median(one[clock] for one in ours),
                f"theirs_{clock}": statistics.median(one[clock] for one in theirs),
                f"ratio_{clock}": statistics.median(b[clock] / a[clock] for a, b in pairs),
            }
        row["megabytes"] = ours[0]["megabytes"]
        row["merges"] = ours[0]["merges"]
        row["equal"] = None if peer == "rustbpe" else theirs[0]["digest"] == ours[0]["digest"]
        out.append(row)
    return out


def _train(
    python: str | None, who: str, path: Path, vocabulary: int, environment: dict[str, str]
) -> dict[str, Any]:
    if python is None:
        raise RuntimeError("no environment of peers")
    done = subprocess.run(
        [python, __file__, "train", who, str(path), str(vocabulary)],
        capture_output=True,
        text=True,
        check=False,
        env=environment if who == "ours" else {**environment, "PYTHONPATH": ""},
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1][:200])
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(found: list[dict[str, Any]]) -> list[str]:
    """The rows as a table of RESULTS.md."""
    lines = [
        (
            "| text | MB | tokens | ours, s | peer | peer, s | ratio | ours, wall s | peer, wall s "
            "| ratio | equal |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        head = f"| {row['documents']} "
        if "failed" in row:
            lines.append(
                f"{head}| | {row['vocabulary']:,} | | {row['peer']} | not measured: "
                f"{row['failed']} | | | | | |"
            )
            continue
        equal = {True: "yes", False: "**no**", None: "other rule for ties"}[row["equal"]]
        lines.append(
            f"{head}| {row['megabytes']:.0f} | {row['vocabulary']:,} | {row['ours_cpu']:.2f} "
            f"| {row['peer']} | {row['theirs_cpu']:.2f} | {row['ratio_cpu']:.1f} "
            f"| {row['ours_wall']:.2f} | {row['theirs_wall']:.2f} | {row['ratio_wall']:.1f} "
            f"| {equal} |"
        )
    return lines


# -- one training


def _ours(texts: list[str], vocabulary: int) -> Any:
    import pyarrow as pa

    from gristmill.kernels.bpe_training.pairs import choose_merges
    from gristmill.training.count_pieces import count_pieces
    from gristmill.training.tokenizer_json import BYTES_BY_CHARACTER, PATTERNS
    from gristmill.training.train_tokenizer import bytes_in_order, merge_pairs

    table = pa.table({"text": pa.array(texts, pa.large_string())})
    batches = [
        pa.RecordBatch.from_arrays([batch["text"].cast(pa.string())], names=["text"])
        for batch in table.to_batches(max_chunksize=1000)
    ]

    def train() -> Any:
        pieces, _ = count_pieces(batches, PATTERNS["gpt2"].kernel)
        return merge_pairs(choose_merges(*pieces, bytes_in_order(), vocabulary - 257))

    def merges(result: Any) -> list[tuple[bytes, bytes]]:
        tokens = [bytes([byte]) for byte in BYTES_BY_CHARACTER]
        pairs = []
        for left, right in result:
            pairs.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        return pairs

    return train, merges


def _tokenizers(texts: list[str], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    def train() -> Any:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer, length=len(texts))
        return tokenizer

    def merges(result: Any) -> list[tuple[bytes, bytes]]:
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = iter(range(0x100, 0x200))
        of = {(chr(b) if b in printable else chr(next(others))): b for b in range(256)}
        table = json.loads(result.to_str())["model"]["merges"]
        return [(bytes(of[c] for c in left), bytes(of[c] for c in right)) for left, right in table]

    return train, merges


def _gigatoken(texts: list[str], vocabulary: int) -> Any:
    import gigatoken

    data = "\0".join(texts).encode()
    return lambda: gigatoken.train_bpe(
        data, vocabulary, [END], tie_breaking="huggingface", separator=b"\0"
    ), lambda result: result[1]


def _rustbpe(texts: list[str], vocabulary: int) -> Any:
    import rustbpe

    def train() -> Any:
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(texts), vocabulary - 1, pattern=GPT2)
        return tokenizer

    return train, lambda result: [(token, b"") for token, _ in result.get_mergeable_ranks()[256:]]


def main() -> None:
    """One training."""
    who, path, vocabulary = sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    texts = json.loads(path.read_text("utf-8"))
    make = {"ours": _ours, "tokenizers": _tokenizers, "gigatoken": _gigatoken, "rustbpe": _rustbpe}[
        who
    ]
    warm, _ = make(["a few words and a few more words"], 270)
    warm()
    train, merges = make(texts, vocabulary)
    cpu, wall = time.process_time(), time.perf_counter()
    result = train()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    pairs = merges(result)
    package = "gristmill" if who == "ours" else who
    known = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    version = importlib.metadata.version(package) if package in known else "from source"
    digest = hashlib.blake2b(repr([tuple(map(bytes, pair)) for pair in pairs]).encode())
    told = {
        "cpu": cpu,
        "wall": wall,
        "megabytes": sum(len(text.encode()) for text in texts) / 1e6,
        "merges": len(pairs),
        "digest": digest.hexdigest()[:16],
        "versions": {package: version},
        "processors": len(os.sched_getaffinity(0)),
    }
    print(json.dumps(told))


def _measure(bench: Any) -> list[dict[str, Any]]:
    found, versions = rows(bench.data, bench.peers, bench.plain(), bench.say)
    bench.versions |= versions
    return found


SECTION = Section(
    name="train-bpe",
    title="Training byte-pair encoding",
    remarks=(
        "Novels, split by GPT-2's pattern, on all processors; seconds of processor time of all "
        "threads, and of a clock. Reading is not timed: each trainer has the texts in memory. "
        "Equal: the same merges in the same order. Trainings take turns, each in a fresh process;"
        " HF tokenizers and rustbpe train once for a size, and not for the largest one."
    ),
    measure=_measure,
    table=table,
)


if __name__ == "__main__":
    main()

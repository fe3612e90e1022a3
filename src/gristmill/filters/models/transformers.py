"""A classification head of a transformer: its scores, or its likeliest label (gristmill[judges]).

    low         the score is below min_score
    high        it is above max_score
    label       the likeliest label is not among `keep`

`model` is a folder, or a URL that ends where its files begin: `config.json`, `model.safetensors`
and `tokenizer.json`, as Hugging Face's transformers write them. The class comes from transformers
itself; code of the model's own is never run. A head of one output gives `score` as it is: a
regression, such as FineWeb-Edu's judge (Penedo 2024). One of several gives the likeliest `label`
and as `score` its probability, or that of the label `positive`.

Of a text the first `characters` are tokenized and cut at `tokens`. Texts are put into batches of
one shape (`batch` rows, a multiple of 64 tokens, filled up with rows of padding), so that a score
does not depend on the texts beside it. It does depend on `device`, on torch and on the processor:
the versions of both packages are inputs.

A raw shard takes hours where the model is large. Every batch's scores are appended to a file in the
user's cache (docs/models.md), under the digest of model and parameters, and are read there when the
shard is processed again: a crash loses one batch.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import (
    Check,
    Decision,
    Input,
    Inputs,
    Measured,
    Rule,
    Step,
    check,
    decide_by,
    refuse_nan,
)
from gristmill.filters.models import judge_config
from gristmill.filters.models.library_trials import try_file
from gristmill.filters.models.score_files import digests
from gristmill.filters.models.score_journal import ScoreJournal

PIECE = 64  # tokens: lengths of batches are multiples of it
FILES = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
PACKAGES = ("transformers", "torch")


class Transformers(Step, frozen=True, kw_only=True):
    """Judge documents by a transformer's classification head. A null limit is not checked.

    It runs on a processor or a GPU and needs `gristmill[judges]` (docs/models.md). Origin: FineWeb-
    Edu's judge.
    """

    name: ClassVar[str] = "transformers"
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset({"keep"})
    example: ClassVar[str] = 'model = "edu-judge"\nmin_score = 3.0'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "score < min_score -> low: The score is below `min_score`.",
        "score > max_score -> high: The score is above `max_score`.",
    )
    reasons: ClassVar[Mapping[str, str]] = {"label": "The likeliest label is not in `keep`."}
    measures: ClassVar[Mapping[str, str]] = {
        "label": "The likeliest label; none for a head of one output.",
        "score": (
            "The head's one output, or the probability of `positive` or of the likeliest label."
        ),
    }

    model: str  # A folder, or a URL, with config.json, model.safetensors and tokenizer.json.
    # The label whose probability is the score. Unset: the likeliest one's.
    positive: str | None = None
    min_score: float | None = None  # The least score. Unset: not checked.
    max_score: float | None = None  # The greatest score. Unset: not checked.
    keep: list[str] | None = None  # The labels that are kept. Unset: all.
    tokens: Annotated[int, Meta(ge=1, le=1 << 17)] = 512  # Tokens of a text that the model sees.
    characters: Annotated[int, Meta(ge=1)] = 20_000  # Characters of a text that are tokenized.
    batch: Annotated[int, Meta(ge=1, le=4096)] = 32  # Texts that the model sees at once.
    device: Literal["cpu", "cuda"] = "cpu"  # Where the model runs.

    def __post_init__(self) -> None:
        refuse_nan((self.min_score, self.max_score))

    def inputs(self) -> dict[str, str]:
        locations = {
            f"transformers.{what}": f"{self.model.rstrip('/')}/{name}"
            for what, name in FILES.items()
        }
        return locations | {f"transformers.{name}": f"version:{name}" for name in PACKAGES}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        own = self.inputs()
        judge = _judge(
            *(inputs[own[f"transformers.{what}"]] for what in FILES), self.device, self.tokens
        )
        if self.positive is not None and self.positive not in judge.labels:
            raise RecipeError(
                f"transformers.positive = {self.positive!r}: the model has the labels "
                f"{', '.join(judge.labels)}"
            )
        settings = (self.characters, self.batch, [given.sha256 for given in _all(own, inputs)])
        key = hashlib.sha256(
            msgspec.json.encode([self.version, self.tokens, self.device, *settings])
        ).hexdigest()
        journal = ScoreJournal(key, len(judge.labels))

        def measure(batch: pa.RecordBatch) -> Measured:
            texts = pc.utf8_slice_codeunits(batch["text"], 0, self.characters)
            shard = int(batch["document"][0].as_py() >> 32) if len(batch) else 0
            with journal.shard(shard) as held:
                return self._measured(held.scores(digests(texts), texts, self._score(judge)), judge)

        return measure

    def _score(self, judge: "Judge") -> Callable[[pa.Array], Any]:
        return lambda texts: judge.scores(texts, self.batch)

    def _measured(self, scores: np.ndarray, judge: "Judge") -> Measured:
        """Measures of the probabilities (n, labels), or of a regression's (n, 1)."""
        if len(judge.labels) == 1:
            return Measured({"score": pa.array(scores[:, 0])})
        best = scores.argmax(axis=1) if len(scores) else np.empty(0, np.int64)
        of = best if self.positive is None else judge.labels.index(self.positive)
        labels = pa.array(judge.labels, pa.string()).take(pa.array(best))
        return Measured({"label": labels, "score": pa.array(scores[np.arange(len(scores)), of])})

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        own, checks = dict(measures), [*self.comparisons]
        if self.keep is not None and "label" in own:
            outside = pc.invert(pc.is_in(own["label"], pa.array(self.keep, pa.string())))
            own["label"] = outside.cast(pa.int8())
            checks.insert(0, Check("label", "label", ">", 0.0))
        return check(checks, own)


def _all(own: Mapping[str, str], inputs: Inputs) -> list[Input]:
    return [inputs[location] for location in own.values()]


class Judge:
    """A model with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, labels: list[str], padding: int) -> None:
        self._model, self._tokenizer, self._padding = model, tokenizer, padding
        self.labels = labels

    def scores(self, texts: pa.Array, rows: int) -> Any:
        """Yield (places, scores) of batches of `rows` of n texts: places (m,) among them, and (m,
        labels) float64.
        """
        import torch

        encodings = self._tokenizer.encode_batch(texts.to_pylist())
        tokens = [encoding.ids for encoding in encodings]
        pieces = np.array([max(-(-len(ids) // PIECE), 1) for ids in tokens])
        for piece in np.unique(pieces).tolist():
            members = np.flatnonzero(pieces == piece)
            for start in range(0, len(members), rows):
                places = members[start : start + rows]
                ids = np.full((rows, piece * PIECE), self._padding, np.int64)
                mask = np.zeros_like(ids)
                mask[:, 0] = 1  # a row of padding alone has something to look at
                for row, place in enumerate(places.tolist()):
                    ids[row, : len(tokens[place])] = tokens[place]
                    mask[row, : max(len(tokens[place]), 1)] = 1
                device = self._model.device
                with torch.inference_mode(), _one_thread():
                    said = self._model(
                        input_ids=torch.from_numpy(ids).to(device),
                        attention_mask=torch.from_numpy(mask).to(device),
                    ).logits.double()
                if len(self.labels) > 1:
                    said = said.softmax(-1)
                yield places, said[: len(places)].cpu().numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread of torch's: a run has a process for each processor, and sums in another order
    would be other scores.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _judge(config: Input, weights: Input, tokenizer: Input, device: str, tokens: int) -> Judge:
    where = f"transformers.model: {os.path.dirname(config.path) or config.name}"
    try:
        import torch
        import transformers
    except ImportError as error:
        raise RecipeError(
            f"{where}: torch or transformers is not installed: pip install 'gristmill[judges]'"
        ) from error
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    try_file("load_tokenizer", tokenizer.path, where)
    if device == "cuda" and not torch.cuda.is_available():
        raise RecipeError(f'{where}: device = "cuda", and torch finds none on this machine')
    try:
        table = msgspec.json.decode(Path(config.path).read_bytes(), type=dict[str, Any])
        settings = judge_config.settings(table)
        model = transformers.AutoModelForSequenceClassification.from_config(
            settings, trust_remote_code=False
        )
        model.load_state_dict(load_file(weights.path))
        pieces = Tokenizer.from_file(tokenizer.path)
    except Exception as error:  # whatever another library says of files that are none
        raise RecipeError(f"{where}: no classification model: {error}") from error
    limit = getattr(settings, "max_position_embeddings", None) or tokens
    pieces.no_padding()
    pieces.enable_truncation(min(tokens, limit))
    model = model.float().eval().to(device)
    labels = [str(settings.id2label[place]) for place in range(settings.num_labels)]
    return Judge(model, pieces, labels, settings.pad_token_id or 0)

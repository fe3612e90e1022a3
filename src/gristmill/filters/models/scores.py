"""Scores and labels that were made elsewhere, joined by document, URL or text: of any model, of
which gristmill needs to know nothing.

    missing     a column has no value for the document, with missing = "drop"
    NAME_low    the number NAME is below its entry of `min`
    NAME_high   it is above its entry of `max`
    NAME_label  the label NAME is not among its entry of `keep`

`files` are Parquet or JSONL (score_files.py), paths or URLs: each row has the key of a document and
one or more of the columns that `numbers` and `labels` name. `by = "document"` joins by the number
of a document, `by = "url"` by its URL, `by = "text"` by the BLAKE2b of its text as it is when the
step sees it. `gristmill export --to score-jobs` writes what is to be scored, with all three.

What does not match is never silent. Of each document `missing` counts the columns without a value
and `repeats` the rows beyond the first of its key. missing = "refuse" stops at the first document
without a value, repeats = "refuse" at the first key with two rows ("first" and "last" take one of
them), nan = "refuse" at the first score that is NaN or infinite ("missing" takes it for none).

FineWeb-Edu (Penedo 2024, section 4) keeps what an embedding model scores at 3 or more; Nemotron-CC
(Su 2024), DCLM and Essential-Web judge by scores and labels of models as well.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

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
    Step,
    check,
    refuse_nan,
)
from gristmill.filters.models.score_files import (
    KEYS,
    By,
    Labels,
    ScoreBlock,
    Wanted,
    blocks,
    check_columns,
    digests,
    document_keys,
)
from gristmill.filters.models.score_index import Given, RepeatedKey, Repeats, ScoreIndex, build
from gristmill.tables.schema import document_name

NAME = "[a-z][a-z0-9_]{0,31}"
TAKEN = ("missing", "repeats")
Columns = list[str] | dict[str, str]  # names, or name = "field of the files"


class GivenScores(Step, frozen=True, kw_only=True):
    """Join scores from files and judge by them. A column without a threshold drops nothing.

    They are numbers and labels of any model, by document, URL or text. Origin: FineWeb-Edu,
    Nemotron-CC, Essential-Web.
    """

    name: ClassVar[str] = "scores"
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset(("min", "max", "keep"))
    example: ClassVar[str] = 'files = ["edu.parquet"]\nnumbers = ["edu"]\nmin = { edu = 3 }'
    reasons: ClassVar[Mapping[str, str]] = {
        "missing": "A column has no value for the document, and `missing` says drop.",
        "NAME_low": "The number NAME is below its entry of `min`.",
        "NAME_high": "The number NAME is above its entry of `max`.",
        "NAME_label": "The label NAME is not in its entry of `keep`.",
    }
    measures: ClassVar[Mapping[str, str]] = {
        "NAME": "The number or label of each column of `numbers` and `labels`.",
        "missing": "Columns without a value for the document.",
        "repeats": "Rows of the document's key beyond the first.",
    }

    # The files with scores, Parquet or JSONL, as paths or URLs.
    files: Annotated[list[str], Meta(min_length=1)]
    # What joins them: the number of a document, its URL, or the hash of its text.
    by: By = "document"
    # The files' column with the key. Unset: `document`, `url` or `text_hash`.
    key: str | None = None
    # The columns of numbers; a table gives them other names: `{ edu = "int_score" }`.
    numbers: Columns = msgspec.field(default_factory=list)
    # The columns of labels; a table gives them other names.
    labels: Columns = msgspec.field(default_factory=list)
    # Of a number the least that is kept.
    min: dict[str, float] = msgspec.field(default_factory=dict)
    # Of a number the greatest that is kept.
    max: dict[str, float] = msgspec.field(default_factory=dict)
    # Of a label the values that are kept.
    keep: dict[str, list[str]] = msgspec.field(default_factory=dict)
    # What is done with a document without a value; `refuse` stops the run.
    missing: Literal["keep", "drop", "refuse"] = "keep"
    repeats: Repeats = "refuse"  # Which row counts if a key has several; `refuse` stops the run.
    # What is done with a score that is NaN or infinite; `refuse` stops the run.
    nan: Literal["refuse", "missing"] = "refuse"

    def __post_init__(self) -> None:
        refuse_nan([*self.min.values(), *self.max.values()])
        wanted = self._wanted()
        if not wanted.fields:
            raise ValueError("`numbers` or `labels` name the columns that it joins: give some")
        both = wanted.numbers.keys() & wanted.labels.keys()
        for name in sorted(both):
            raise ValueError(f"{name!r} is a number or a label, not both")
        for name in wanted.fields:
            if not re.fullmatch(NAME, name) or name in TAKEN:
                raise ValueError(
                    f"{name!r} cannot be a measure's name: use a-z, 0-9 and _, at most 32 of them, "
                    f'and not {" or ".join(TAKEN)}; {{ name = "column" }} names a column otherwise'
                )
        if len(set(self.files)) < len(self.files):
            raise ValueError("a file is named twice")
        for what, given, kind, known in (
            ("min", list(self.min), "numbers", wanted.numbers),
            ("max", list(self.max), "numbers", wanted.numbers),
            ("keep", list(self.keep), "labels", wanted.labels),
        ):
            for name in (name for name in given if name not in known):
                raise ValueError(f"{what}.{name}: `{kind}` names no {name!r}")

    def _wanted(self) -> Wanted:
        numbers, labels = (
            given if isinstance(given, dict) else {name: name for name in given}
            for given in (self.numbers, self.labels)
        )
        return Wanted(self.by, self.key or KEYS[self.by], numbers, labels, self.nan)

    @property
    def by_number(self) -> bool:
        return self.by == "document"

    def inputs(self) -> dict[str, str]:
        return {f"scores.files.{place}": location for place, location in enumerate(self.files)}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        wanted = self._wanted()
        files = {f"scores: {location}": inputs[location] for location in self.files}
        indexes = [
            _index(wanted, names, members, self.repeats)
            for names, members in _by_columns(files, wanted).items()
        ]
        return partial(self._measure, wanted, indexes)

    def _measure(
        self, wanted: Wanted, indexes: Sequence[ScoreIndex], batch: pa.RecordBatch
    ) -> Measured:
        keys, has_key = _document_keys(batch, wanted.by)
        missing = np.zeros(len(batch), np.int64)
        repeats = np.zeros(len(batch), np.int64)
        columns: dict[str, pa.Array] = {}
        for index in indexes:
            values, rows, second = index.find(keys)
            values[~has_key] = np.nan
            rows[~has_key] = 0
            if wanted.by == "document":
                _check_urls(batch, keys, rows, second)
            repeats += np.maximum(rows - 1, 0)
            for place, name in enumerate(index.columns):
                column = values[:, place]
                none = np.isnan(column)
                missing += none
                columns[name] = (
                    pa.array(index.labels[name], pa.string()).take(
                        pa.array(np.where(none, 0, column).astype(np.int64), mask=none)
                    )
                    if name in wanted.labels
                    else pa.array(column, mask=none)
                )
        if self.missing == "refuse" and missing.any():
            row = int(np.flatnonzero(missing)[0])
            names = [name for name, column in columns.items() if not column[row].is_valid]
            raise RecipeError(
                f"scores: document {document_name(batch['document'][row].as_py())} "
                f"({batch['url'][row].as_py()!r}) has no {', '.join(names)} in {self.files[0]}"
                f"{' and others' if len(self.files) > 1 else ''}: score it, or say missing = "
                '"keep" or "drop"'
            )
        measures = {name: columns[name] for name in wanted.fields}
        return Measured(measures | {"missing": pa.array(missing), "repeats": pa.array(repeats)})

    @property
    def comparisons(self) -> list[Check]:
        checks = [Check("missing", "missing", ">", 0.0 if self.missing == "drop" else None)]
        checks += [Check(f"{name}_label", name, ">", 0.0) for name in self.keep]
        for name in dict.fromkeys((*self.min, *self.max)):
            checks.append(Check(f"{name}_low", name, "<", self.min.get(name)))
            checks.append(Check(f"{name}_high", name, ">", self.max.get(name)))
        return checks

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        own = dict(measures)
        for name, keep in self.keep.items():
            outside = pc.invert(pc.is_in(own[name], pa.array(keep, pa.string())))
            # A label that is missing is judged as missing, by `missing`.
            own[name] = pc.and_(outside, pc.is_valid(own[name])).cast(pa.int8())
        said = check(self.comparisons, own)
        # Of a label there is no value that could be compared.
        is_label = pc.ends_with(pc.fill_null(said.reason, ""), "_label")
        nothing = pa.scalar(None, pa.float64())
        return Decision(
            said.reason,
            pc.if_else(is_label, nothing, said.value),
            pc.if_else(is_label, nothing, said.threshold),
        )


def _by_columns(
    files: Mapping[str, Input], wanted: Wanted
) -> dict[tuple[str, ...], dict[str, Input]]:
    """Return files by the columns that they have. Raises RecipeError: no file has a column, or two
    kinds of files have it.
    """
    groups: dict[tuple[str, ...], dict[str, Input]] = {}
    for where, file in files.items():
        groups.setdefault(check_columns(file, where, wanted), {})[where] = file
    for name, field in wanted.fields.items():
        having = [names for names in groups if name in names]
        if not having:
            raise RecipeError(f"{next(iter(files))}: no file has the column {field!r}")
        if len(having) > 1:
            places = " and ".join(next(iter(groups[names])) for names in having)
            raise RecipeError(
                f"{places}: both have the column {field!r}, and not the same others: a document "
                "could be in both. Give files of one set of columns, or name the columns apart"
            )
    return groups


def _index(
    wanted: Wanted, names: tuple[str, ...], files: Mapping[str, Input], repeats: Repeats
) -> ScoreIndex:
    def rows(labels: Labels) -> Iterator[ScoreBlock]:
        for where, file in files.items():
            yield from blocks(file, where, wanted, names, labels)

    shas = [file.sha256 for file in files.values()]
    digest = hashlib.sha256(msgspec.json.encode([wanted, names, shas])).hexdigest()
    labels = tuple(name for name in names if name in wanted.labels)
    whole = wanted.by != "document"
    try:
        return build(Given(names, labels, rows, whole, repeats, digest))
    except RepeatedKey as error:
        raise RecipeError(_repeated(error.key, wanted, names, files, whole=whole)) from error


def _repeated(
    key: tuple[int, int],
    wanted: Wanted,
    names: tuple[str, ...],
    files: Mapping[str, Input],
    *,
    whole: bool,
) -> str:
    """Return which rows have one key: found by reading again, which an error may cost."""
    labels = Labels([name for name in names if name in wanted.labels])
    places = []
    for where, file in files.items():
        for block in blocks(file, where, wanted, names, labels):
            same = block.keys[:, 0] == np.uint64(key[0])
            if whole:
                same &= block.keys[:, 1] == np.uint64(key[1])
            places += [f"{where}, row {block.first + row:,}" for row in np.flatnonzero(same)]
    of = f" {document_name(key[0])}" if wanted.by == "document" else f"'s {wanted.by}"
    return (
        f"{places[0]}, and {places[1]}: both are of the document{of}. Remove one, or say "
        'repeats = "first" or "last"'
    )


def _document_keys(batch: pa.RecordBatch, by: By) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of n documents, (n, 2) uint64, and which documents have one, (n,) bool."""
    every = np.ones(len(batch), bool)
    if by == "document":
        return document_keys(batch["document"].to_numpy(), None), every
    if by == "text":
        return digests(batch["text"]), every
    known = batch["url"].is_valid().to_numpy(zero_copy_only=False)
    return digests(pc.fill_null(batch["url"], "")), known


def _check_urls(
    batch: pa.RecordBatch, keys: np.ndarray, rows: np.ndarray, second: np.ndarray
) -> None:
    """Raise RecipeError where a row's URL is another than the document's: the file is of other
    documents.
    """
    stated = (rows > 0) & (second != 0)
    if not stated.any():
        return
    own = document_keys(keys[:, 0].astype(np.int64), batch["url"])[:, 1]
    wrong = np.flatnonzero(stated & (own != second))
    if len(wrong):
        row = int(wrong[0])
        raise RecipeError(
            f"scores: document {document_name(int(keys[row, 0]))} has another URL in the file "
            f"than here ({batch['url'][row].as_py()!r}): the scores are of another plan of raw "
            'shards. Run with the plan that they were made with (--plan), or join by = "url" or '
            'by = "text"'
        )

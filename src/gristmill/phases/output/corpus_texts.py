"""The kept documents of a finished corpus, with frequent lines and repeated
spans cut and post-dedup steps applied, as
`export` writes them and tokenizers are trained on them.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gristmill.corpus.clusters import TABLE
from gristmill.corpus.copy_counts import Copies
from gristmill.corpus.kept_documents import Rewriter, load_rewriter, post_dedup_steps, read_kept
from gristmill.dedup.lines.line_counts import LineRemover
from gristmill.dedup.substrings.span_cutter import SpanCutter
from gristmill.errors import RecipeError
from gristmill.phases.inputs.inputs import installed, is_as_made
from gristmill.phases.relations.frequent_lines import LIST, make_cut
from gristmill.phases.relations.repeated_substrings import LIST as SUBSTRINGS
from gristmill.recipe import from_stored
from gristmill.store.manifest import Manifest
from gristmill.store.parts import read_batches
from gristmill.tables.schema import shard_name


def corpus_texts(
    root: Path, manifest: Manifest, source: str, number: int
) -> Iterator[pa.RecordBatch]:
    """Return the kept documents of raw shard `number`, which is of `source`: batches of
    schema.TEXT.

    Raises RecipeError if the corpus has no texts, or cannot rewrite them as they were.
    """
    name = f"{shard_name(number)}.parquet"
    text = root / "text" / source / name
    if text.exists():
        return read_batches(text)
    if not (root / "documents" / name).exists():
        raise RecipeError(
            f"{root}: it has neither documents/ (keep_documents = false) nor text/: there is "
            "nothing to export"
        )
    settings = from_stored(manifest.recipe).deduplicate
    cutter = line_cutter(root, manifest, source)
    span_cutter = None
    if settings is not None and settings.substrings is not None:
        span_cutter = SpanCutter(root / SUBSTRINGS, number, settings.substrings)
    rewriter = _rewriter(root, manifest, source)
    copies = Copies(
        root / TABLE if any(part.path == TABLE for part in manifest.parts) else None, number
    )
    stream = read_kept(
        root / "documents" / name, root / "verdicts" / name, cutter, span_cutter, rewriter
    )
    return map(copies.added_to, stream)


def line_cutter(root: Path, manifest: Manifest, source: str) -> LineRemover | None:
    """Return what cuts frequent lines out of the documents of a source; None: none are cut."""
    settings = from_stored(manifest.recipe).deduplicate
    cut = make_cut(settings, manifest.parts)
    return cut.cutter(root / LIST, source) if cut else None


def _rewriter(root: Path, manifest: Manifest, source: str) -> Rewriter | None:
    """Return the steps that rewrite after deduplication, with the inputs that the run had."""
    recipe = from_stored(manifest.recipe)
    try:
        inputs = installed(recipe, source)
    except RecipeError as error:
        raise RecipeError(
            f"{root}: its documents must be rewritten after deduplication, and {error}. Run the "
            "recipe without [tokens]: text/ then has the rewritten texts"
        ) from error
    for step in recipe.post_dedup_steps(source):
        for what, location in step.inputs().items():
            if not is_as_made(inputs[location], what, manifest.inputs):
                raise RecipeError(
                    f"{root}: {what} is {inputs[location].name} here, not the input with which the "
                    "corpus was made"
                )
    return load_rewriter(post_dedup_steps(recipe, source, inputs))

"""Judge again without reading again: what other thresholds say of documents that are measured
already.

    measures + the verdicts that came of them -> redecide -> new reasons, and which documents cannot
    be judged

A document that a step dropped was never measured by the steps behind it (unless the recipe says
measure = "all"): where the new thresholds let it pass that step, it must be read again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.filters.api.judge import EMPTY, LEFT
from gristmill.filters.api.step import Step


class Redecided(NamedTuple):
    """What new thresholds say of the n rows of a batch of verdicts."""

    reason: pa.Array  # (n,) string, step.reason; null: kept by all steps, or unread
    value: pa.Array  # (n,) float64
    threshold: pa.Array  # (n,) float64
    # (n,) int16: the step that dropped it; the number of steps where none did; -1: it was never
    # readable
    reached: np.ndarray
    unread: np.ndarray  # (n,) bool: it gets farther than it was measured
    anew: (
        np.ndarray
    )  # (n,) bool: a step had dropped it and none does now, so that its text is not stored


def redecide(
    measures: pa.RecordBatch, verdicts: pa.RecordBatch, steps: Sequence[Step], *, everything: bool
) -> Redecided:
    """Decide for n rows of measures by steps with other thresholds; `verdicts` are those rows' old
    ones, `everything` how they were made.
    """
    rows = len(verdicts)
    old = before(verdicts["reason"], [step.name for step in steps])
    unread, alive = np.zeros(rows, bool), old >= 0
    reached = np.where(alive, len(steps), -1).astype(np.int16)
    unreadable = pa.array(~alive)
    reason = pc.if_else(unreadable, verdicts["reason"], None).cast(pa.string())
    value = pc.if_else(unreadable, verdicts["value"], None).cast(pa.float64())
    threshold = pa.nulls(rows, pa.float64())
    for place, step in enumerate(steps):
        known = alive & (everything | (old >= place))
        unread |= alive & ~known
        alive &= known
        own = {
            name.partition(".")[2]: measures[name]
            for name in measures.schema.names
            if name.startswith(f"{step.name}.")
        }
        if not own:
            continue  # it measures nothing, and drops nothing here
        said = step.decide(own)
        new = said.reason
        if LEFT in own:
            new = pc.if_else(pc.and_(pc.is_null(new), pc.equal(own[LEFT], 0)), EMPTY, new).cast(
                pa.string()
            )
        dropped = alive & pc.is_valid(new).to_numpy(zero_copy_only=False)
        if dropped.any():
            mask = pa.array(dropped)
            named = pc.binary_join_element_wise(step.name, new, ".").cast(pa.string())
            reason = pc.if_else(mask, named, reason)
            value, threshold = (
                pc.if_else(mask, said.value, value),
                pc.if_else(mask, said.threshold, threshold),
            )
            reached[dropped] = place
            alive &= ~dropped
    anew = (old >= 0) & (old < len(steps)) & (reached == len(steps)) & ~unread
    return Redecided(reason, value, threshold, reached, unread, anew)


def before(reasons: pa.Array, names: Sequence[str]) -> np.ndarray:
    """Of each verdict the place of the step that dropped its document: -1 it was no readable one,
    len(names) no step did.
    """
    places = {name: place for place, name in enumerate(names)}
    encoded = reasons.dictionary_encode()
    of_word = np.array(
        [
            places.get(word.partition(".")[0], -1 if word.startswith("read.") else len(names))
            for word in encoded.dictionary.to_pylist()
        ],
        np.int16,
    )
    indices = encoded.indices.fill_null(len(of_word)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(of_word, np.int16(len(names)))[indices])

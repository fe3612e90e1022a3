"""Duplicates: signatures, candidates by SQL, and the rule that decides; an index for a stream; the
curve of bands and rows.

The names of `__all__` are public.
"""

from gristmill.system.lazy_names import lazy

_PLACES = {
    "DuplicateIndex": "dedup.stream.duplicate_index:DuplicateIndex",
    "Near": "dedup.settings:Near",
    "Verdict": "dedup.stream.sqlite_store:Verdict",
    "curve": "dedup.banding:curve",
}
__all__ = [*_PLACES]  # noqa: PLE0604
__getattr__ = lazy(__name__, _PLACES)

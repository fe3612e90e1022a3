r"""Regular expressions by RE2 (github.com/google/re2; Cox 2010,
swtch.com/~rsc/regexp/regexp3.html): one search takes time in proportion to the text, and never goes
back. Needs gristmill[re2].

    drop      max_matches       `many` matches: a text with more
              min_matches       `few` matches: a text with fewer
    replace   replacement       each match is replaced; \1 to \9 are its groups, \0 is all of it

The syntax is RE2's: no look-around, no references back; \w, \d, \s and \b are of ASCII, \p{L} is a
letter of any script. Each search goes on where the last match
ended, and one that finds nothing near may read on to the end of the text: at most `most` matches of
a text are looked for. If a text has more, its count says `most` + 1, which `max_matches` must not
exceed; a replacement drops it as `too_many`, because a half-replaced text would be kept in silence.
A pattern that matches the empty text is refused: it matches everywhere.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Inputs, Measured, Rule, Step, decide_by

MEMORY = 8 << 20  # bytes of a compiled pattern and its states, RE2's own default


class Regex(Step, frozen=True, kw_only=True):
    """Count, or replace, the matches of a regular expression.

    RE2 matches in linear time (`gristmill[re2]`). Origin: datatrove's RegexFilter, with an engine
    that no pattern makes slow.
    """

    name: ClassVar[str] = "regex"
    version: ClassVar[int] = 1
    example: ClassVar[str] = 'pattern = "(?i)click here"\nmax_matches = 3'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "matches > max_matches -> many: The pattern matches more than `max_matches` times.",
        "matches < min_matches -> few: The pattern matches fewer than `min_matches` times.",
        "matches > most_replaced -> too_many: There are more matches to replace than `most`.",
    )
    reasons: ClassVar[Mapping[str, str]] = {"empty": "No text is left."}
    measures: ClassVar[Mapping[str, str]] = {"matches": "Matches; `most` + 1 where there are more."}

    # The regular expression, in RE2's syntax.
    pattern: Annotated[str, Meta(min_length=1, max_length=100_000)]
    max_matches: Annotated[int, Meta(ge=0)] | None = None  # The most matches. Unset: not checked.
    min_matches: Annotated[int, Meta(ge=1)] | None = None  # The least matches. Unset: not checked.
    # What each match is replaced by; `\1` is a group. Unset: nothing is replaced.
    replacement: str | None = None
    ignore_case: bool = False  # Capitals and small letters are equal.
    # How many matches of a text are looked for.
    most: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    # Replace after deduplication: `documents/` keeps the texts as they were.
    after_dedup: bool = False

    def __post_init__(self) -> None:
        if self.max_matches is None and self.min_matches is None and self.replacement is None:
            raise ValueError("name max_matches, min_matches or replacement: it would do nothing")
        for name, limit in (("max_matches", self.max_matches), ("min_matches", self.min_matches)):
            if limit is not None and limit > self.most:
                raise ValueError(f"{name} = {limit}: only {self.most} matches are counted (`most`)")
        if self.after_dedup and self.replacement is None:
            raise ValueError("after_dedup = true: only a replacement can wait")

    def inputs(self) -> dict[str, str]:
        """Return the version of RE2's package."""
        return {"regex.re2": "version:google-re2"}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        pattern = compiled(self.pattern, ignore_case=self.ignore_case)
        pieces = None if self.replacement is None else template(self.replacement, pattern.groups)

        def measure(batch: pa.RecordBatch) -> Measured:
            counts, texts = [], []
            for text in batch["text"].to_pylist():
                count, replaced = _apply(pattern, pieces, text, self.most)
                counts.append(count)
                texts.append(replaced)
            measures = {"matches": pa.array(counts, pa.int64())}
            if pieces is None:
                return Measured(measures)
            return Measured(measures, text=pa.array(texts, pa.string()))

        return measure

    @property
    def most_replaced(self) -> int | None:
        """Return the most matches, where they are replaced."""
        return None if self.replacement is None else self.most


def compiled(pattern: str, *, ignore_case: bool) -> Any:
    """Return a pattern of RE2. Raises RecipeError where it is none, is too large or matches no
    text.
    """
    try:
        import re2
    except ImportError as error:
        raise RecipeError(
            "regex: google-re2 is not installed: pip install 'gristmill[re2]'"
        ) from error
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = MEMORY
    try:
        made = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        said = error.args[0] if error.args else error
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        raise RecipeError(
            f"regex.pattern = {pattern[:200]!r}: RE2 does not take it: {said}. Its syntax has no "
            "look-around and no references back"
        ) from error
    if made.search("") is not None:
        raise RecipeError(
            f"regex.pattern = {pattern[:200]!r}: it matches the empty text, that is everywhere"
        )
    return made


def template(replacement: str, groups: int) -> list[str | int]:
    r"""Return a replacement as literal strings and numbers of groups. `\\` is a backslash. Raises
    RecipeError where a group is none of the pattern's.
    """
    parts: list[str | int] = []
    characters = iter(replacement)
    for character in characters:
        if character != "\\":
            parts.append(character)
            continue
        after = next(characters, "")
        if after == "\\":
            parts.append(after)
        elif after.isascii() and after.isdigit() and int(after) <= groups:
            parts.append(int(after))
        else:
            raise RecipeError(
                f"regex.replacement = {replacement!r}: \\{after} is no group of the pattern, which "
                f"has {groups}; write \\\\ for a backslash"
            )
    return parts


def _apply(pattern: Any, pieces: list[str | int] | None, text: str, most: int) -> tuple[int, str]:
    """Return how many matches a text has, at most `most` + 1, and the text with those replaced."""
    out: list[str] = []
    count = end = 0
    for match in pattern.finditer(text):
        count += 1
        if count > most:
            break
        if pieces is not None:
            out.append(text[end : match.start()])
            out += [
                piece if isinstance(piece, str) else match.group(piece) or "" for piece in pieces
            ]
            end = match.end()
    return count, text if count > most else "".join([*out, text[end:]])

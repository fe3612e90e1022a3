r"""Text in one normal form: Unicode's composition, control characters, white space, URLs. Nothing
is dropped for not being ASCII.

In this order:

    mojibake   ftfy.fix_text with its repairs of encodings alone (UTF-8 read as Latin-1, and similar
               mistakes); no other of its changes. Needs gristmill[ftfy]
    entities   ftfy's unescape_html, until nothing changes: HTML entities left in a text (&amp;,
               &eacute;, &#233;) become characters; "auto": not in a text with a `<`, which may be
               about HTML. Needs gristmill[ftfy]
    control    \r\n, \r, U+000B, U+000C, U+001C to U+001E, U+0085, U+2028 become a line break,
               U+2029 two, U+001F a space, so that no two words are joined. Removed: all other of
               category Cc but tab and \n; U+FEFF, U+200B, U+2060, U+00AD (invisible, they only hint
               where a line may break); U+202A to U+202E and U+2066 to U+2069 (overrides of
               direction); noncharacters. Kept: ZWNJ and ZWJ (U+200C, U+200D), which scripts and
               emoji need; the marks of direction U+200E, U+200F and U+061C
    form       NFC or NFKC (UAX 15)
    urls       "drop": what starts with http://, https:// or www. (in any case; www. not after an
               ASCII letter or digit) is removed up to white space, `"`, `<`, `>`, or a letter or
               sign of Chinese, Japanese, Thai, Lao, Khmer, Burmese or Tibetan, where no space would
               stand
    space      runs of spaces, tabs and category Zs become one space, indentation included; none at
               the end of a line; three or more line breaks become two; none at the start and the
               end of the text

Normalising twice is normalising once, but for mojibake and entities: ftfy may find more to repair
in what it repaired. Composition is done only for texts that it could change (a kernel checks), by
Python, whose Unicode version is one of the inputs.
"""

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Inputs, Measured, Step
from gristmill.tables.columns import utf8_buffers


class Normalise(Step, frozen=True, kw_only=True):
    """Rewrite texts to one normal form.

    NFC, control characters, white space, line ends; URLs, mojibake and HTML entities on request.
    Origin: the usual cleaning, but it keeps non-ASCII characters; ftfy's repairs.
    """

    name: ClassVar[str] = "normalise"
    version: ClassVar[int] = 2
    example: ClassVar[str] = 'urls = "drop"'
    reasons: ClassVar[Mapping[str, str]] = {"empty": "No text is left."}
    measures: ClassVar[Mapping[str, str]] = {
        "characters_removed": "Characters before, less those after.",
        "urls_removed": "URLs that were removed.",
    }

    form: Literal["NFC", "NFKC"] | None = "NFC"  # Unicode's normal form; null: none.
    # Remove control and invisible characters, and write all line ends as `\n`.
    control: bool = True
    space: bool = True  # Write runs of spaces as one space, and three or more line breaks as two.
    urls: Literal["keep", "drop"] = "keep"  # With `drop` URLs are removed.
    # Repair wrongly decoded text, such as UTF-8 read as Latin-1. Needs `gristmill[ftfy]`.
    mojibake: bool = False
    # Write HTML entities (`&amp;`) as characters: in all texts, or with `auto` in those without a
    # `<`. Needs `gristmill[ftfy]`.
    entities: Literal["keep", "auto", "all"] = "keep"
    after_dedup: bool = False  # Run after deduplication: `documents/` keeps the texts as they were.

    def inputs(self) -> dict[str, str]:
        """Return the version of ftfy, and of Unicode in Python, which composes."""
        named = {"normalise.ftfy": "version:ftfy"} if self._repairs else {}
        return named | (
            {"normalise.unicode": "version:unicodedata"} if self.form is not None else {}
        )

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        fix = _fixer(self.mojibake, self.entities) if self._repairs else None

        def measure(batch: pa.RecordBatch) -> Measured:
            before = batch["text"]
            fixed = _fix(before, fix) if fix is not None else before
            text, urls = self._normalise(fixed)
            removed = pc.subtract(pc.utf8_length(before), pc.utf8_length(text)).cast(pa.int64())
            return Measured(
                {"characters_removed": removed, "urls_removed": pa.array(urls)}, text=text
            )

        return measure

    @property
    def _repairs(self) -> bool:
        return self.mojibake or self.entities != "keep"

    def _normalise(self, texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
        """Return the texts in normal form, and how many URLs each lost, (n,) int64."""
        from gristmill.kernels.unicode.composition import unsettled

        urls = self.urls == "drop"
        if self.form == "NFKC":
            composed = np.asarray(
                pc.invert(pc.string_is_ascii(texts)).to_numpy(zero_copy_only=False)
            )
        else:
            composed = unsettled(*utf8_buffers(texts)) > 0
        if self.form is None or not composed.any():
            return _tidy(texts, self.control, urls, self.space)
        # Composition sees the text without control characters; what it makes may be white space or
        # part of a URL.
        mask = pa.array(composed)
        simple, simple_urls = _tidy(texts.filter(pc.invert(mask)), self.control, urls, self.space)
        rows, _ = _tidy(texts.filter(mask), self.control, False, False)
        rows, row_urls = _tidy(_compose(rows, self.form), False, urls, self.space)
        order = np.empty(len(texts), np.int64)
        order[~composed] = np.arange(len(simple))
        order[composed] = len(simple) + np.arange(len(rows))
        return pa.concat_arrays([simple, rows]).take(pa.array(order)), np.concatenate(
            [simple_urls, row_urls]
        )[order]


def _tidy(texts: pa.Array, control: bool, urls: bool, space: bool) -> tuple[pa.Array, np.ndarray]:
    from gristmill.kernels.unicode import tidy

    offsets, data, removed = tidy.tidy(
        *utf8_buffers(texts), control=control, urls=urls, space=space
    )
    return pa.StringArray.from_buffers(
        len(texts), pa.py_buffer(offsets), pa.py_buffer(data)
    ), removed


def _compose(texts: pa.Array, form: Literal["NFC", "NFKC"]) -> pa.Array:
    """Return texts in NFC or NFKC, by Python: pyarrow before 26 leaves them decomposed.

    Marks in a long row are sorted here first: the library's time for n of them grows with n * n.
    """
    from gristmill.kernels.unicode.composition import LONG_RUN, unsettled

    long = unsettled(*utf8_buffers(texts)) >= LONG_RUN
    rows = [
        unicodedata.normalize(form, _ordered(text, form) if wild else text)
        for text, wild in zip(texts.to_pylist(), long.tolist(), strict=True)
    ]
    return pa.array(rows, pa.string())


def _ordered(text: str, form: str) -> str:
    """Return a text decomposed, its marks in canonical order (Unicode 16.0, section 3.11: D108,
    D109).
    """
    decomposition: Any = {"NFC": "NFD", "NFKC": "NFKD"}[form]
    parts: list[str] = []
    marks: list[str] = []
    for character in text:
        for point in unicodedata.normalize(decomposition, character):
            if unicodedata.combining(point):
                marks.append(point)
                continue
            if marks:
                parts += sorted(marks, key=unicodedata.combining)
                marks = []
            parts.append(point)
    return "".join([*parts, *sorted(marks, key=unicodedata.combining)])


_UNESCAPE: dict[str, str | bool] = {"keep": False, "auto": "auto", "all": True}


def _fixer(mojibake: bool, entities: Literal["keep", "auto", "all"]) -> Callable[[str], str]:
    """Return the repairs that ftfy makes of wrongly decoded text, and of HTML entities."""
    try:
        import ftfy
    except ImportError as error:
        raise RecipeError(
            f"normalise.{'mojibake' if mojibake else 'entities'}: ftfy is not installed: pip "
            "install 'gristmill[ftfy]'"
        ) from error
    settings = ftfy.TextFixerConfig(
        unescape_html=_UNESCAPE[entities],
        remove_terminal_escapes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        fix_surrogates=False,
        remove_control_chars=False,
        normalization=None,
        fix_encoding=mojibake,
        restore_byte_a0=mojibake,
        replace_lossy_sequences=mojibake,
        decode_inconsistent_utf8=mojibake,
        fix_c1_controls=mojibake,
        explain=False,
    )
    return lambda text: ftfy.fix_text(text, settings)


def _fix(texts: pa.Array, fix: Callable[[str], str]) -> pa.Array:
    """Return texts repaired one by one; ASCII without entities needs no repair."""
    ascii_only = pc.and_not(pc.string_is_ascii(texts), pc.match_substring(texts, "&"))
    rows = [
        text if plain else fix(text)
        for text, plain in zip(texts.to_pylist(), ascii_only.to_pylist(), strict=True)
    ]
    return pa.array(rows, pa.string())

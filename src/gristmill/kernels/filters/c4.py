"""C4's line rules: which lines of every text stay, rewritten without citations, and what ends a
text at once.

The order of the checks of a line is that of the C4 code (c4_utils.py of TensorFlow Datasets), as
datatrove has it: a word too long; citations go; the last character; too few words; `lorem ipsum`
ends the text; `javascript`; `{` ends the text; a policy's phrase.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_characters,
    load_up_to_8,
    mask_of_letter,
    mask_of_range,
    store_u64,
    valid_in,
)
from gristmill.kernels.lists import aho_corasick
from gristmill.kernels.text.words import Bounds
from gristmill.kernels.unicode.tables import (
    CATEGORY_P,
    DECIMAL,
    SENTENCE,
    SIGN_INDEX,
    SIGN_PAGES,
    code_point,
    sign_of,
    width_of,
)

POLICY = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
LOREM, SCRIPT, CURLY = "lorem ipsum", "javascript", "{"
# Of each pattern of the automaton: what it stands for.
LOREM_CODE, SCRIPT_CODE, CURLY_CODE, POLICY_CODE = 1, 2, 4, 8
HAS_BRACKET, HAS_CURLY, MAYBE_PHRASE = 1, 2, 4
ONE, TWO = np.uint64(1), np.uint64(2)
CITATIONS = (b"[edit]", b"[citation needed]")
# Places of what became of lines.
LONG_WORD, NO_STOP, FEW_WORDS, WITH_SCRIPT, WITH_POLICY, KEPT = range(6)


class Lines(NamedTuple):
    """n texts as the line rules leave them."""

    offsets: np.ndarray  # (n + 1,) int32 into data
    data: (
        np.ndarray
    )  # (bytes,) uint8: kept lines joined by \\n; of a text that was ended its first lines
    fates: np.ndarray  # (6, n) int64: lines by what became of them
    ended: np.ndarray  # (n,) int64: LOREM_CODE or CURLY_CODE where that ended the text


class Rules(NamedTuple):
    """Which rules apply, and their limits."""

    citations: bool
    stops: bool  # a line must end in . ? ! " or ', and not in ...
    least_words: int
    longest_word: int  # characters; negative: any
    codes: int  # of LOREM_CODE, SCRIPT_CODE, CURLY_CODE and POLICY_CODE those that are looked for


def _automaton() -> tuple[aho_corasick.Automaton, np.ndarray]:
    """The phrases, and the code of each.

    str.lower() makes a k of the Kelvin sign (U+212A) too; of no other letter one of these.
    """
    patterns: dict[bytes, int] = {
        LOREM.encode(): LOREM_CODE,
        SCRIPT.encode(): SCRIPT_CODE,
        CURLY.encode(): CURLY_CODE,
    }
    for phrase in POLICY:
        patterns[phrase.encode()] = POLICY_CODE
        patterns[phrase.replace("k", "\u212a").encode()] = POLICY_CODE
    found = aho_corasick.build(list(patterns), fold_ascii=True)
    codes = np.zeros(len(found.ends), np.int64)
    values = list(patterns.values())
    for state in range(len(codes)):
        at = state
        while found.ends[at]:
            codes[state] |= values[found.ends[at] - 1]
            at = int(found.also[at])
            if not at:
                break
    return found, codes


@helper
def _citation(data, at, stop, edit, needed, sign_index, sign_pages):
    r"""Where the citation that starts at a `[` stops; `at` itself: it is none.
    `\[\d*]|\[edit]|\[citation needed]`.
    """
    place = at + 1
    while place < stop:
        width = width_of(data[place])
        if not sign_of(code_point(data, place, width), sign_index, sign_pages) & DECIMAL:
            break
        place += width
    if place < stop and data[place] == 0x5D:
        return place + 1
    for word in (edit, needed):
        if at + len(word) <= stop:
            same = True
            for k in range(len(word)):
                if data[at + k] != word[k]:
                    same = False
                    break
            if same:
                return at + len(word)
    return at


@helper
def _scan(data, begin, end, tail):
    """What a line may hold: HAS_BRACKET, HAS_CURLY, and MAYBE_PHRASE, without which it holds none
    of the phrases.

    Each phrase has three letters one after another that are rare elsewhere, or the Kelvin sign in
    their place. Blocks of 64 bytes overlap by two.
    """
    found = np.int64(0)
    at = begin
    while at < end:
        if at + 64 > len(data):
            copy_tail(data, at, end, tail)
        block = block_of(data, at, tail)
        valid = valid_in(at, end)
        if mask_of_range(block, 0, 0x5B, 0) & valid:
            found |= HAS_BRACKET
        if mask_of_range(block, 0, 0x7B, 0) & valid:
            found |= HAS_CURLY
        m = mask_of_letter(block, 0, 0x6D)
        s = mask_of_letter(block, 0, 0x73)
        phrase = mask_of_letter(block, 0, 0x6B) & (
            mask_of_letter(block, 0, 0x69) >> ONE
        )  # kie: cookie
        phrase &= mask_of_letter(block, 0, 0x65) >> TWO
        phrase |= mask_of_letter(block, 0, 0x6A) & (
            mask_of_letter(block, 0, 0x61) >> ONE
        )  # ja: javascript
        phrase |= mask_of_letter(block, 0, 0x72) & (m >> ONE) & (s >> TWO)  # rms: terms
        phrase |= (
            mask_of_letter(block, 0, 0x70) & (s >> ONE) & (mask_of_letter(block, 0, 0x75) >> TWO)
        )  # psu: ipsum
        phrase |= (
            mask_of_letter(block, 0, 0x76)
            & (mask_of_letter(block, 0, 0x61) >> ONE)
            & (mask_of_letter(block, 0, 0x63) >> TWO)
        )  # vac: privacy
        phrase |= mask_of_range(block, 0, 0x84, 0) & (
            mask_of_range(block, 0, 0xAA, 0) >> ONE
        )  # of U+212A
        if phrase & valid:
            found |= MAYBE_PHRASE
        at += 62
    return found


@kernel(
    OFFSETS,
    BYTES,
    INT64S,
    INT32S,
    INT32S,
    INT64S,
    INT32S,
    types.boolean,
    types.boolean,
    types.int64,
    types.int64,
    types.int64,
    BYTES,
    types.int64,
    INT32S,
    INT64S,
    BYTES,
    BYTES,
    BYTES,
    BYTES,
    types.uint8[::1],
    types.int32[::1],
    types.uint8[::1],
    types.int64[:, ::1],
    types.int64[::1],
)
def _cut(
    offsets,
    data,
    word_offsets,
    starts,
    stops,
    line_offsets,
    line_stops,
    citations,
    need_stop,
    least_words,
    longest_word,
    wanted,
    classes,
    width,
    moves,
    codes,
    edit,
    needed,
    sign_index,
    sign_pages,
    tail,
    out_offsets,
    out,
    fates,
    ended,
):
    to = np.int64(0)
    fates[:] = 0
    for i in range(len(offsets) - 1):
        out_offsets[i] = to
        ended[i] = 0
        word = word_offsets[i]
        last_word = word_offsets[i + 1]
        kept = np.int64(0)
        for line in range(line_offsets[i], line_offsets[i + 1]):
            # A stripped line reaches from its first word to its last: lines end in white space, so
            # that no word crosses them.
            first = word
            too_long = False
            while word < last_word and starts[word] < line_stops[line]:
                if longest_word >= 0 and stops[word] - starts[word] > longest_word:
                    too_long |= (
                        count_characters(data, np.int64(starts[word]), np.int64(stops[word]))
                        > longest_word
                    )
                word += 1
            if too_long:
                fates[LONG_WORD, i] += 1
                continue
            begin = to + (kept > 0)
            stop = begin
            state = np.int64(0)
            found = np.int64(0)
            if word > first:
                at = np.int64(starts[first])
                end = np.int64(stops[word - 1])
                seen = _scan(data, at, end, tail)
                if not seen & MAYBE_PHRASE and not (seen & HAS_BRACKET and citations):
                    if seen & HAS_CURLY:
                        found = CURLY_CODE
                    for k in range(0, end - at, 8):
                        store_u64(out, stop + k, load_up_to_8(data, at + k, end - at - k))
                    stop += end - at
                    at = end
                while at < end:
                    byte = data[at]
                    if byte == 0x5B and citations:
                        behind = _citation(data, at, end, edit, needed, sign_index, sign_pages)
                        if behind > at:
                            at = behind
                            continue
                    state = np.int64(moves[state * width + classes[byte]])
                    found |= codes[state]
                    out[stop] = byte
                    stop += 1
                    at += 1
            if need_stop:
                last = out[stop - 1] if stop > begin else np.uint8(0)
                stopped = (
                    last == 0x2E or last == 0x3F or last == 0x21 or last == 0x22 or last == 0x27
                )
                if (
                    last == 0x2E
                    and stop - begin >= 3
                    and out[stop - 2] == 0x2E
                    and out[stop - 3] == 0x2E
                ):
                    stopped = False
                if not stopped:
                    fates[NO_STOP, i] += 1
                    continue
            if word - first < least_words:
                fates[FEW_WORDS, i] += 1
                continue
            found &= wanted
            if found & LOREM_CODE:
                ended[i] = LOREM_CODE
                break
            if found & SCRIPT_CODE:
                fates[WITH_SCRIPT, i] += 1
                continue
            if found & CURLY_CODE:
                ended[i] = CURLY_CODE
                break
            if found & POLICY_CODE:
                fates[WITH_POLICY, i] += 1
                continue
            fates[KEPT, i] += 1
            if kept:
                out[to] = 0x0A
            kept += 1
            to = stop
    out_offsets[len(offsets) - 1] = to


def cut(offsets: np.ndarray, data: np.ndarray, bounds: Bounds, rules: Rules) -> Lines:
    """Apply the line rules to n texts, given their words and lines: offsets (n + 1,) int32 into
    data (bytes,) uint8.
    """
    texts = len(offsets) - 1
    out = np.empty(int(offsets[-1]) - int(offsets[0]) + len(bounds.line_stops) + 8, np.uint8)
    out_offsets = np.empty(texts + 1, np.int32)
    fates, ended = np.empty((6, texts), np.int64), np.empty(texts, np.int64)
    edit, needed = (np.frombuffer(word, np.uint8) for word in CITATIONS)
    _cut(
        offsets,
        data,
        bounds.word_offsets,
        bounds.starts,
        bounds.stops,
        bounds.line_offsets,
        bounds.line_stops,
        *rules,
        _PHRASES.classes,
        _PHRASES.width,
        _PHRASES.moves,
        _CODES,
        edit,
        needed,
        SIGN_INDEX,
        SIGN_PAGES,
        np.zeros(64, np.uint8),
        out_offsets,
        out,
        fates,
        ended,
    )
    return Lines(out_offsets, out[: out_offsets[-1]], fates, ended)


@helper
def _ends_sentence(data, start, stop, whole, sign_index, sign_pages):
    """Whether a word ends a sentence: it is such a sign, or (not `whole`) its last character is
    one, closing signs behind it aside.
    """
    at = stop
    while at > start:
        behind = at
        at -= 1
        while (data[at] & 0xC0) == 0x80:
            at -= 1
        sign = sign_of(code_point(data, at, behind - at), sign_index, sign_pages)
        if sign & SENTENCE:
            return at == start or not whole
        if whole or not sign & CATEGORY_P:
            return False
    return False


@helper
def _is_punctuation(data, start, stop, sign_index, sign_pages):
    """Whether all characters are of category P."""
    at = start
    while at < stop:
        width = width_of(data[at])
        if not sign_of(code_point(data, at, width), sign_index, sign_pages) & CATEGORY_P:
            return False
        at += width
    return True


@kernel(
    BYTES, INT64S, INT32S, INT32S, INT64S, INT32S, types.boolean, BYTES, BYTES, types.int64[::1]
)
def _count_sentences(
    data,
    word_offsets,
    starts,
    stops,
    line_offsets,
    line_stops,
    whole,
    sign_index,
    sign_pages,
    sentences,
):
    for i in range(len(word_offsets) - 1):
        word = word_offsets[i]
        count = np.int64(0)
        for line in range(line_offsets[i], line_offsets[i + 1]):
            count += 1
            ended = False
            while word < word_offsets[i + 1] and starts[word] < line_stops[line]:
                start = np.int64(starts[word])
                stop = np.int64(stops[word])
                if ended and not _is_punctuation(data, start, stop, sign_index, sign_pages):
                    count += 1
                    ended = False
                ended = ended or _ends_sentence(data, start, stop, whole, sign_index, sign_pages)
                word += 1
        sentences[i] = count


def count_sentences(data: np.ndarray, bounds: Bounds, *, whole_words: bool) -> np.ndarray:
    """The sentences of n texts, (n,) int64: each line has one at least, and one more for each word
    behind an end.

    A word ends a sentence if its last character, closing signs aside, is one of SENTENCE
    (kernels.unicode.tables). `whole_words` is for words by a tokenizer that gives such signs as
    words of their own (spaCy's sentencizer's rule). Words that are signs alone start none.
    """
    sentences = np.empty(len(bounds.word_offsets) - 1, np.int64)
    words = (bounds.word_offsets, bounds.starts, bounds.stops)
    _count_sentences(
        data,
        *words,
        bounds.line_offsets,
        bounds.line_stops,
        whole_words,
        SIGN_INDEX,
        SIGN_PAGES,
        sentences,
    )
    return sentences


_PHRASES, _CODES = _automaton()

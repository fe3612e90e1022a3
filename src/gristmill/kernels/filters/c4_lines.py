"""C4's line rules: which lines of every text stay, rewritten without citations, and what ends a
text at once.

The order of the checks of a line is that of the C4 code (c4_utils.py of TensorFlow Datasets), as
datatrove has it: a word too long; citations go; the last character; too few words; `lorem ipsum`
ends the text; `javascript`; `{` ends the text; a policy's phrase.
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, Int64Rows, Int64s
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
from gristmill.kernels.text.words import WordBounds
from gristmill.kernels.unicode.tables import (
    DECIMAL,
    SIGNS,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
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


class KeptLines(NamedTuple):
    """n texts as the line rules leave them."""

    offsets: Int32s  # (n + 1,) into data
    data: Bytes  # kept lines joined by \\n; of a text that was ended its first lines
    fates: Int64Rows  # (6, n): lines by what became of them
    ended: Int64s  # (n,): LOREM_CODE or CURLY_CODE where that ended the text


class C4Rules(NamedTuple):
    """Which rules apply, and their limits."""

    citations: bool
    stops: bool  # a line must end in . ? ! " or ', and not in ...
    least_words: int
    longest_word: int  # characters; negative: any
    codes: int  # of LOREM_CODE, SCRIPT_CODE, CURLY_CODE and POLICY_CODE those that are looked for


class Phrases(NamedTuple):
    """The automaton of all phrases as the kernel reads it, and the two citations."""

    classes: Bytes
    width: int
    moves: Int32s
    codes: Int64s  # of each state what stands for the phrases that end there
    edit: Bytes
    needed: Bytes


def _phrases() -> Phrases:
    """Return the phrases, and the code of each.

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
    edit, needed = (np.array(list(word), np.uint8) for word in CITATIONS)
    return Phrases(found.classes, found.width, found.moves, codes, edit, needed)


_PHRASES = _phrases()


@helper
def _citation(data, at, stop, phrases, signs):
    r"""Return where the citation that starts at a `[` stops; `at` itself: it is none.
    `\[\d*]|\[edit]|\[citation needed]`.
    """
    place = at + 1
    while place < stop:
        width = lead_width(data[place])
        if not unicode_bits(code_point(data, place, width), signs) & DECIMAL:
            break
        place += width
    if place < stop and data[place] == 0x5D:
        return place + 1
    for word in (phrases.edit, phrases.needed):
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
    """Return what a line may hold: HAS_BRACKET, HAS_CURLY, and MAYBE_PHRASE, without which it holds
    none of the phrases.

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


@helper
def _ends_line(out, begin, stop):
    """Return whether a line's last character ends a sentence, and is no ellipsis's."""
    last = out[stop - 1] if stop > begin else np.uint8(0)
    if last == 0x2E and stop - begin >= 3 and out[stop - 2] == 0x2E and out[stop - 3] == 0x2E:
        return False
    return last == 0x2E or last == 0x3F or last == 0x21 or last == 0x22 or last == 0x27


@kernel(OFFSETS, BYTES, WordBounds, C4Rules, Phrases, PointBits, Bytes, KeptLines)
def _cut(offsets, data, bounds, rules, phrases, signs, tail, kept_lines):
    word_offsets, starts, stops = bounds.word_offsets, bounds.starts, bounds.stops
    line_offsets, line_stops = bounds.line_offsets, bounds.line_stops
    longest_word, moves, codes = rules.longest_word, phrases.moves, phrases.codes
    out_offsets, out, fates, ended = kept_lines
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
                if not seen & MAYBE_PHRASE and not (seen & HAS_BRACKET and rules.citations):
                    if seen & HAS_CURLY:
                        found = CURLY_CODE
                    for k in range(0, end - at, 8):
                        store_u64(out, stop + k, load_up_to_8(data, at + k, end - at - k))
                    stop += end - at
                    at = end
                while at < end:
                    byte = data[at]
                    if byte == 0x5B and rules.citations:
                        behind = _citation(data, at, end, phrases, signs)
                        if behind > at:
                            at = behind
                            continue
                    state = np.int64(moves[state * phrases.width + phrases.classes[byte]])
                    found |= codes[state]
                    out[stop] = byte
                    stop += 1
                    at += 1
            if rules.stops and not _ends_line(out, begin, stop):
                fates[NO_STOP, i] += 1
                continue
            if word - first < rules.least_words:
                fates[FEW_WORDS, i] += 1
                continue
            found &= rules.codes
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


def cut(offsets: np.ndarray, data: np.ndarray, bounds: WordBounds, rules: C4Rules) -> KeptLines:
    """Apply the line rules to n texts, given their words and lines: offsets (n + 1,) int32 into
    data (bytes,) uint8.
    """
    texts = len(offsets) - 1
    most = int(offsets[-1]) - int(offsets[0]) + len(bounds.line_stops) + 8
    found = KeptLines(
        np.empty(texts + 1, np.int32),
        np.empty(most, np.uint8),
        np.empty((6, texts), np.int64),
        np.empty(texts, np.int64),
    )
    _cut(offsets, data, bounds, rules, _PHRASES, SIGNS, np.zeros(64, np.uint8), found)
    return found._replace(data=found.data[: found.offsets[-1]])

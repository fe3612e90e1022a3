"""Slow twins: what every kernel does, said again on Python's own strings, integers and sets,
sharing no code with them.

A twin has the name of its kernel's wrapper and takes texts where that takes buffers.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import regex

MASK_32 = (1 << 32) - 1
MASK_64 = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
FNV_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3

UNSPACED = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}"
    r"\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}]"
)
PIECE = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


# kernels.text.words


class Bounds(NamedTuple):
    """The words and lines of one text; positions are bytes of the text itself."""

    words: list[str]
    starts: list[int]
    stops: list[int]
    lines: list[str]
    line_stops: list[int]
    characters: int
    word_characters: int


def find(text: str) -> Bounds:
    """Words by str.split, lines by str.splitlines."""
    words = text.split()
    starts, stops, at, byte = [], [], 0, 0
    for word in words:
        begin = text.index(word, at)
        byte += len(text[at:begin].encode())
        starts.append(byte)
        byte += len(word.encode())
        stops.append(byte)
        at = begin + len(word)
    lines = text.splitlines()
    line_stops, byte = [], 0
    for line, with_break in zip(lines, text.splitlines(keepends=True), strict=True):
        line_stops.append(byte + len(line.encode()))
        byte += len(with_break.encode())
    return Bounds(words, starts, stops, lines, line_stops, len(text), sum(map(len, words)))


# kernels.filters.gopher_lines


class Counts(NamedTuple):
    """What Gopher's rules are made of, of one text."""

    bullets: int
    ellipses: int
    top_2_gram: int
    top_3_gram: int


def count(text: str, *, most_words: int) -> Counts:
    """Lines by their first and last characters, n-grams by a Counter."""
    words, lines = text.split(), text.splitlines()
    tops = []
    for size in (2, 3):
        grams = Counter(zip(*(words[k:] for k in range(size)), strict=False))
        tops.append(-1 if len(words) > most_words else max(grams.values(), default=0))
    bullets = sum(line.lstrip().startswith(("•", "-", "*")) for line in lines)
    return Counts(bullets, sum(line.rstrip().endswith(("...", "…")) for line in lines), *tops)


# kernels.filters.gopher_quality


def count_signs(text: str) -> tuple[int, int]:
    """`#`; and ellipses of either form."""
    return text.count("#"), text.count("...") + text.count("…")


# kernels.unicode.normalised


def normalise(text: str) -> str:
    """Lower case a character at a time, signs and white space to gaps, unspaced scripts a word a
    character.
    """
    out = []
    for character in text:
        if character.isspace() or unicodedata.category(character)[0] in "PS":
            out.append(" ")
        elif UNSPACED.match(character):
            out.append(f" {character.lower()[0]} ")
        else:
            out.append(character.lower()[0])
    return " ".join("".join(out).split())


def locate(text: str) -> list[tuple[int, int]]:
    """Where the normalised text's words stand in the text, in bytes: letters between gaps, unspaced
    scripts a word a character.
    """
    out, at, begin = [], 0, None
    for character in text:
        size = len(character.encode())
        gap = character.isspace() or unicodedata.category(character)[0] in "PS"
        alone = not gap and UNSPACED.match(character)
        if (gap or alone) and begin is not None:
            out.append((begin, at))
            begin = None
        if alone:
            out.append((at, at + size))
        elif not gap and begin is None:
            begin = at
        at += size
    return out if begin is None else [*out, (begin, at)]


# kernels.decontaminate.contexts


def cut(text: str, at: int, before: int, most: int) -> str:
    """`most` characters of a text, of which `before` stand before a place."""
    return text[max(at - before, 0) :][:most]


# kernels.decontaminate.labels


def blank(text: str) -> str:
    """Each letter, and one or two digits, that stands as a label between its neighbours becomes
    blanks.
    """
    out = list(text)
    for run in re.finditer("[A-Za-z0-9]+", text):
        if not re.fullmatch("[A-Za-z]|[0-9]{1,2}", run[0]):
            continue
        before, behind = text[: run.start()], text[run.end() :]
        if before[-1:] + behind[:1] == "（）":
            label = True
        elif before[-1:] + behind[:1] in ("()", "[]"):
            label = _stands_behind(before[:-1]) and _stands_before(behind[1:])
        elif behind[:1] in set("．）：、"):
            label = _stands_behind(before)
        else:
            label = (
                behind[:1] in set(".):]") and _stands_behind(before) and _stands_before(behind[1:])
            )
        if label:
            out[run.start() : run.end()] = " " * len(run[0])
    return "".join(out)


def _stands_behind(text: str) -> bool:
    last = text[-1:]
    wide = not last.isascii() and (
        unicodedata.category(last)[0] in "PS" or UNSPACED.match(last) is not None
    )
    return last in ("", "*", "_") or last.isspace() or wide


def _stands_before(text: str) -> bool:
    return text[:1] in ("", "*", "_") or text[:1].isspace()


# kernels.hashing.minhash


def mix(value: int) -> int:
    """MurmurHash3's finaliser."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & MASK_64
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & MASK_64
    return value ^ (value >> 33)


def hash_word(word: str) -> int:
    """FNV-1a of the word's bytes, mixed."""
    value = FNV_BASIS
    for byte in word.encode():
        value = ((value ^ byte) * FNV_PRIME) & MASK_64
    return mix(value)


def hash_shingles(text: str, width: int, characters: bool = False) -> list[int]:
    """Each shingle's hash from nothing, by Horner's rule: no rolling."""
    words = [hash_word(word) for word in (text if characters else text.split(" "))] if text else []
    out = []
    for start in range(max(len(words) - width, 0) + 1 if words else 0):
        shingle = words[start : start + width]
        polynomial = 0
        for word in shingle:
            polynomial = (polynomial * STEP + word) & MASK_64
        out.append(mix((polynomial + len(shingle)) & MASK_64))
    return out


def permutations(count: int, seed: int) -> tuple[list[int], list[int]]:
    """The top halves of splitmix64's numbers: odd multipliers first, then addends."""
    state, halves = (seed * STEP + 0x6A09E667F3BCC909) & MASK_64, []
    while len(halves) < 2 * count:
        state = (state + STEP) & MASK_64
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK_64
        halves.append((word ^ (word >> 31)) >> 32)
    return [half | 1 for half in halves[:count]], halves[count:]


def sign(
    text: str,
    *,
    width: int,
    multipliers: Sequence[int],
    addends: Sequence[int],
    characters: bool = False,
) -> tuple[list[int], int]:
    """The least of a * x + b for each pair of a and b, and how many shingles there are."""
    tops = [value >> 32 for value in hash_shingles(text, width, characters)]
    pairs = zip(multipliers, addends, strict=True)
    return [min(((a * x + b) & MASK_32 for x in tops), default=MASK_32) for a, b in pairs], len(
        tops
    )


def band_keys(signature: Sequence[int], scope: int, *, bands: int, rows: int) -> list[int]:
    """A key for each band of one signature, as signed numbers."""
    keys = []
    for band in range(bands):
        key = mix((scope * STEP + band + 1) & MASK_64)
        for value in signature[band * rows : (band + 1) * rows]:
            key = ((key ^ value) * FNV_PRIME) & MASK_64
            key ^= key >> 29
        key = mix(key)
        keys.append(key - (1 << 64) if key >> 63 else key)
    return keys


def keep_distinct(values: Iterable[int]) -> list[int]:
    """Distinct values in order of appearance."""
    return list(dict.fromkeys(values))


def distinct_shingles(text: str, *, width: int, characters: bool = False) -> list[int]:
    """The set of a text's shingle hashes, in order of appearance."""
    return keep_distinct(hash_shingles(text, width, characters))


# kernels.decontaminate.items and kernels.decontaminate.overlap


def ngrams_of(text: str, width: int) -> dict[tuple[str, ...], int]:
    """The distinct n-grams of a normalised text, in order, each with the word where it first
    starts; of a shorter text all its words.
    """
    words = text.split()
    out: dict[tuple[str, ...], int] = {}
    size = min(width, len(words))
    for start in range(len(words) - size + 1 if size > 1 else 0):
        out.setdefault(tuple(words[start : start + size]), start)
    return out


def build(
    parts: Sequence[str], item_of: Sequence[int], *, width: int, most: int
) -> set[tuple[str, ...]]:
    """The n-grams that stand in more than `most` items; of items whose first parts have the same
    n-grams one counts.
    """
    kinds, counts = {}, Counter()
    for item in sorted(set(item_of)):
        own = [
            list(ngrams_of(part, width))
            for part, of in zip(parts, item_of, strict=True)
            if of == item
        ]
        if kinds.setdefault(tuple(own[0]), item) == item:
            counts.update({ngram for ngrams in own for ngram in ngrams})
    return {ngram for ngram, count in counts.items() if most and count > most}


class Overlap(NamedTuple):
    """What one document holds of parts: rows are (part, n-grams found, first word, last word),
    those n-grams in the part's order.
    """

    overlap: float
    items: int
    words: int
    rows: list[tuple[int, int, int, int]]
    hits: list[list[tuple[str, ...]]]


def find_overlap(
    text: str,
    parts: Sequence[str],
    item_of: Sequence[int],
    *,
    width: int,
    floor: float,
    aside: Collection[tuple[str, ...]] = (),
) -> Overlap:
    """Sets of tuples of words: what of each part's n-grams is among the document's, at every width
    that the part has; `aside` count nowhere.
    """
    words = text.split()
    best, items, rows, hits = 0.0, set(), [], []
    for number, part in enumerate(parts):
        wanted = [ngram for ngram in ngrams_of(part, width) if ngram not in aside]
        if not wanted:
            continue
        size = len(next(iter(wanted)))
        held: dict[tuple[str, ...], int] = {}
        for start in range(len(words) - size + 1):
            held.setdefault(tuple(words[start : start + size]), start)
        there = [ngram for ngram in wanted if ngram in held]
        if there:
            share = len(there) / len(wanted)
            best = max(best, share)
            items.add(item_of[number])
            if share >= floor:
                starts = [held[ngram] for ngram in there]
                rows.append((number, len(there), min(starts), max(starts) + size - 1))
                hits.append(there)
    return Overlap(best, len(items), len(words), rows, hits)


def hits_of(overlap: Overlap) -> list[list[tuple[str, ...]]]:
    """The n-grams of each row."""
    return overlap.hits


# kernels.hashing.band_keys


def split(
    keys: Sequence[Sequence[int]], numbers: Sequence[int], *, bits: int
) -> list[list[tuple[int, int]]]:
    """Keys and their rows' numbers by the keys' first bits, in the order that they came in."""
    every = [(key, number) for number, of_one in zip(numbers, keys, strict=True) for key in of_one]
    return [[pair for pair in every if pair[0] >> (64 - bits) == part] for part in range(1 << bits)]


# kernels.hashing.pairs


def agreement(left: Sequence[int], right: Sequence[int]) -> int:
    """In how many places two signatures agree."""
    return sum(a == b for a, b in zip(left, right, strict=True))


def jaccard(left: Iterable[int], right: Iterable[int]) -> float:
    """Shared over all; 0 for two empty sets."""
    one, other = set(left), set(right)
    return len(one & other) / len(one | other) if one | other else 0.0


def decide(
    count: int, similarities: dict[tuple[int, int], float], *, threshold: float
) -> tuple[list[int], list[float]]:
    """Each document in turn: of earlier ones that stay and are like enough, the most like; of
    equals the earliest.
    """
    keepers, kept = [-1] * count, [0.0] * count
    for document in range(count):
        near = [
            (similarities[document, other], -other)
            for other in range(document)
            if keepers[other] == -1 and similarities.get((document, other), -1.0) >= threshold
        ]
        if near:
            kept[document], least = max(near)
            keepers[document] = -least
    return keepers, kept


def connect(
    count: int, similarities: dict[tuple[int, int], float], *, threshold: float
) -> tuple[list[int], list[float]]:
    """components: of each row the earliest that a path of like pairs leads to; and the most that it
    is like any other.
    """
    alike: dict[int, dict[int, float]] = {row: {} for row in range(count)}
    for (row, other), similarity in similarities.items():
        if similarity >= threshold:
            alike[row][other] = alike[other][row] = similarity
    earliest = []
    for row in range(count):
        seen, waiting = {row}, [row]
        while waiting:
            new = alike[waiting.pop()].keys() - seen
            seen |= new
            waiting += new
        earliest.append(min(seen))
    return earliest, [max(alike[row].values(), default=0.0) for row in range(count)]


class Repeated:
    """Which keys share their low bits with another: 8 places a key, at least 2^16."""

    def __init__(self, keys: int) -> None:
        self._places = 1 << 16
        while self._places < 8 * keys:
            self._places *= 2
        self._seen: Counter[int] = Counter()

    def add(self, keys: Iterable[int]) -> None:
        """Count keys."""
        self._seen.update(key % self._places for key in keys)

    def mask(self, keys: Iterable[int]) -> list[bool]:
        """Say of each key whether its place was met twice."""
        return [self._seen[key % self._places] > 1 for key in keys]


# kernels.bpe.merges and kernels.bpe.encoder


class Merges(NamedTuple):
    """Token numbers, and for each pair of tokens' bytes (rank, what they become)."""

    numbers: dict[bytes, int]
    pairs: dict[tuple[bytes, bytes], tuple[int, bytes]]
    whole: bool


def merges_of_ranks(tokens: list[bytes]) -> Merges:
    """tiktoken's rule: two tokens merge where their bytes together are a token, of that token's
    rank.
    """
    numbers = {token: number for number, token in enumerate(tokens)}
    pairs = {}
    for token, number in numbers.items():
        for cut in range(1, len(token)):
            if token[:cut] in numbers and token[cut:] in numbers:
                pairs[token[:cut], token[cut:]] = (number, token)
    return Merges(numbers, pairs, whole=True)


def merges_of_list(
    tokens: list[bytes], merges: list[tuple[int, int, int]], *, whole: bool
) -> Merges:
    """HF's rule: the list's merges and no others, the first in the list first."""
    numbers = {token: number for number, token in enumerate(tokens) if token}
    pairs: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
    for rank, (left, right, merged) in enumerate(merges):
        pairs.setdefault((tokens[left], tokens[right]), (rank, tokens[merged]))
    return Merges(numbers, pairs, whole)


class Encoder:
    """The textbook's greedy merging (Sennrich 2016) of the pieces that GPT-2's pattern finds;
    remembers nothing.
    """

    def __init__(self, merges: Merges) -> None:
        self._merges = merges

    def encode(self, text: str) -> list[int]:
        """The tokens of one text."""
        return [token for piece in PIECE.findall(text) for token in self.merge(piece.encode())]

    def merge(self, piece: bytes) -> list[int]:
        """Merge the pair of least rank, of equal ranks the leftmost, until none is left."""
        numbers, pairs, whole = self._merges
        if whole and piece in numbers:
            return [numbers[piece]]
        parts = [piece[k : k + 1] for k in range(len(piece))]
        while True:
            ranked = [
                (pairs[pair][0], at)
                for at, pair in enumerate(itertools.pairwise(parts))
                if pair in pairs
            ]
            if not ranked:
                return [numbers[part] for part in parts]
            _, at = min(ranked)
            parts[at : at + 2] = [pairs[parts[at], parts[at + 1]][1]]


# kernels.hashing.shuffle


def order_keys(documents: Iterable[int], key: int) -> list[int]:
    """Each document's number, mixed with the key."""
    return [mix((document & MASK_64) ^ key) for document in documents]


def gather(
    tokens: Sequence[int], starts: Sequence[int], stops: Sequence[int], order: Iterable[int]
) -> list[int]:
    """Runs of tokens, one after another."""
    return [token for i in order for token in tokens[starts[i] : stops[i]]]


# kernels.tokens.counts


def add_counts(tokens: Iterable[int], vocabulary: int) -> list[int]:
    """How often each token occurs; the last entry is for those outside the vocabulary."""
    found = Counter(min(token, vocabulary) for token in tokens)
    return [found[token] for token in range(vocabulary + 1)]


def add_counts_by_group(
    documents: Iterable[Sequence[int]], groups: Sequence[int], vocabulary: int, count: int
) -> list[list[int]]:
    """The same, for the documents of each group."""
    texts = list(zip(groups, documents, strict=True))
    return [
        add_counts((token for own, text in texts if own == group for token in text), vocabulary)
        for group in range(count)
    ]


# kernels.reading.file_pieces


def read_pieces(files: Sequence[bytes], pieces: Iterable[tuple[int, int, int]]) -> list[bytes]:
    """The bytes of each piece (file, start, size), up to the first that its file ends before."""
    found: list[bytes] = []
    for file, start, size in pieces:
        if size and start + size > len(files[file]):
            break
        found.append(files[file][start : start + size])
    return found


# Judging estimates


def standard_error(similarity: float, permutations: int) -> float:
    """Of an estimate by so many independent permutations: a binomial share's."""
    share = Fraction(similarity)
    return float(share * (1 - share) / permutations) ** 0.5


def predict(model: object, text: str, characters: int) -> tuple[str | None, float]:
    """fasttext.predict's twin is the library itself (tests/filters/models/test_fasttext.py): label
    and score of the first characters.
    """
    labels, scores = model.predict(text.replace("\n", " ")[:characters])  # type: ignore[attr-defined]
    return (labels[0].removeprefix("__label__"), scores[0]) if labels else (None, 0.0)


def composing_seconds() -> set[str]:
    """The code points that are the second of a pair that composes."""
    found = {*map(chr, range(0x1161, 0x1176)), *map(chr, range(0x11A8, 0x11C3))}
    for character in map(chr, range(0x110000)):
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", pair) == character:
                found.add(pair[1])
    return found

"""Personal data, redacted: what names or reaches a person is removed, and a placeholder takes
its place. No document is dropped.

    email   an address whose last label is a top-level domain of the public suffix list; not those
            for examples (RFC 2606)
    ip      public IPv4 and IPv6 addresses; what IANA's registries call private, reserved or special
            stays, and versions and sections' numbers do
    ssn     US social security numbers, AAA-GG-SSSS
    card    card numbers: issuer, length and Luhn
    iban    IBANs: country, length, kinds of characters and modulo 97
    phone   phone numbers, checked by `phonenumbers`: with a `+`, or as they are dialled in one of
            `regions`

email_addresses.py, ip_addresses.py, cards.py, ibans.py and phones.py have the rules
(`rules = "gristmill"`). `addresses = "all"` takes whatever has the form of an address (example.com,
192.168.1.1, a version of four numbers); `phone_check = "possible"` whatever has as many digits as
numbers have in one of `regions`, in one run too. `rules = "datatrove"` finds what datatrove
0.10.1's PIIFormatter does, `email` and `ip` alone, as FineWeb did.

`placeholder` is "typed" (<EMAIL>, <IP>, ...), your own words in brackets or bars ("[redacted]",
"|||GONE|||"), or "datatrove": the n-th address of a document becomes the n-th of PIIFormatter's
list, and then the first again; what has no list is typed. It depends on the document alone, where
PIIFormatter counts on through all that a process sees, so that its output depends on their order.
`placeholders` names one for single kinds, and goes before `placeholder`.

`names` asks a model for names of people as well (filters/pii/names.py), on the text that is already
redacted; they become <NAME>.

Redacting twice is redacting once, with gristmill's rules and without names, where no two finds
touch: what is next to a number decides by the same rule from both sides, and placeholders in
brackets join nothing. Of two without a space between, the first pass may take one. With
datatrove's, an address joined to a letter beyond ASCII may be found only once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Inputs, Measured, Step, keep_all
from gristmill.filters.lists.domains import Suffixes
from gristmill.filters.pii import names as people
from gristmill.filters.pii import phone_numbers
from gristmill.filters.pii.alone import Finder, PiiSpan

SUFFIXES = "package:tldextract/.tld_set_snapshot"
PHONES = "version:phonenumbers"
# passes over a text in which something was found, at most: hostile text may show one find a pass
ROUNDS = 8
MOST_BYTES = 1 << 31  # of the texts of a batch
THEIRS = ("email", "ip")  # the kinds that datatrove knows
# The addresses that PIIFormatter puts (datatrove 0.10.1): examples of RFC 2606, and addresses that
# answered no ping.
LISTS = {
    "email": ("email@example.com", "firstname.lastname@example.org"),
    "ip": (
        "22.214.171.124",
        "126.96.36.199",
        "188.8.131.52",
        "184.108.40.206",
        "220.127.116.11",
        "18.104.22.168",
    ),
}
# Nothing is read over these signs (ip_addresses.py), and nothing that is found has one.
_BRACKETED = re.compile(r"[<\[{|]{1,4}[A-Za-z _-]{1,64}[>\]}|]{1,4}")

Kind = Literal["email", "phone", "ssn", "ip", "card", "iban"]
Replaced = Literal["email", "phone", "ssn", "ip", "card", "iban", "name"]

DEFAULT: tuple[Kind, ...] = ("email", "phone", "ssn", "ip", "card", "iban")


class NameModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that finds names of people."""

    model: str  # A zipped spaCy pipeline, by path or URL.
    # The labels of its entities that are names of people.
    labels: Annotated[list[str], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: ["PERSON", "PER"]
    )


class Private(Step, frozen=True, kw_only=True):
    """Redact personal data.

    docs/private.md says what is found. Origin: datatrove's PIIFormatter; presidio.
    """

    name: ClassVar[str] = "private"
    version: ClassVar[int] = 5
    redacts: ClassVar[bool] = True
    example: ClassVar[str] = 'kinds = ["email", "ip"]\nafter_dedup = true'
    reasons: ClassVar[Mapping[str, str]] = {"empty": "No text is left."}
    measures: ClassVar[Mapping[str, str]] = {
        "emails": "E-mail addresses that were redacted.",
        "phones": "Phone numbers that were redacted.",
        "ssns": "US social security numbers that were redacted.",
        "ips": "IP addresses that were redacted.",
        "cards": "Card numbers that were redacted.",
        "ibans": "IBANs that were redacted.",
        "names": "Names of people that were redacted, with `names`.",
    }

    # What is redacted.
    kinds: Annotated[list[Kind], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: list(DEFAULT)
    )
    # What is put in its place: `typed` (`<EMAIL>`), `datatrove`, or letters in brackets or bars
    # such as `[redacted]`.
    placeholder: str = "typed"
    # Of single kinds what is put in their place.
    placeholders: dict[Replaced, str] = msgspec.field(default_factory=dict)
    # `datatrove` finds e-mail and IP addresses alone, as FineWeb did.
    rules: Literal["gristmill", "datatrove"] = "gristmill"
    # Countries (`US`, `DE`) whose phone numbers are found without a `+` too.
    regions: list[str] = msgspec.field(default_factory=list)
    # Whether a number without a `+` must be assigned, or only as long as numbers are.
    phone_check: Literal["valid", "possible"] = "valid"
    # With `all` also addresses for examples, private networks and versions of four numbers.
    addresses: Literal["public", "all"] = "public"
    names: NameModel | None = None  # A model that finds names of people. Needs `gristmill[ner]`.
    # Redact after deduplication: `documents/` then holds texts that are not redacted.
    after_dedup: bool = False

    def __post_init__(self) -> None:
        if self.placeholder not in ("typed", "datatrove"):
            _check_word("placeholder", self.placeholder, '"typed", "datatrove", or ')
        for kind, word in self.placeholders.items():
            _check_word(f"placeholders.{kind}", word)
        unused = sorted(set(self.placeholders) - {*self.kinds, *(["name"] if self.names else [])})
        if unused:
            raise ValueError(
                f"placeholders has {unused[0]!r}, which "
                f"{'needs `names`' if unused[0] == 'name' else '`kinds` has not'}"
            )
        if self.rules == "datatrove" and not set(self.kinds) <= set(THEIRS):
            raise ValueError('rules = "datatrove" knows kinds = ["email", "ip"] alone')
        if self.rules == "datatrove" and self.addresses != "public":
            raise ValueError('addresses = "all" is for rules = "gristmill"')
        if self.regions and "phone" not in self.kinds:
            raise ValueError('regions are for phone numbers, and `kinds` has no "phone"')
        if self.phone_check == "possible" and not self.regions:
            raise ValueError(
                'phone_check = "possible" is for numbers without a `+`: `regions` says whose'
            )

    def inputs(self) -> dict[str, str]:
        named = {}
        if self.rules == "gristmill" and "email" in self.kinds:
            named["private.suffixes"] = SUFFIXES
        if "phone" in self.kinds:
            named["private.phonenumbers"] = PHONES
        if self.names is not None:
            named["private.names.spacy"] = "version:spacy"
            named["private.names.model"] = self.names.model
        return named

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        find, shape = self._finder(inputs)
        find_names = (
            None if self.names is None else people.load(inputs[self.names.model], self.names.labels)
        )
        return lambda batch: self._measure(find, shape, find_names, batch["text"])

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        return keep_all(len(next(iter(measures.values()))))

    def _finder(self, inputs: Inputs) -> tuple[Finder, str]:
        """Return what finds spans in a text, and a pattern for RE2: what has no match has no
        span.
        """
        from gristmill.filters.pii import as_datatrove, spans

        kinds = frozenset(self.kinds)
        if self.rules == "datatrove":
            return lambda text: as_datatrove.find(text, kinds), as_datatrove.shape(kinds)
        possible = self.phone_check == "possible"
        asked = bool(self.regions) + possible
        try:
            valid = tuple(
                phone_numbers.judge(self.regions, possible=possible, called=called)
                for called in (False, True)
                if "phone" in kinds
            )
        except ValueError as error:
            raise RecipeError(f"private.regions: {error}") from error
        find = spans.finder(
            kinds,
            _domains(inputs) if "email" in kinds else frozenset(),
            every=self.addresses == "all",
            asked=asked,
            valid=valid,
        )
        return find, spans.shape(kinds, asked)

    def _measure(
        self, find: Finder, shape: str, find_names: people.Find | None, texts: pa.Array
    ) -> Measured:
        counts = {f"{kind}s": np.zeros(len(texts), np.int64) for kind in self.kinds}
        changed, others = np.zeros(len(texts), bool), []
        for row in np.flatnonzero(pc.match_substring_regex(texts, shape)).tolist():
            text, numbers = self._redact(find, texts[row].as_py())
            if numbers:
                changed[row] = True
                others.append(text)
            for kind, number in numbers.items():
                counts[f"{kind}s"][row] = number
        texts = _replace(texts, pa.array(changed), others)
        if find_names is not None:
            word = self.placeholders.get(
                "name", "<NAME>" if self.placeholder in ("typed", "datatrove") else self.placeholder
            )
            texts, counts["names"] = _without_names(texts, find_names, word)
        return Measured({name: pa.array(count) for name, count in counts.items()}, text=texts)

    def _redact(self, find: Finder, text: str) -> tuple[str, Counter[str]]:
        """Return a text without what is found in it, and how much of each kind that was."""
        counts: Counter[str] = Counter()
        # Of two finds that touch the first pass may take one, and show the other. Addresses of
        # datatrove's would be found again.
        again = self.rules == "gristmill" and self.placeholder != "datatrove"
        for _ in range(1 + ROUNDS if again else 1):
            spans = find(text)
            if not spans:
                break
            counts.update(span.kind for span in spans)
            text = _with_words(text, spans, self._words(spans))
        return text, counts

    def _words(self, spans: list[PiiSpan]) -> Iterator[str]:
        """Yield what is put for each span of a document."""
        typed = self.placeholder in ("typed", "datatrove")
        turns = (
            {kind: cycle(words) for kind, words in LISTS.items()}
            if self.placeholder == "datatrove"
            else {}
        )
        for kind, _, _ in spans:
            if kind in self.placeholders:
                yield self.placeholders[kind]
            elif kind in turns:
                yield next(turns[kind])
            else:
                yield f"<{kind.upper()}>" if typed else self.placeholder


def _with_words(text: str, spans: list[PiiSpan], words: Iterator[str]) -> str:
    """Return a text with a word in place of each span."""
    parts, at = [], 0
    for (_, start, stop), word in zip(spans, words, strict=True):
        parts += [text[at:start], word]
        at = stop
    return "".join([*parts, text[at:]])


def _check_word(name: str, word: str, others: str = "") -> None:
    if not _BRACKETED.fullmatch(word):
        raise ValueError(
            f"{name} = {word!r}: expected {others}letters in brackets or bars such as "
            '"[redacted]" and "|||EMAIL_ADDRESS|||": '
            "anything else could become part of what stands next to it"
        )


def _domains(inputs: Inputs) -> frozenset[bytes]:
    """Return the top-level domains."""
    names = Suffixes(
        Path(inputs[SUFFIXES].path).read_bytes().decode("utf-8", "replace")
    ).top_level()
    if not names:
        raise RecipeError(f"private.suffixes: {inputs[SUFFIXES].name}: is no public suffix list")
    return frozenset(names)


def _replace(texts: pa.Array, rows: pa.Array, changed: list[str]) -> pa.Array:
    """Return texts (n,) with others in the rows (n,) bool.

    Raises RecipeError where they are more than 2 GiB together.
    """
    others = pa.array(changed, pa.string())
    size = sum(
        pc.sum(pc.binary_length(part)).as_py() or 0
        for part in (texts.filter(pc.invert(rows)), others)
    )
    if size >= MOST_BYTES:
        raise RecipeError(
            "private.placeholder: the texts of a batch grow beyond 2 GiB: take a shorter one"
        )
    return pc.replace_with_mask(texts, rows, others)


def _without_names(texts: pa.Array, find: people.Find, word: str) -> tuple[pa.Array, np.ndarray]:
    """Return texts with `word` for each name, and how many names each had, (n,)."""
    rows, counts = [], np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts.to_pylist()):
        parts, at = [], 0
        for start, stop in find(text):
            if re.search(r"[<\[{|][A-Z_ -]+[>\]}|]", text[max(0, start - 1) : stop + 1]):
                continue  # a placeholder is nobody's name
            parts += [text[at:start], word]
            at = stop
            counts[row] += 1
        rows.append("".join([*parts, text[at:]]))
    return pa.array(rows, pa.string()), counts

"""The rule of defaults: a key at its default is no part of a stored recipe, nor of a content key.

So a new key changes no digest of a recipe that does not set it, and a finished corpus stays
finished. What a default means must then never change: a key with another default is another key.

Recipes stored the keys of ALWAYS before there was the rule, and still do, or their digests would
change. The table is closed. A class of a user's own stores all its keys: the digest of its file is
in the same content keys.
"""

import inspect
from functools import cache
from typing import Any

import msgspec

# By class, the keys that are stored at their default too.
ALWAYS = {
    "Recipe": "seed step deduplicate tokens keep_documents keep_dropped samples measure",
    "Source": (
        "urls files commoncrawl paths base_url sample sha256sums kind text url priority licence "
        "limit max_document_bytes max_shard_bytes"
    ),
    "Deduplicate": (
        "url normal_urls tracking exact near lines substrings scope order against index "
        "largest_cluster"
    ),
    "Near": "shingle unit permutations bands rows threshold floor candidates keepers verify group",
    "FrequentLines": "keep unit least_characters",
    "Substrings": "bytes most keep boundary action",
    "TokenSettings": "end_of_text tokens_per_shard validation order",
    "Repeat": "otherwise",
    "Partition": "names otherwise most",
    "Signing": "shingle unit numbers signs form arabic_marks near_arabic_marks",
    "AssembleTask": "values",
    "DeduplicateTask": "cut",
    "TokenizeTask": "tokenizer_sha256 libraries end_of_text validation copies similar",
    "Fields": (
        "text url max_document_bytes max_shard_bytes pages keep_empty max_replaced keep_truncated "
        "columns"
    ),
    "Step": "sources",
    "WordStep": "words word_language",
    "Benchmark": "fields id kind columns unit",
    "C4": (
        "line_stops citations min_line_words longest_word lorem_ipsum javascript curly_bracket "
        "policy min_sentences bad_words bad_words_bounded"
    ),
    "Classifier": "label min_score max_score drop_lowest",
    "Decontaminate": (
        "ngram threshold floor least_words template_items arabic_marks similarity common"
    ),
    "Ensemble": "combine reverse buckets min_bucket",
    "Extract": (
        "rules favor format comments articles tables lists headings types min_type metadata links "
        "only_pages max_bytes max_depth"
    ),
    "FineWeb": (
        "rules min_stopped_lines keep_without_stops max_short_lines short_line max_repeated "
        "max_newlines"
    ),
    "GivenScores": "by key numbers labels min max keep missing repeats nan",
    "HashSample": "seed by missing",
    "Lab": (
        "rules min_words max_words min_word_length max_word_length max_symbol_ratio "
        "max_bullet_lines max_ellipsis_lines max_top_2gram max_top_3gram"
    ),
    "Language": "min_score characters model rules capitals also min_agreeing",
    "LibraryExtract": (
        "extractor main_content only_pages max_bytes max_depth max_steps max_work max_tags "
        "favor_precision format"
    ),
    "ListedPhrases": "lists phrases bounded max_places max_share",
    "NameModel": "labels",
    "Normalise": "form control space urls mojibake entities after_dedup",
    "Perplexity": "words min_perplexity max_perplexity drop_lowest drop_highest",
    "Private": (
        "kinds placeholder placeholders rules regions phone_check addresses names after_dedup"
    ),
    "Quality": (
        "min_words max_words min_word_length max_word_length max_symbol_ratio max_bullet_lines "
        "max_ellipsis_lines min_letter_words min_stop_words stop_words"
    ),
    "Regex": "max_matches min_matches replacement ignore_case most after_dedup",
    "RepeatedParagraphs": "max_share by unit most keep arabic_marks least_characters",
    "Repetition": (
        "rules max_paragraphs max_paragraph_characters max_lines max_line_characters max_top "
        "max_repeated"
    ),
    "Rights": "drop keep agents fields",
    "Simple": "min_words max_upper max_special",
    "Toxicity": "lists bounded model label max_words max_share max_score",
    "Transformers": "positive min_score max_score keep tokens characters batch device",
    "Url": "domains urls words soft_words subwords soft_threshold allow_domains missing",
}


def without_defaults(value: Any) -> Any:
    """Return settings as tables and lists: of each Struct the keys that `stored_keys` names.

    A named tuple is the list of its values; one that ALWAYS does not name follows as [name, value].
    """
    if isinstance(value, msgspec.Struct):
        return {
            key: without_defaults(getattr(value, name)) for name, key in stored_keys(value).items()
        }
    if isinstance(value, dict):
        return {name: without_defaults(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        values = _of_named_tuple(value) if hasattr(value, "_field_defaults") else value
        return [without_defaults(entry) for entry in values]
    return msgspec.to_builtins(value)


def stored_keys(settings: msgspec.Struct) -> dict[str, str]:
    """Return the keys of `settings` that are stored, by attribute, in the order of the class: those
    without a default, those of ALWAYS, and those with another value than their default.
    """
    always, defaults = _keys(type(settings))
    names = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    return {
        name: key
        for name, key in names
        if name in always or name not in defaults or getattr(settings, name) != defaults[name]
    }


@cache
def _keys(kind: type[msgspec.Struct]) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the attributes of a class that are always stored, and the defaults by attribute."""
    always: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("gristmill."):
            always |= set(ALWAYS.get(base.__name__, "").split())
        else:
            always |= set(inspect.get_annotations(base))
    defaults = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory()
        elif field.default is not msgspec.NODEFAULT:
            defaults[field.name] = field.default
    return frozenset(always), defaults


def _of_named_tuple(value: Any) -> list[Any]:
    """Return the values of a named tuple that are stored."""
    table = value._asdict()
    first = ALWAYS.get(type(value).__name__, " ".join(table)).split()
    return [
        table[name] if name in first else [name, table[name]]
        for name in table
        if name in first or table[name] != value._field_defaults[name]
    ]

"""Written by scripts/reference.py, from the steps that there are."""

from typing import Literal, overload

from gristmill.filters.api.in_memory import TextVerdict as TextVerdict
from gristmill.filters.api.in_memory import judge as judge
from gristmill.filters.api.in_memory import keep as keep
from gristmill.filters.api.in_memory import mask as mask
from gristmill.filters.api.step import Check as Check
from gristmill.filters.api.step import Decision as Decision
from gristmill.filters.api.step import Inputs as Inputs
from gristmill.filters.api.step import Measured as Measured
from gristmill.filters.api.step import Rank as Rank
from gristmill.filters.api.step import Rule as Rule
from gristmill.filters.api.step import Step as Step
from gristmill.filters.api.step import check as check
from gristmill.filters.api.step import decide_by as decide_by
from gristmill.filters.api.step import refuse_nan as refuse_nan
from gristmill.filters.decontaminate.decontaminate import Decontaminate as Decontaminate
from gristmill.filters.extract.extract import Extract as _Extract
from gristmill.filters.extract.extract import LibraryExtract as _LibraryExtract
from gristmill.filters.extract.normalise import Normalise as Normalise
from gristmill.filters.extract.rights import Rights as Rights
from gristmill.filters.language.language import Language as Language
from gristmill.filters.lists.phrases import ListedPhrases as _Phrases
from gristmill.filters.lists.url import Url as Url
from gristmill.filters.lists.withdrawn import Withdrawn as Withdrawn
from gristmill.filters.models.classifier import Classifier as Classifier
from gristmill.filters.models.ensemble import Ensemble as Ensemble
from gristmill.filters.models.perplexity import Perplexity as Perplexity
from gristmill.filters.models.scores import GivenScores as _Scores
from gristmill.filters.models.toxicity import Toxicity as Toxicity
from gristmill.filters.models.transformers import Transformers as Transformers
from gristmill.filters.pii.private import Private as Private
from gristmill.filters.rules.c4 import C4 as C4
from gristmill.filters.rules.fineweb import FineWeb as FineWeb
from gristmill.filters.rules.gopher import Lab as _Lab
from gristmill.filters.rules.gopher import Quality as _Quality
from gristmill.filters.rules.regex import Regex as Regex
from gristmill.filters.rules.repeated_paragraphs import RepeatedParagraphs as RepeatedParagraphs
from gristmill.filters.rules.repetition import Repetition as Repetition
from gristmill.filters.rules.sample import HashSample as _Sample
from gristmill.filters.rules.simple import Simple as Simple

Phrases = _Phrases
Sample = _Sample
Scores = _Scores

@overload
def Extract(
    *,
    sources: list[str] | None = ...,
    rules: Literal["gristmill"] = ...,
    favor: Literal["balanced", "precision", "recall"] = ...,
    format: Literal["text", "markdown"] = ...,
    comments: bool | None = ...,
    articles: Literal["all", "first"] = ...,
    tables: bool = ...,
    lists: bool = ...,
    headings: bool = ...,
    types: tuple[
        Literal["article", "collection", "documentation", "forum", "listing", "product", "service"],
        ...,
    ] = ...,
    min_type: float = ...,
    metadata: bool = ...,
    links: bool = ...,
    only_pages: bool = ...,
    max_bytes: int = ...,
    max_depth: int = ...,
) -> _Extract: ...
@overload
def Extract(
    *,
    sources: list[str] | None = ...,
    extractor: Literal["resiliparse", "trafilatura"] = ...,
    main_content: bool = ...,
    only_pages: bool = ...,
    max_bytes: int = ...,
    max_depth: int = ...,
    max_steps: int = ...,
    max_work: int = ...,
    max_tags: int | None = ...,
    favor_precision: bool = ...,
    format: Literal["text", "markdown", "minimal_html"] = ...,
) -> _LibraryExtract: ...
@overload
def Gopher(
    *,
    sources: list[str] | None = ...,
    rules: Literal["lab"] = ...,
    min_words: int = ...,
    max_words: int = ...,
    min_word_length: float = ...,
    max_word_length: float = ...,
    max_symbol_ratio: float = ...,
    max_bullet_lines: float = ...,
    max_ellipsis_lines: float = ...,
    max_top_2gram: float = ...,
    max_top_3gram: float = ...,
) -> _Lab: ...
@overload
def Gopher(
    *,
    sources: list[str] | None = ...,
    words: Literal["own", "spacy", "nltk"] = ...,
    word_language: str = ...,
    rules: Literal["datatrove-0.10", "datatrove-0.2"],
    min_words: int | None = ...,
    max_words: int | None = ...,
    min_word_length: float | None = ...,
    max_word_length: float | None = ...,
    max_symbol_ratio: float | None = ...,
    max_bullet_lines: float | None = ...,
    max_ellipsis_lines: float | None = ...,
    min_letter_words: float | None = ...,
    min_stop_words: int | None = ...,
    stop_words: tuple[str, ...] = ...,
) -> _Quality: ...

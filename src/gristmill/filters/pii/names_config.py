"""The configuration of a spaCy pipeline, read as data: what is loaded is written anew from parts of
a fixed list.

spaCy builds whatever a config.cfg names by `@registry = "name"`: any function of any installed
package, with any arguments, in a section or in JSON within a value. So the file is parsed as spaCy
parses it, JSON and variables too, and only what is known is taken out: the language, the names of
the pipeline, and of each part that finds entities its tree of layers. Every table of the tree must
name one of ARCHITECTURES, every other value must be a plain one.
"""

import configparser
import importlib.util
import re
from typing import Any

FACTORIES = ("ner", "tok2vec")
# Of spaCy and of spacy-legacy, which has the older ones under the same names. Those of PyTorch are
# not among them: their weights are pickles.
ARCHITECTURES = frozenset(
    f"spacy.{name}.v{version}"
    for name in (
        "CharacterEmbed",
        "HashEmbedCNN",
        "MaxoutWindowEncoder",
        "MishWindowEncoder",
        "MultiHashEmbed",
        "Tok2Vec",
        "TransitionBasedParser",
    )
    for version in (1, 2)
) | {"spacy.Tok2VecListener.v1"}
TOKENIZER = {"@tokenizers": "spacy.Tokenizer.v1"}
CALLS = ("before_creation", "after_creation", "after_pipeline_creation")  # functions of [nlp]
SETTINGS = ("update_with_oracle_cut_size", "incorrect_spans_key")  # of a part, besides its model
LONGEST = 1 << 20  # characters of a config.cfg
DEEPEST = 16  # tables in tables
LARGEST = 10_000_000  # of a number: rows of a table
MOST_LAYERS = 64
LAYERS = ("depth", "window_size", "maxout_pieces")


def rewrite(text: str) -> str:
    """Return the config.cfg of the parts that find entities, for a pipeline's own.

    Raises ValueError where it names anything else, or is none.
    """
    from thinc.api import Config

    if len(text) > LONGEST:
        raise ValueError(f"its config.cfg is longer than {LONGEST:,} characters")
    try:
        config = Config().from_str(text)
    except RecursionError as error:
        raise ValueError("its config.cfg is nested too deep") from error
    except configparser.Error as error:
        raise ValueError(f"its config.cfg is no configuration: {error}") from error
    nlp, components = _table(config, "nlp"), _table(config, "components")
    if nlp.get("tokenizer") != TOKENIZER:
        raise ValueError("[nlp.tokenizer]: only spacy.Tokenizer.v1 is loaded")
    for key in CALLS:
        if nlp.get(key) is not None:
            raise ValueError(f"[nlp] {key}: no code is run")
    named = nlp.get("pipeline")
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ValueError("[nlp] pipeline: expected names")
    parts = {name: _part(name, components[name]) for name in named if name in components}
    kept = {name: part for name, part in parts.items() if part is not None}
    head = {
        "lang": _language(nlp.get("lang")),
        "pipeline": list(kept),
        "tokenizer": TOKENIZER,
        "disabled": [],
        "batch_size": 1000,
        **dict.fromkeys(CALLS),
    }
    return str(Config({"nlp": head, "components": kept}).to_str())


def _table(config: Any, name: str) -> dict[str, Any]:
    section = config.get(name)
    if isinstance(section, dict):
        return section
    raise ValueError(f"its config.cfg has no [{name}]")


def _language(code: Any) -> str:
    """Return the code of a language that spaCy has: another would be imported as a module."""
    if (
        not isinstance(code, str)
        or not re.fullmatch(r"[a-z]{2,3}", code)
        or importlib.util.find_spec(f"spacy.lang.{code}") is None
    ):
        raise ValueError("[nlp] lang: expected the code of a language that spaCy has")
    return code


def _part(name: str, table: Any) -> dict[str, Any] | None:
    """Return a part of the pipeline as it is loaded; None for one that finds no entities."""
    if not isinstance(table, dict) or table.get("factory") not in FACTORIES:
        return None
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        raise ValueError("[components]: a name has other characters than letters and digits")
    model = _checked(_table(table, "model"), f"components.{name}.model", 0)
    plain = {key: table[key] for key in SETTINGS if key in table}
    if any(isinstance(value, dict | list) for value in plain.values()):
        raise ValueError(f"[components.{name}]: expected plain values")
    return {"factory": table["factory"], **plain, "model": model}


def _checked(value: Any, where: str, depth: int) -> Any:
    """Return a value of a tree of layers. Raises ValueError."""
    if depth > DEEPEST:
        raise ValueError(f"[{where}]: nested too deep")
    if isinstance(value, dict):
        named = value.get("@architectures")
        if not isinstance(named, str) or named not in ARCHITECTURES:
            raise ValueError(
                f"[{where}]: expected one of spaCy's own layers without PyTorch "
                f"(@architectures: {', '.join(sorted(ARCHITECTURES))})"
            )
        others = [key for key in value if key != "@architectures"]
        if not all(isinstance(key, str) and key.isidentifier() for key in others):
            raise ValueError(f"[{where}]: expected names of settings besides @architectures")
        return {key: _checked(value[key], f"{where}.{key}", depth + 1) for key in value}
    if isinstance(value, list):
        return [_plain(entry, where) for entry in value]
    return _plain(value, where)


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        most = MOST_LAYERS if where.rpartition(".")[2] in LAYERS else LARGEST
        if not -most <= value <= most:
            raise ValueError(f"[{where}]: expected at most {most:,}")
    if isinstance(value, str | int | float | None):
        return value
    raise ValueError(f"[{where}]: expected plain values")

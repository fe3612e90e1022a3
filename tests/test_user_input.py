"""A string or a path where a list is expected is a list of one, in every public function."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import filters
from gristmill.errors import ArgumentError
from gristmill.user_input import one_or_more
from tests.support.corpora import lay_out

LISTS = ("Sequence[", "list[", "Collection[", "Iterable[", "tuple[str")
# Lists of numbers, and parameters whose own code takes or refuses one string.
OTHERS = {"run recipe", "run allow_env", "run allow_hosts", "size allow_env", "size allow_hosts"}
OTHERS |= {"curve bands", "curve rows", "DuplicateIndex.add_batch texts", "Tokenizer.encode texts"}
# What has no annotation takes texts in any form (user_texts.py), where one string is one text.


def callables() -> Iterator[tuple[str, Any]]:
    """The public functions, classes as what makes them, and public methods, by name."""
    for name in gristmill.__all__:
        given = getattr(gristmill, name)
        if inspect.isclass(given):
            if not issubclass(given, BaseException):
                yield name, given.__init__
            for method, function in inspect.getmembers(given, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function
        elif callable(given):
            yield name, given


def public_lists() -> dict[str, Any]:
    """What takes a list of strings or paths, by its name and the parameter's."""
    return {
        f"{name} {parameter.name}": function
        for name, function in callables()
        for parameter in inspect.signature(function).parameters.values()
        if any(word in str(parameter.annotation) for word in LISTS)
    }


def test_every_public_list_may_be_one_string() -> None:
    lists = public_lists()
    assert lists.keys() > OTHERS
    assert "Corpus.batches columns" in lists
    for place, function in lists.items():
        if place not in OTHERS:
            assert place.split()[1] in getattr(function, "one_or_more", ()), place


@pytest.mark.parametrize("name", dir(filters))
def test_no_list_of_a_filter_may_be_one_string(name: str) -> None:
    """A filter's parameters are a recipe's, where each has one type."""
    kind = getattr(filters, name)
    if not (inspect.isclass(kind) and issubclass(kind, filters.Step)):
        return
    for parameter in inspect.signature(kind).parameters.values():
        if any(word in str(parameter.annotation) for word in LISTS):
            with pytest.raises(ArgumentError, match=parameter.name):
                kind(**{parameter.name: "ab"})


def test_one_is_a_list_of_one() -> None:
    @one_or_more("files", "named")
    def call(files: Any, named: Any = None, other: Any = None) -> Any:
        return files, named, other

    assert call("ab", {"x": "cd", "y": ["e"]}, "f") == (["ab"], {"x": ["cd"], "y": ["e"]}, "f")
    assert call(files=Path("a"), named=None) == ([Path("a")], None, None)
    assert call(["a", "b"]) == (["a", "b"], None, None)
    with pytest.raises(TypeError, match="files"):
        call()  # type: ignore[call-arg]


def test_one_file_trains_a_classifier(tmp_path: Path) -> None:
    for name, word in (("good", "mill"), ("bad", "spam")):
        rows = [{"text": f"{word} {number} {word}"} for number in range(50)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = gristmill.train_classifier(
        good=str(tmp_path / "good.jsonl"), bad=tmp_path / "bad.jsonl", out=tmp_path / "model"
    )
    assert made


def test_one_text_and_one_column(tmp_path: Path) -> None:
    lay_out(tmp_path, count=20)
    gristmill.run(tmp_path / "recipe.toml", out=tmp_path / "corpus", workers=1)
    tokenizer = gristmill.Tokenizer(str(tmp_path / "tokenizer.json"))
    assert (
        tokenizer.encode("the mill").tokens.tolist() == tokenizer.encode_text("the mill").tolist()
    )
    corpus = gristmill.Corpus(tmp_path / "corpus")
    assert corpus.arrow(columns="reason") == corpus.arrow(columns=["reason"])
    assert next(corpus.batches("documents", "text")).schema.names == ["text"]
    with pytest.raises(ArgumentError, match=r"no column 'txet'; there are .*text"):
        corpus.arrow("documents", ["txet"])
    with pytest.raises(TypeError, match="several texts"):
        gristmill.DuplicateIndex(None).add_batch("the mill")

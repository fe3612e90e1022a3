"""A string or a path where a list is expected is a list of one, in every public function."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill.user_input import one_or_more

# Lists of numbers, and parameters whose own code takes one string.
OTHERS = {("run", "recipe"), ("run", "allow_env"), ("size", "allow_env")}
OTHERS |= {("run", "allow_hosts"), ("size", "allow_hosts"), ("curve", "bands"), ("curve", "rows")}


def public_lists() -> list[tuple[str, str]]:
    """(function, parameter) of the public functions that take a list of strings or paths."""
    found = []
    for name in gristmill.__all__:
        function = getattr(gristmill, name)
        if inspect.isclass(function) or not callable(function):
            continue
        for parameter in inspect.signature(function).parameters.values():
            said = str(parameter.annotation)
            if any(word in said for word in ("Sequence[", "list[", "Collection[", "Iterable[")):
                found.append((name, parameter.name))
    return found


@pytest.mark.parametrize("place", public_lists())
def test_every_public_list_may_be_one_string(place: tuple[str, str]) -> None:
    function = getattr(gristmill, place[0])
    assert place in OTHERS or place[1] in getattr(function, "one_or_more", ())


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

"""Filters of one's own: found without running, loaded from exactly their bytes, and loud when they
fail.
"""

import hashlib
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from gristmill.errors import RecipeError
from gristmill.filters.api.custom import Custom
from gristmill.filters.api.step import Decision, Input
from gristmill.system.own_code import OwnFile, find_source, load
from gristmill.tables import schema

FILTERS = """
import pyarrow as pa
import pyarrow.compute as pc
from helper_of_own import LIMIT

def shouted(text: str) -> str | None:
    if text == "boom":
        return 1 / 0
    if text == "exit":
        raise SystemExit(3)
    if text == "odd":
        return "Not A Reason"
    if text == "number":
        return 7
    return "capitals" if text.isupper() and len(text) > LIMIT else None

def lorem(batch: pa.RecordBatch) -> pa.Array:
    found = pc.match_substring(batch["text"], "lorem")
    return pc.if_else(found, "filler", pa.scalar(None, pa.string()))

def later(batch: "pa.RecordBatch"):
    return pa.nulls(len(batch))

def short(batch: pa.RecordBatch):
    return pa.array(["x"])

def listed(batch: pa.RecordBatch):
    return ["x"] * len(batch)

def typed(batch: pa.RecordBatch):
    return pa.array(range(len(batch)))

def worded(batch: pa.RecordBatch):
    return pa.array([None, "Bad Reason"])

def raising(batch: pa.RecordBatch):
    raise KeyError("nothing here")

def two(text, other):
    return None

def unknown(text: "Nowhere"):
    return None

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "filters_of_own.py").write_text(FILTERS)
    (tmp_path / "helper_of_own.py").write_text("LIMIT = 3\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_of_own")]:
        del sys.modules[name]


def own_file(module: str, folder: Path) -> OwnFile:
    path = find_source(module, folder)
    return OwnFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def run(function: str, folder: Path, texts: list[str]) -> Decision:
    step = msgspec.convert({"use": f"filters_of_own:{function}"}, Custom)
    assert step.inputs() == {f"own.{function}": "code:filters_of_own"}
    batch = pa.RecordBatch.from_pylist(
        [{"document": (4 << 32) + row, "text": text} for row, text in enumerate(texts)],
        schema.DOCUMENTS,
    )
    found = step.load({"code:filters_of_own": Input("", *own_file("filters_of_own", folder))})(
        batch
    )
    assert found.measures["reason"].type == pa.string()
    return step.decide(found.measures)


def test_a_function_of_a_text(folder: Path) -> None:
    before = list(sys.path)
    said = run("shouted", folder, ["LOUD AND CLEAR", "quiet", "", "ABC"])
    assert said.reason.to_pylist() == ["capitals", None, None, None]
    assert said.value.to_pylist() == said.threshold.to_pylist() == [None] * 4
    assert sys.path == before
    assert Custom(use="filters_of_own:shouted").name == "shouted"


def test_a_function_of_a_batch(folder: Path) -> None:
    assert run("lorem", folder, ["a lorem b", "c"]).reason.to_pylist() == ["filler", None]
    assert run("lorem", folder, []).reason.to_pylist() == []
    assert run("later", folder, ["a", "b"]).reason.to_pylist() == [None, None]


FAILING = (
    (
        "shouted",
        ["a", "boom"],
        "filters_of_own:shouted: document 4:1: ZeroDivisionError: division by zero",
    ),
    ("shouted", ["exit"], "document 4:0: SystemExit: 3"),
    ("shouted", ["a", "b", "odd"], "document 4:2: 'Not A Reason' is no reason"),
    ("shouted", ["number"], "document 4:0: 7 is no reason"),
    ("short", ["a", "b"], "document 4:0 to document 4:1: it gave 1 reasons for 2 documents"),
    ("listed", ["a", "b"], "it gave a list"),
    ("typed", ["a", "b"], "reasons of type int64"),
    ("worded", ["a", "b"], "document 4:1: 'Bad Reason' is no reason"),
    ("raising", ["a", "b"], "document 4:0 to document 4:1: KeyError"),
    ("two", ["a"], "must take one argument"),
    ("unknown", ["a"], "name 'Nowhere' is not defined"),
    ("number", ["a"], "has no function number"),
    ("missing", ["a"], "has no missing"),
)


@pytest.mark.parametrize(
    ("function", "texts", "why"), FAILING, ids=[f"{name}-{why[:20]}" for name, _, why in FAILING]
)
def test_what_goes_wrong_is_told(folder: Path, function: str, texts: list[str], why: str) -> None:
    with pytest.raises(RecipeError) as told:
        run(function, folder, texts)
    assert why in str(told.value)


@pytest.mark.parametrize(
    "use",
    [
        "filters",
        "filters:",
        ":f",
        "a-b:f",
        "a..b:f",
        "a:f.g",
        "a:f\n",
        "a/b:f",
        "ä:f",
        "filters:read",
    ],
)
def test_names_that_are_none(use: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"use": use}, Custom)


# Finding.


def test_nothing_is_imported_to_find_a_module(tmp_path: Path) -> None:
    package = tmp_path / "package_of_own/inner"
    package.mkdir(parents=True)
    (tmp_path / "package_of_own/__init__.py").write_text("raise AssertionError('imported')")
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "rules.py").write_text("raise AssertionError('imported')")
    before = set(sys.modules)
    assert find_source("package_of_own.inner.rules", tmp_path) == package / "rules.py"
    assert find_source("package_of_own.inner", tmp_path) == package / "__init__.py"
    assert set(sys.modules) == before
    (tmp_path / "json.py").write_text("")
    assert find_source("json", tmp_path) == tmp_path / "json.py"  # the folder comes first
    assert find_source("json.decoder", tmp_path.parent).name == "decoder.py"
    for module, why in {
        "nothing_of_own": "no module nothing_of_own",
        "package_of_own.nothing": "no module package_of_own.nothing",
        "json.x": "json is no package",
        "sys": "no module sys",
        "space_of_own": "no Python source",
    }.items():
        (tmp_path / "space_of_own").mkdir(exist_ok=True)
        with pytest.raises(RecipeError, match=why):
            find_source(module, tmp_path)


# Loading.


def test_a_module_in_a_package_and_its_helpers(folder: Path) -> None:
    package = folder / "package_of_own"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "near.py").write_text("WORD = 'near'\n")
    (package / "rules.py").write_text(
        "from .near import WORD\nfrom package_of_own.near import WORD as SAME\nimport "
        "helper_of_own\n"
        "def f(text):\n    return WORD if text == SAME else None\n"
    )
    function = load("package_of_own.rules:f", own_file("package_of_own.rules", folder))
    assert function("near") == "near"
    assert function("far") is None


def test_the_bytes_that_run_are_those_that_were_hashed(folder: Path) -> None:
    path = folder / "fresh_of_own.py"
    for number in range(
        3
    ):  # within one tick of the clock, of one size: a stored .pyc would be taken for the new file's
        path.write_text(f"def f(text):\n    return 'reason_{number}'\n")
        assert load("fresh_of_own:f", own_file("fresh_of_own", folder))("x") == f"reason_{number}"
    stale = own_file("fresh_of_own", folder)
    path.write_text("def f(text):\n    return 'other'\n")
    with pytest.raises(RecipeError, match="has changed"):
        load("fresh_of_own:f", stale)
    path.unlink()
    with pytest.raises(RecipeError, match="No such file"):
        load("fresh_of_own:f", stale)


def test_a_name_that_python_has_given_already(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def f(text):\n    return None\n")
    with pytest.raises(RecipeError, match="another module json"):
        load("json:f", own_file("json", tmp_path))
    assert hasattr(sys.modules["json"], "loads")


@pytest.mark.parametrize(
    "source",
    ["def f(:", "import nothing_of_own", "raise SystemExit(1)", "x = 1 / 0", "\0", "\xff = 1"],
)
def test_a_module_that_cannot_be_imported(folder: Path, source: str) -> None:
    (folder / "broken_of_own.py").write_bytes(source.encode("latin-1"))
    before = list(sys.path)
    with pytest.raises(RecipeError, match="importing .*broken_of_own.py failed"):
        load("broken_of_own:f", own_file("broken_of_own", folder))
    assert "broken_of_own" not in sys.modules
    assert sys.path == before

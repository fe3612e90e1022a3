"""docs/exercises.md shows what scripts/exercises.py prints."""

import importlib
import sys
from types import ModuleType

import pytest

from tests.support import ROOT
from tests.support.real_data import RealData

QUICK = ("sketch", "methods", "personal")
SETS = ("C_neardup", "D_langid", "E_bench", "F_pii", "G_toxic", "I_prose")


@pytest.fixture(scope="module")
def exercises() -> ModuleType:
    """scripts/exercises.py."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("exercises")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def check(name: str, exercises: ModuleType, data: RealData) -> None:
    for folder in SETS:
        data / folder
    said = exercises.answer(name)
    shown = exercises.shown(exercises.PAGE.read_text("utf-8"))[name]
    assert said == shown, f"run: python scripts/exercises.py --write {name}"


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_answer_is_as_shown(name: str, exercises: ModuleType, data: RealData) -> None:
    check(name, exercises, data)


@pytest.mark.soak
@pytest.mark.usefixtures("tiktoken_folder")  # `ratio` counts tokens of published tokenizers
def test_every_answer_is_as_shown(exercises: ModuleType, data: RealData) -> None:
    for name in set(exercises.ANSWERS) - set(QUICK) - exercises.TIMED:
        check(name, exercises, data)


def test_every_answer_is_on_the_page(exercises: ModuleType) -> None:
    assert set(exercises.shown(exercises.PAGE.read_text("utf-8"))) == set(exercises.ANSWERS)

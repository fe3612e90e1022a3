"""A file that would end this process ends the one that tries it."""

import os
import signal
import time
from pathlib import Path

import pytest

from gristmill.errors import RecipeError
from gristmill.filters.models import library_trials
from gristmill.system.try_in_process import TrialError, TrialLimits, try_in_process

LIMITS = TrialLimits(memory=2 << 30, seconds=20)
HERE = "tests.system.test_try_in_process"


def answers(data: bytes) -> str:
    print("a library prints")
    return f"{len(data)} bytes"


def refuses(data: bytes) -> str:
    raise ValueError(f"{data!r} is no model")


def aborts(data: bytes) -> str:
    os.abort()


def dies_of_a_signal(data: bytes) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return ""


def takes_memory(data: bytes) -> str:
    return str(len(bytearray(8 << 30)))


def takes_time(data: bytes) -> str:
    while True:
        pass


def leaves(data: bytes) -> str:
    os._exit(0)


@pytest.fixture(autouse=True)
def from_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def test_the_answer_and_the_refusal_come_back() -> None:
    assert try_in_process(f"{HERE}:answers", b"x" * 1_000_000, LIMITS) == "1000000 bytes"
    with pytest.raises(TrialError, match="^b'x' is no model$"):
        try_in_process(f"{HERE}:refuses", b"x", LIMITS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("aborts", r"it ended the process that tried it, .* \(signal SIGABRT\)"),
        ("dies_of_a_signal", r"\(signal SIGSEGV\)"),
        ("takes_memory", r"may take 2.0 GB of memory \(exit code 1\): out of memory"),
        ("leaves", r"\(exit code 0\)"),
    ],
)
def test_an_end_of_the_process_is_an_error(function: str, message: str) -> None:
    with pytest.raises(TrialError, match=message):
        try_in_process(f"{HERE}:{function}", b"", LIMITS)


def test_time_is_bounded() -> None:
    start = time.monotonic()
    with pytest.raises(TrialError, match="it took more than 1 seconds of processor time"):
        try_in_process(f"{HERE}:takes_time", b"", TrialLimits(2 << 30, 1))
    assert time.monotonic() - start < 60


def test_a_model_file_that_a_library_cannot_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xba\x16\x4f\x2f" + b"\xff" * 100)
    with pytest.raises(RecipeError, match=f"^here: {path}: its library cannot read it"):
        library_trials.try_file("load_fasttext", str(path), "here")
    path.write_text('{"model": 1}')
    with pytest.raises(RecipeError, match=f"^here: {path}: its library cannot read it"):
        library_trials.try_file("load_tokenizer", str(path), "here")

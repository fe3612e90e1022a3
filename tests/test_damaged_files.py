"""Every kind of file that a user can name, damaged, given to every verb that reads it: no verb ends
with a traceback, and the message names the file and says in words what is wrong.

tests/support/damaged_files.py has the files, the damage and the commands. A damaged file that can
still be read is no error: a text of other bytes is a text.
"""

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from gristmill.errors import KEPT_NOTHING
from tests.support import ROOT
from tests.support.damaged_files import DAMAGES, FILES, mill, write_all

TORCH = importlib.util.find_spec("torch") is not None
# What an exception, and not a person, says.
CODE = re.compile(r"(?:Error|Exception)\(|<class |<[\w.]+ object at|Traceback")
# Under `make soak` all files; else every other one, which takes a minute of processor time.
NAMES = list(FILES)[:: 1 if int(os.environ.get("GRISTMILL_SOAK", "1")) > 1 else 2]
# What ended with a traceback once, or with a message that named no file.
FAULTS = [
    ("benchmark jsonl", "flipped", "run"),
    ("benchmark csv", "nested", "run"),
    ("nodes", "zeros", "node"),
    ("root", "a list", "node"),
    ("doremi's state", "empty", "doremi"),
    ("trained b.jsonl", "nested", "model train-classifier"),
    ("trained g.parquet", "empty", "tokenizer train"),
    ("corpus measures/*.parquet", "zeros", "why"),
    ("corpus verdicts/*.parquet", "no start", "release withdraw"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files, undamaged; `here` beside it is where commands run."""
    root = tmp_path_factory.mktemp("files") / "here"
    write_all(root, torch=TORCH)
    return Path(shutil.copytree(root, root.with_name("whole"), symlinks=True))


def check(whole: Path, spare: Path, name: str, damage: str, command: str) -> None:
    """Run a command in a folder where one file is damaged, and look at what it says."""
    if name == "doremi's state" and not TORCH:
        pytest.skip("torch is not installed")
    here = whole.with_name("here")
    shutil.rmtree(here)
    shutil.copytree(whole, here, symlinks=True)
    path = min(here.glob(FILES[name].path))
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    told = mill(here, command, spare)
    said = f"{damage}: {command}\n{told.error[-3000:]}"
    assert not CODE.search(told.error + told.out), said
    assert 0 <= told.code <= KEPT_NOTHING, said
    if told.code in (0, KEPT_NOTHING):
        return
    words = told.error[told.error.index("gristmill: ") :]
    assert path.name in words, said
    assert re.search(r"[a-z]+ [a-z]+", words.partition(path.name)[2]), said


@pytest.mark.parametrize(("name", "damage", "verb"), FAULTS)
def test_what_was_wrong_once(
    whole: Path, tmp_path: Path, name: str, damage: str, verb: str
) -> None:
    command = next(one for one in FILES[name].commands if one.startswith(verb))
    check(whole, tmp_path / "spare", name, damage, command)


@pytest.mark.parametrize("name", NAMES)
def test_the_message_names_the_file(whole: Path, tmp_path: Path, name: str, soak: int) -> None:
    """One command with one kind of damage for a file; under `make soak` all commands, with as
    many kinds as it is larger.
    """
    kinds, place = list(DAMAGES), list(FILES).index(name)
    commands = FILES[name].commands
    for turn in range(min(soak, len(kinds))):
        damage = kinds[(place + turn) % len(kinds)]
        chosen = commands if soak > 1 else [commands[place % len(commands)]]
        for number, command in enumerate(chosen):
            check(whole, tmp_path / f"{turn}-{number}", name, damage, command)


def test_all_that_decoding_json_raises_is_caught() -> None:
    """Strings that are no UTF-8, and nesting without end, have errors of their own (NO_JSON)."""
    for path in (ROOT / "src").rglob("*.py"):
        alone = re.findall(r"except .*msgspec\.(?:DecodeError|MsgspecError)", path.read_text())
        assert not alone, f"{path}: write NO_JSON"

"""Each extra, when it is not installed: an error that names it."""

import json
import re
import subprocess
import sys
import tomllib

import pytest

from tests.support import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# The packages that are taken away, and what is then called.
WITHOUT = {
    "ftfy": ("ftfy", "filters.extract import normalise; normalise._fixer(True, 'keep')"),
    "hdf5": ("h5py", "trainer_formats import hdf5; hdf5.library()"),
    "hub": ("huggingface_hub", "network.hub import hub; hub.library()"),
    "judges": (
        "torch transformers",
        "filters.models import transformers; transformers._judge(*[File()] * 3, 'cpu', 8)",
    ),
    "kenlm": (
        "kenlm",
        "filters.models import perplexity as p; p._by_kenlm('x', File(), p.KENLM_BINARY, '')",
    ),
    "mix": ("scipy sklearn", "mixing import laws; laws.needed('scipy.optimize')"),
    "mix picture": ("matplotlib", "mixing import plot; plot.figure(1)"),
    "ner": ("spacy", "filters.pii import names; names.load(File(), ['PERSON'])"),
    "words": ("spacy", "filters.api import library_words as w; w.divider('spacy', 'en')"),
    "node": (
        "tuf",
        "network.trust import trust_reader as t; t.newest_signed(None, b'', None, 'x')",
    ),
    "publish": ("boto3", "network.releases import cdn; cdn.CloudFront('E123').check()"),
    "publish keys": ("securesystemslib", "network.trust import keys; keys.new_key(None, 'secret')"),
    "re2": ("re2", "filters.rules import regex; regex.compiled('a', ignore_case=False)"),
    "spark": ("pyspark", "engine import spark; spark.connect('spark://host:7077')"),
    "stores": ("obstore", "store.http import remotes; remotes.open_store('s3://bucket/key')"),
    "torch": ("torch", "loader import torch_dataset"),
    "torch doremi": ("torch", "mixing import doremi"),
    "torch losses": ("torch", "reports.tokens import losses"),
    "trafilatura": (
        "trafilatura",
        "filters.extract import extract; extract.LibraryExtract()._trafilatura()",
    ),
}
CODE = """
import importlib.util, json, shutil, sys
from gristmill.errors import GristmillError

class File:
    name = path = "x"

hidden = set()

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
shutil.which = lambda name: None
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in hidden else real(name)
said = {}
for name, (packages, call) in json.load(sys.stdin).items():
    hidden = set(packages.split())
    for module in [one for one in sys.modules if one.partition(".")[0] in hidden]:
        del sys.modules[module]
    try:
        exec(f"from gristmill.{call}")
        said[name] = "no error"
    except (GristmillError, ImportError) as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each call says without its packages."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps(WITHOUT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", WITHOUT)
def test_absent_extra_is_named(said: dict[str, str], name: str) -> None:
    extra = name.partition(" ")[0]
    assert "pip install" in said[name]
    assert f"gristmill[{extra}]" in said[name]


def test_every_extra_is_tried() -> None:
    assert {name.partition(" ")[0] for name in WITHOUT} == EXTRAS.keys() - {
        "explore",  # a program of its own, which gristmill only names
        "docs",
        "readers",
        "test",
    }


def test_named_extras_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for extra in re.findall(r"gristmill\[([a-z0-9]+)\]", path.read_text("utf-8")):
            assert extra in EXTRAS, f"{path}: gristmill[{extra}]"


def test_command_line_without_torch_is_one_line() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['gristmill', 'doremi', 'recipe.toml']\n"
        "from gristmill.cli.app import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr == ("gristmill: torch is not installed: pip install 'gristmill[torch]'\n")

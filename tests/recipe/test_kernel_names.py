"""Which kernels a recipe needs: what its steps load is compiled before a phase begins."""

import subprocess
import sys

import pytest

from gristmill.kernels.jit import places
from gristmill.recipe import kernel_names, parse

SOURCE = '[[source]]\nname = "docs"\nfiles = ["docs.jsonl"]\n'


def named(tables: str) -> set[str]:
    """Modules that are compiled for a recipe with these tables, besides those of a plain one."""
    names = kernel_names(parse(SOURCE + tables, "recipe.toml"))
    return set(places.needed({*places.PLAIN, *names})) - set(places.needed(places.PLAIN))


@pytest.mark.parametrize(
    ("tables", "modules"),
    [
        ("", set()),
        ('[[step]]\nuse = "language"\nkeep = ["en"]\n[[step]]\nuse = "gopher"\n', set()),
        ('[deduplicate]\nexact = true\nnear = {}\n[tokens]\ntokenizer = "gpt2"\n', set()),
        ('[[step]]\nuse = "simple"\n', {"filters.simple_counts"}),
        ('[tokens]\ntokenizer = "cl100k_base"\n', {"pieces.blocks_cl100k"}),
        ("[deduplicate]\nlines = { most = 3 }\n", {"text.lines"}),
        ("[deduplicate]\nsubstrings = {}\n", {"substrings.cut"}),
        ('[[step]]\nuse = "private"\n', set()),
        ('[[step]]\nuse = "extract"\nformat = "markdown"\n', {"html.tokens", "html.written"}),
    ],
)
def test_modules_of_a_recipe(tables: str, modules: set[str]) -> None:
    assert named(tables) >= modules
    assert bool(named(tables)) == bool(modules)


STEPS = {
    "c4": "C4()",
    "fineweb": "FineWeb()",
    "gopher": "Gopher()",
    "language": "Language(keep=['en'])",
    "normalise": "Normalise()",
    "private": "Private()",
    "repetition": "Repetition()",
    "simple": "Simple()",
}


@pytest.mark.parametrize("step", sorted(STEPS))
def test_step_loads_no_kernel_that_is_not_named(step: str) -> None:
    code = f"""
import sys
from gristmill import filters
filters.{STEPS[step]}("Some text, of a few words.\\nAnd of two lines.")
from gristmill.kernels.jit import compile as kernels
print(*sorted({{name.rpartition(".")[0] for name in kernels.dispatchers}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    keep = 'keep = ["en"]\n' if step == "language" else ""
    needed = named(f'[[step]]\nuse = "{step}"\n{keep}') | set(places.needed(places.PLAIN))
    assert set(done.stdout.split()) <= needed

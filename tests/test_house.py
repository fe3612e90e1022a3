"""The house's own rules: what is public, how large a file may be, what the README says of the tree,
what the format says of itself.
"""

import ast
import json
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import msgspec
import pytest

import gristmill
from tests.support import ROOT, skips
from tests.support.command import command_line
from tests.support.real_data import RealData

SOURCE = ROOT / "src/gristmill"
FILES = sorted(SOURCE.rglob("*.py"))


def test_the_public_names_are_sorted_and_there() -> None:
    assert gristmill.__all__ == sorted(gristmill.__all__)
    assert {*gristmill.__all__, "__version__"} == set(dir(gristmill))
    for name in gristmill.__all__:
        assert getattr(gristmill, name).__doc__, name


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function has, but for its docstring."""
    first = node.body[0]
    lines = node.end_lineno - first.lineno + 1  # type: ignore[operator]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= first.end_lineno - first.lineno + 1  # type: ignore[operator]
    return lines


def test_files_and_functions_stay_small() -> None:
    large = {}
    for path in FILES:
        large |= {str(path): count for count in [path.read_text().count("\n")] if count > 600}
        # Kernels are loops that numba compiles whole; what splits them costs calls.
        limit = 150 if path.is_relative_to(SOURCE / "kernels") else 70
        large |= {
            f"{path}: {node.name}": lines_of(node)
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > limit
        }
    assert not large


def test_every_module_says_what_it_is() -> None:
    silent = []
    for path in FILES:
        tree = tree_of(path)
        silent += [str(path)] * (not ast.get_docstring(tree))
        silent += [
            f"{path}: {node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if not ast.get_docstring(node)
            and "overload" not in [ast.unparse(one) for one in node.decorator_list]
        ]
    assert not silent


def test_no_two_classes_have_one_name() -> None:
    modules: dict[str, list[str]] = {}
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                module = str(path.relative_to(SOURCE))
                modules.setdefault(node.name.lstrip("_"), []).append(module)
    assert not {name: found for name, found in modules.items() if len(found) > 1}


def _module(path: Path) -> str:
    return ".".join(["gristmill", *path.relative_to(SOURCE).with_suffix("").parts])


MODULES = {_module(path).removesuffix(".__init__"): path for path in FILES}


def _imported_modules(path: Path, *, for_types: bool = True) -> set[str]:
    """Return the modules of the package that a file imports, within functions too; `for_types`:
    also those for type checkers alone.
    """
    hidden = {
        id(inner)
        for node in ast.walk(tree_of(path))
        if not for_types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in hidden:
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= names & MODULES.keys() or {node.module}
    return (found & MODULES.keys()) - {_module(path).removesuffix(".__init__")}


def test_no_circle_of_imports_within_functions_either() -> None:
    """import-linter sees rooms; this is about modules. A module that everything left imports, or
    that imports nothing left, is in no circle: what remains when all such are taken out is.
    """
    imports = {name: _imported_modules(path, for_types=False) for name, path in MODULES.items()}
    # A step is called with texts: what judges them knows steps.
    imports["gristmill.filters.api.step"].remove("gristmill.filters.api.in_memory")
    while True:
        imported = {needed for name, needs in imports.items() for needed in needs - {name}}
        free = [
            n for n, needs in imports.items() if n not in imported or not needs & imports.keys()
        ]
        if not free:
            break
        for name in free:
            del imports[name]
    assert {name: sorted(needs & imports.keys()) for name, needs in imports.items()} == {}


def test_no_file_imports_two_modules_of_one_base_name() -> None:
    wrong = {}
    for path in FILES:
        modules: dict[str, set[str]] = {}
        # A verb's module may have the name of what it calls.
        own = f"gristmill.cli.{path.stem}"
        files = {m for m in _imported_modules(path) if MODULES[m].stem != "__init__"}
        for module in (files | {_module(path)}) - {own}:
            modules.setdefault(module.rpartition(".")[2], set()).add(module)
        name = str(path.relative_to(SOURCE))
        shared = [sorted(found) for found in modules.values() if len(found) > 1]
        if shared:
            wrong[name] = shared
    assert not wrong


def test_no_test_file_imports_from_another() -> None:
    """What tests share is in tests/support; that holds for code in strings, for new interpreters,
    too.
    """
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]:
        found = re.findall(r"(?:from|import) (tests\.(?!support\b)[a-z_.]+)", path.read_text())
        # What is written from the code is written as `make written` does.
        writes = path.name.startswith("test_golden") or path.name == "test_additions.py"
        assert not found or writes, f"{path}: {found}"


def test_a_set_of_real_data_that_is_missing_skips_or_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "I_prose").mkdir()
    data = RealData(tmp_path)
    assert data / "I_prose/novel.txt" == tmp_path / "I_prose/novel.txt"
    monkeypatch.setattr(skips, "REQUIRED", set())
    with pytest.raises(pytest.skip.Exception, match=r"there is no set A_warc in .*GRISTMILL_DATA"):
        data / "A_warc/wayback"
    monkeypatch.setattr(skips, "REQUIRED", {"data"})
    with pytest.raises(pytest.fail.Exception, match="names 'data', and there is no set A_warc"):
        data / "A_warc/wayback"


def test_only_one_file_reads_toml() -> None:
    assert [
        path.name
        for path in FILES
        if re.search(r"^import tomllib|^from tomllib", path.read_text(), re.MULTILINE)
    ] == ["recipe.py"]


def test_the_manifest_module_opens_nothing() -> None:
    imported = re.findall(
        r"^(?:import|from) ([a-z0-9_.]+)", (SOURCE / "store/manifest.py").read_text(), re.MULTILINE
    )
    assert not {"os", "pathlib", "io", "urllib3", "shutil"} & {
        name.partition(".")[0] for name in imported
    }


def test_no_class_inherits_for_reuse() -> None:
    # A step is a value with parameters; what it may declare has its defaults in Step.
    allowed = {"Protocol", "NamedTuple", "Exception", "Enum", "IntEnum", "Generic", "Step"}
    # torch's DataLoader asks what its data set inherits from.
    allowed |= {"Dataset", "IterableDataset"}
    # typer asks for a group of its own; a stage of a mix is a table with the keys of its rule.
    allowed |= {"TyperGroup", "Shares"}
    # Python asks what imports for its type (arrow_setup.py).
    allowed |= {"MetaPathFinder"}
    # A corpus in a store is one wherever a folder is, and phases know no difference.
    allowed |= {"Corpus"}
    # Steps that count words have that choice in common.
    allowed |= {"WordStep"}
    # What makes a step checks its parameters.
    allowed |= {"msgspec.StructMeta"}
    # numba asks for a compiler and a library of its own (jit/inner_code.py).
    allowed |= {"JITCodeLibrary", "compiler.Compiler"}
    # A text stream writes to a raw file of Python's, and so does Arrow.
    allowed |= {"io.FileIO", "io.RawIOBase"}
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            # urllib3's pools name the class of their connections: there is no other way in.
            if isinstance(node, ast.ClassDef) and path.name != "watch.py":
                for base in node.bases:
                    name = ast.unparse(base).partition("[")[0]
                    assert name in allowed or name.endswith(
                        ("Error", "Struct", "RequestHandler")
                    ), f"{path}: {node.name}({name})"


OPTIONS = {
    "run": "--allow-code --allow-env --allow-host --allow-missing --cache-bytes --cache-dir "
    "--check-inputs --checkpoint-bytes --connections --dry-run --engine --help "
    "--json --limit --out --plan --preset --remove --replace --resume-only --retry --set --shards "
    "--shingle-width --tokenizer --until --workers",
    "init": "--help --preset",
    "verify": "--cache-dir --help --json --pin --quick --raw",
    "diff": "--help --json",
    "why": "--help --json",
    "explain": "--help --json",
    "lines": "--help --json --top",
    "substrings": "--help --json --top",
    "contamination": "--benchmark --help --item --json",
    "duplicates": "--help --json --top",
    "rejudge": "--allow-code --help --json --out --set",
    "report": "--force --help --json --out",
    "check": "--help --json --strict",
    "card": "--force --help --json --out",
    "curve": "--bands --budget --help --json --permutations --rows --threshold",
    "size": (
        "--allow-code --allow-env --allow-host --cache-dir --cores --help --json --machines --out "
        "--sample --set"
    ),
    "status": "--help --interval --json --looks --root --watch",
    "node": (
        "--assignment --cache-bytes --cache-dir --help --holders --json --node-id --nodes --root "
        "--rotation --shards"
    ),
    "explore": "--characters --force --help --json --kept --map --out --redact --sample --seed",
    "version": "--help --json --report",
    "seen": "--document --from --help --json --plan --step --to",
    "bench-loader": (
        "--batch-size --help --json --seconds --sequence-length --tokens-per-second --world-size"
    ),
    "chinchilla": "--corpus --epochs --flops --help --json --params",
    "stats": "--help --json --sequence-length --top",
    "export": "--help --json --mix --out --source --split --strict --to --tokens-per-file",
    "import": (
        "--cache-dir --dtype --end-of-text --end-of-text-side --from --help --json --out --source "
        "--tokenizer --tokens-per-shard"
    ),
    "publish": (
        "--check-all --cloudfront --cloudfront-path --connections --days --draft --help --json "
        "--key --max-age --private --read-back --signed --with"
    ),
    "release withdraw": (
        "--cache-dir --cloudfront --cloudfront-path --corpus --days --draft --help --json --key "
        "--signed --target"
    ),
    "pull": "--connections --help --json --only --root",
    "release key": "--help --json",
    "release sign": (
        "--all --cloudfront --cloudfront-path --days --draft --help --json --key --max-age --signed"
    ),
    "release rotate": (
        "--add --cloudfront --cloudfront-path --days --draft --help --json --key --remove --signed "
        "--threshold"
    ),
    "demo": "--help --workers",
    "model train-classifier": (
        "--bad --bits --epochs --force --good --help --json --limit --out --rate --seed --text"
    ),
    "model train-perplexity": (
        "--force --help --json --least --limit --order --out --text --vocabulary"
    ),
    "model show": "--help --json",
    "tokenizer train": (
        "--force --help --json --least --limit --out --pattern --sample --special --special-last "
        "--text "
        "--vocabulary --workers"
    ),
    "tokenizer grow": (
        "--force --help --json --least --merges --out --pattern --sample --special --text "
        "--tokenizer "
        "--total --workers"
    ),
    "tokenizer show": "--field --help --json --limit --sample --text",
}


@pytest.mark.parametrize("verb", OPTIONS)
def test_the_command_lines_options_are_frozen(verb: str) -> None:
    shown = subprocess.run(
        command_line(*verb.split(), "--help"), capture_output=True, text=True, check=True
    ).stdout
    found = sorted(
        set(re.findall(r"^ +(?:-[a-z], )?(--[a-z-]+)", shown, re.MULTILINE))
        - {f"--no-{name}" for name in ("allow-missing", "quick", "read-back")}
    )
    assert found == OPTIONS[verb].split()


def test_help_comes_at_once_and_loads_nothing_heavy() -> None:
    start = time.monotonic()
    code = (
        "import sys; from gristmill.cli.app import main; sys.argv = ['gristmill', '--help']\ntry: "
        "main()\nexcept SystemExit: pass\n"
    )
    code += (
        "print([name for name in ('numpy', 'pyarrow', 'numba', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Exit codes" in done.stdout
    assert time.monotonic() - start < 2.0  # 0.1 s alone; this machine may be busy


def test_the_format_page_shows_a_real_checkpoint_and_a_real_manifest() -> None:
    from gristmill.store import manifest as manifests
    from gristmill.store.http.partial import Checkpoint

    page = (ROOT / "docs/format.md").read_text()
    checkpoint, table = re.findall(r"```json\n(\{.*?\n\})\n```", page, re.DOTALL)
    assert set(json.loads(checkpoint)) == set(Checkpoint.__struct_fields__)
    assert msgspec.json.decode(checkpoint, type=Checkpoint).validator
    manifest = manifests.decode(json.dumps(json.loads(table)).encode())
    assert manifests.content_digest(manifest.parts) == manifest.content


def test_product_code_reaches_all_of_itself() -> None:
    program = [sys.executable, str(ROOT / "scripts/unreached.py")]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

"""Exports read by the trainers' own readers, where these are installed.

Packages: megatron-core, ai2-olmo-core, datatrove, datasets, grain, h5py, torch. Programs without a
package are looked for under the folder in GRISTMILL_TRAINERS, as checkouts called nanoGPT,
nanochat, llm.c, modded-nanogpt and torchtitan.
"""

import ast
import importlib
import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill
from gristmill.errors import RecipeError
from gristmill.trainer_formats import hdf5
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.import_tokens import import_tokens
from gristmill.trainer_formats.token_source import TokenDocuments, TokenDocumentsConfig
from tests.support.corpora import article, jsonl
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import word_tokenizer

END, VOCABULARY = 0, 1000
PICK = np.random.default_rng(1)
ROWS = [[*PICK.integers(1, VOCABULARY, size=n).tolist(), END] for n in (0, 1, 5, 300, 40, 2, 77)]
BOOKS = [[*PICK.integers(1, VOCABULARY, size=n).tolist(), END] for n in (10, 0, 33)]
VAL = [[*PICK.integers(1, VOCABULARY, size=n).tolist(), END] for n in (3, 9)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("corpus") / "corpus",
        {"web": ROWS, "books": BOOKS},
        {"web": VAL},
        vocabulary=VOCABULARY,
        tokenizer=word_tokenizer(VOCABULARY),
        tokens_per_shard=50,
    )


def package(name: str, part: str) -> Any:
    """A module of a package that may not be installed; warnings of its own are not ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        missing(part, f"{part} cannot be imported: {error}")


def checkout(name: str) -> Path:
    """The checkout of a program."""
    folder = Path(os.environ.get("GRISTMILL_TRAINERS", "/nonexistent")) / name
    if not folder.is_dir():
        missing(name, f"GRISTMILL_TRAINERS names no folder with a checkout of {name}")
    return folder


@pytest.mark.filterwarnings("ignore")
def test_megatron_core(corpus: Path, tmp_path: Path) -> None:
    module = package("megatron.core.datasets.indexed_dataset", "megatron-core")
    export(corpus, tmp_path / "out", to="megatron")
    for name, rows in (("web", ROWS), ("books", BOOKS)):
        for mmap in (True, False):
            found = module.IndexedDataset(
                str(tmp_path / f"out/{name}_train_text_document"), multimodal=False, mmap=mmap
            )
            assert [row.tolist() for row in found] == rows
            assert found.document_indices.tolist() == list(range(len(rows) + 1))
            assert found.sequence_lengths.tolist() == [len(row) for row in rows]
            assert (
                found.get(3, offset=7, length=5).tolist() == rows[3][7:12] if name == "web" else 1
            )


@pytest.mark.filterwarnings("ignore")
def test_olmo_core(corpus: Path, tmp_path: Path) -> None:
    module = package("olmo_core.data.utils", "ai2-olmo-core")
    export(corpus, tmp_path / "out", to="olmo", tokens_per_file=200)
    rows = []
    files = sorted((tmp_path / "out/web").glob("train_*.npy"))
    assert len(files) > 1
    for path in files:
        tokens = np.memmap(path, np.uint16, "r")
        by_index = list(module.iter_document_indices(path, use_array_if_local=False))
        by_token = list(module.iter_document_indices(path, eos_token_id=END, dtype=np.uint16))
        assert [tuple(map(int, pair)) for pair in by_token] == by_index
        rows += [tokens[start:end].tolist() for start, end in by_index]
    assert rows == ROWS
    data = package("olmo_core.data", "ai2-olmo-core")
    found = data.NumpyFSLDataset(
        *files, sequence_length=16, pad_token_id=END, eos_token_id=END, vocab_size=VOCABULARY
    )
    assert found.dtype == np.uint16
    first = np.fromfile(files[0], np.uint16)[:16].tolist()
    assert found[0]["input_ids"].tolist() == first


@pytest.mark.filterwarnings("ignore")
def test_datatrove(corpus: Path, tmp_path: Path) -> None:
    module = package("datatrove.utils.dataset", "datatrove")
    export(corpus, tmp_path / "out", to="datatrove", sources=["web"], split="train")
    stream = [token for row in ROWS for token in row]
    found = module.DatatroveFolderDataset(
        str(tmp_path / "out/web/train"), seq_len=9, token_size=2, return_positions=True
    )
    assert len(found) == len(stream) // 10
    rows = [found[place] for place in range(len(found))]
    assert [token for row in rows for token in row["input_ids"].tolist()] == stream[
        : 10 * len(rows)
    ]
    begins = {0}
    for row in ROWS:
        begins.add(max(begins) + len(row))
    # A position is 0 where a document begins, and at the beginning of a window.
    for place, row in enumerate(rows):
        zeros = [n for n, position in enumerate(row["positions"].tolist()) if position == 0]
        assert zeros == [n for n in range(10) if n == 0 or 10 * place + n in begins]


@pytest.mark.filterwarnings("ignore")
def test_datasets_of_hugging_face(corpus: Path, tmp_path: Path) -> None:
    module = package("datasets", "datasets")
    export(corpus, tmp_path / "out", to="hf-parquet", tokens_per_file=200)
    found = module.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert sorted(found) == ["train", "validation"]
    assert found["train"].column_names == ["input_ids", "document", "source"]
    by_source: dict[str, list[list[int]]] = {"web": [], "books": []}
    for row in found["train"]:
        by_source[row["source"]].append(row["input_ids"])
    assert by_source == {"web": ROWS, "books": BOOKS}
    assert found["validation"]["input_ids"][:] == VAL
    named = module.load_dataset(
        "parquet",
        data_files={"train": str(tmp_path / "out/data/train-*.parquet")},
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert named["input_ids"][:] == found["train"]["input_ids"][:]
    # What `datasets` writes is imported.
    (tmp_path / "theirs").mkdir()
    named.select_columns(["input_ids"]).to_parquet(tmp_path / "theirs/train-00000.parquet")
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_bytes(word_tokenizer(VOCABULARY))
    result = import_tokens(
        tmp_path / "theirs", tmp_path / "back", format="hf-parquet", tokenizer=str(tokenizer)
    )
    assert result["documents"] == len(ROWS) + len(BOOKS)
    back = TokenDocuments(tmp_path / "back")
    assert [row.tolist() for row in back] == named["input_ids"][:]


@pytest.mark.filterwarnings("ignore")
def test_grain_reads_shards_without_a_copy(corpus: Path) -> None:
    grain = package("grain.python", "grain")
    source = TokenDocuments(corpus, sources=["web"])
    assert [row.tolist() for row in grain.MapDataset.source(source)] == ROWS
    shuffled = grain.MapDataset.source(source).shuffle(seed=1)
    assert sorted(row.tolist() for row in shuffled) == sorted(ROWS)
    loader = shuffled.to_iter_dataset(grain.ReadOptions(num_threads=2))
    assert sorted(row.tolist() for row in loader) == sorted(ROWS)


def test_documents_by_their_place(corpus: Path, tmp_path: Path) -> None:
    source = TokenDocuments(corpus)
    both = [*BOOKS, *ROWS]
    assert [row.tolist() for row in source] == both
    assert [source[place].tolist() for place in range(-len(both), 0)] == both
    assert source[0].dtype == np.int64
    assert TokenDocuments(corpus, dtype="uint16")[0].dtype == np.uint16
    copied = pickle.loads(pickle.dumps(source))
    assert [row.tolist() for row in copied] == both
    moved = shutil.copytree(corpus, tmp_path / "moved")
    assert repr(TokenDocuments(moved)) == repr(source)
    for place in (len(both), -len(both) - 1):
        with pytest.raises(IndexError):
            source[place]
    config = TokenDocumentsConfig(corpus=str(corpus), sources=("web",), split="val")
    assert [row.tolist() for row in config.build(dataset_iteration_policy=None)] == VAL
    with pytest.raises(RecipeError, match="has no val tokens"):
        TokenDocuments(corpus, sources=["books"], split="val")


TORCHTITAN = """
import json, re, sys
from pathlib import Path
from torchtitan.components.data import DatasetIterationPolicy, SingleDatasetConfig
from gristmill.trainer_formats.token_source import TokenDocumentsConfig

corpus, out, readme = sys.argv[1:]
policy = DatasetIterationPolicy(
    seed=1, shuffle=False, repeat=False, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=1
)
rank = DatasetIterationPolicy(
    seed=1, shuffle=True, repeat=False, dp_rank=1, dp_world_size=2, streaming_shuffle_buffer_size=1
)
ours = SingleDatasetConfig(source=TokenDocumentsConfig(corpus=corpus, sources=("web",)))
found = {}
for name, given in (("ours", policy), ("rank", rank)):
    built = ours.build(context=None, dataset_iteration_policy=given)
    found[name] = [row.tolist() for row in built]
text = Path(readme).read_text().partition("Pretokenized data")[2]
example = re.search("```python\\n(.*?)```", text, re.DOTALL)[1]
example = example.replace('"tokens.bin"', repr(out + "/train/tokens.bin"))
example = example.replace('"document_offsets.npy"', repr(out + "/train/document_offsets.npy"))
exec(example)
built = token_documents_ds.build(context=None, dataset_iteration_policy=policy)
found["example"] = [[*row.input_ids.tolist(), int(row.labels[-1])] for row in built if row]
print(json.dumps(found))
"""


def test_torchtitan_reads_shards_and_the_example_of_its_page(corpus: Path, tmp_path: Path) -> None:
    program = checkout("torchtitan")
    package("grain.python", "grain")
    for name in ("datasets", "tyro", "spmd_types"):
        package(name, name)
    export(corpus, tmp_path / "out", to="torchtitan", sources=["web"])
    page = program / "torchtitan/components/data/README.md"
    done = subprocess.run(
        [sys.executable, "-c", TORCHTITAN, corpus, tmp_path / "out", page],
        env={**os.environ, "PYTHONPATH": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ours"] == ROWS
    assert len(found["rank"]) in (len(ROWS) // 2, len(ROWS) - len(ROWS) // 2)
    assert all(row in ROWS for row in found["rank"])
    # The example leaves out documents of one token: they have no label.
    assert found["example"] == [row for row in ROWS if len(row) > 1]


def test_the_files_for_torchtitan_by_numpy(corpus: Path, tmp_path: Path) -> None:
    export(corpus, tmp_path / "out", to="torchtitan", sources=["web"])
    tokens = np.memmap(tmp_path / "out/train/tokens.bin", dtype=np.uint32, mode="r")
    offsets = np.load(tmp_path / "out/train/document_offsets.npy")
    rows = []
    for index in range(len(offsets) - 1):
        start, end = offsets[index : index + 2]
        rows.append(np.asarray(tokens[start:end], dtype=np.int64).tolist())
    assert rows == ROWS


def test_h5py(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = package("h5py", "h5py")
    for name in ("a", "b"):
        export(corpus, tmp_path / name, to="hdf5")
    assert (tmp_path / "a/SHA256SUMS").read_bytes() == (tmp_path / "b/SHA256SUMS").read_bytes()
    with h5py.File(tmp_path / "a/train.h5") as file:
        offsets, tokens = file["document_offsets"][:], file["tokens"][:].tolist()
        rows = [tokens[a:b] for a, b in itertools.pairwise(offsets)]
        names = json.loads(file.attrs["sources"])
        by_source: dict[str, list[list[int]]] = {name: [] for name in names}
        for row, place in zip(rows, file["sources"][:].tolist(), strict=True):
            by_source[names[place]].append(row)
        assert by_source == {"web": ROWS, "books": BOOKS}
        assert file["tokens"].dtype == np.dtype("<u2")
        assert len(file["documents"]) == len(rows)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RecipeError, match=r"pip install 'gristmill\[hdf5\]'"):
        hdf5.library()


def run_of(tmp_path: Path, tokenizer: str = "t.json") -> Path:
    """A corpus of prose with a tokenizer that was trained on it."""
    rows = [{"text": article(number, 60)} for number in range(60)]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    if tokenizer == "t.json":
        gristmill.train_tokenizer([tmp_path / "a.jsonl"], tmp_path / "t.json", vocabulary=300)
    (tmp_path / "recipe.toml").write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n'
        f'[tokens]\ntokenizer = "{tokenizer}"\nvalidation = 0.2\n'
    )
    gristmill.run(tmp_path / "recipe.toml", workers=1)
    return tmp_path / "corpus"


def test_nanogpt_trains_and_samples_on_the_folder(tmp_path: Path) -> None:
    package("torch", "torch")
    program = shutil.copytree(checkout("nanoGPT"), tmp_path / "nanoGPT")
    export(run_of(tmp_path), program / "data/ours", to="nanogpt")
    options = (
        "--dataset=ours --device=cpu --compile=False --dtype=float32 --eval_iters=2 "
        "--log_interval=1 --block_size=64 --batch_size=4 --n_layer=1 --n_head=2 --n_embd=32 "
        "--max_iters=12 --eval_interval=6 --lr_decay_iters=12 --dropout=0.0 "
        "--gradient_accumulation_steps=1 --warmup_iters=0 --learning_rate=1e-2"
    )
    done = subprocess.run(
        [sys.executable, "train.py", *options.split()],
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "found vocab_size = 300" in done.stdout
    losses = [
        float(line.split("val loss ")[1])
        for line in done.stdout.splitlines()
        if line.startswith("step ")
    ]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    sample = "--device=cpu --dtype=float32 --num_samples=1 --max_new_tokens=20 --start=The"
    done = subprocess.run(
        [sys.executable, "sample.py", *sample.split()],
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Loading meta from data/ours/meta.pkl" in done.stdout


LLMC_MAIN = """
#include "llmc/dataloader.h"
int main(int argc, char **argv) {
    DataLoader loader;
    dataloader_init(&loader, argv[1], 1, 8, 0, 1, 0);
    printf("%zu\\n", loader.num_tokens);
    dataloader_next_batch(&loader);
    for (int i = 0; i < 8; i++) printf("%d %d\\n", loader.inputs[i], loader.targets[i]);
    dataloader_free(&loader);
}
"""


def test_the_loader_of_llmc(corpus: Path, tmp_path: Path) -> None:
    program = checkout("llm.c")
    compiler = shutil.which("cc")
    if compiler is None:
        missing("cc", "there is no C compiler")
    export(corpus, tmp_path / "out", to="llmc", sources=["web"], tokens_per_file=200)
    (tmp_path / "main.c").write_text(LLMC_MAIN)
    subprocess.run(
        [
            str(compiler),
            "-w",
            "-O2",
            "-fgnu89-inline",
            f"-I{program}",
            "-o",
            tmp_path / "main",
            tmp_path / "main.c",
            "-lm",
        ],
        check=True,
    )
    done = subprocess.run(
        [tmp_path / "main", tmp_path / "out/web_train_*.bin"],
        capture_output=True,
        text=True,
        check=True,
    )
    total, *pairs = done.stdout.splitlines()
    stream = [token for row in ROWS for token in [END, *row[:-1]]]
    assert int(total) == len(stream)
    assert [tuple(map(int, pair.split())) for pair in pairs] == list(itertools.pairwise(stream[:9]))


def test_the_loader_of_modded_nanogpt(corpus: Path, tmp_path: Path) -> None:
    """Its function that reads a shard, on a machine without a GPU: without pinned memory."""
    torch = package("torch", "torch")
    text = (checkout("modded-nanogpt") / "train_gpt.py").read_text()
    tree = ast.parse(text)
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "_load_data_shard"
    )
    code = ast.unparse(function).replace("pin_memory=True", "pin_memory=False")
    names: dict[str, Any] = {"torch": torch, "Path": Path}
    exec(compile(code, "train_gpt.py", "exec"), names)
    export(corpus, tmp_path / "out", to="llmc", sources=["web"], tokens_per_file=200)
    found = []
    for path in sorted((tmp_path / "out").glob("web_train_*.bin")):
        found += names["_load_data_shard"](path).tolist()
    assert found == [token for row in ROWS for token in [END, *row[:-1]]]


def test_nanochat_reads_texts_and_validation(tmp_path: Path) -> None:
    package("torch", "torch")
    package("requests", "requests")
    program = checkout("nanochat")
    corpus = run_of(tmp_path)
    home = tmp_path / "home"
    export(corpus, home / "base_data_climbmix", to="nanochat")
    code = (
        "import json; from nanochat.dataset import parquets_iter_batched as batches\n"
        "print(json.dumps({s: [t for r in range(4) for b in batches(s, r, 4) for t in b] "
        "for s in ('train', 'val')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=program,
        env={**os.environ, "NANOCHAT_BASE_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    manifest = json.loads((corpus / "manifest.json").read_text())
    counts = manifest["funnel"]
    assert (len(found["train"]), len(found["val"])) == (
        counts["train_documents"],
        counts["validation_documents"],
    )
    texts = {article(number, 60) for number in range(60)}
    assert set(found["train"]) | set(found["val"]) <= texts
    assert not set(found["train"]) & set(found["val"])

"""The documents that kernels are measured on, cut from the real texts; written once below
benchmarks/data.

    english    novels as they are, in pieces of about 4 KB
    web        what make_corpus.py makes: English, 12 % in other languages, copies, junk
    greek      Greek novels of the 19th century, in the old spelling with all accents
    languages  novels in 12 languages and in English, mixed
    code       Python's standard library
    east       sentences in Chinese, Japanese, Korean and Thai
    all        web, english and every other language, mixed

Each has `warm` texts, other ones of the same kind. `web` begins with pairs of known similarity.
"""

import hashlib
import json
import random
import sysconfig
from pathlib import Path

import make_corpus

SIZES = {
    "english": 20_000_000,
    "web": 30_000_000,
    "greek": 2_000_000,
    "languages": 13_000_000,
    "code": 20_000_000,
    "east": 2_000_000,
    "all": 20_000_000,
}
EAST = ("cmn_Hans", "cmn_Hant", "jpn", "kor", "tha", "yue")  # FLORES-200's names
WARM_BYTES = 4_000_000
SEED = 1
PAIRS = 40


def prepare(folder: Path, names: list[str]) -> dict[str, Path]:
    """The files of the sets named; those that are missing are made, which costs about 15 s."""
    sources = b"".join(Path(module).read_bytes() for module in (__file__, make_corpus.__file__))
    key = hashlib.sha256(sources).hexdigest()[:12]
    paths = {name: folder / f"documents-{name}-{key}.json" for name in names}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        pools = (
            make_corpus.load_pools(make_corpus.data_folder())
            if {"web", "all"} & set(missing)
            else []
        )
        for name in missing:
            _write(paths[name], *_make(name, pools))
    return paths


def _make(
    name: str, pools: list[make_corpus.Pool]
) -> tuple[list[str], list[tuple[int, int, float]]]:
    folder = make_corpus.data_folder() / "I_prose"
    shuffle = random.Random(SEED)
    if name == "english":
        texts = _pieces(
            [path.read_text("utf-8") for path in sorted(folder.glob("english_novels/*.txt"))]
        )
    elif name == "greek":
        texts = _tei_pieces(sorted(folder.glob("eltec_gre/*.xml")))
    elif name == "languages":
        each = SIZES[name] // 13 // 4000
        texts = _make("english", [])[0][:each]
        for language in sorted(folder.glob("eltec_*")):
            texts += _tei_pieces(sorted(language.glob("*.xml")))[:each]
    elif name == "code":
        texts = _code(SIZES[name])
    elif name == "east":
        texts = _east(folder.parent / "D_langid")
    else:
        rows = SIZES[name] // 4000
        maker = make_corpus.Maker(pools, SEED, [rows])
        texts = [maker.make(0, row).text.decode() for row in range(rows)]
        if name == "web":
            return _with_pairs(texts, shuffle)
        texts = texts[: rows // 2] + _make("english", [])[0][: rows // 4]
        for language in sorted(folder.glob("eltec_*")):
            texts += _tei_pieces(sorted(language.glob("*.xml")))[: rows // 40]
    shuffle.shuffle(texts)
    return texts, []


def _pieces(texts: list[str]) -> list[str]:
    """Texts in pieces of whole paragraphs, about 4 KB each."""
    pieces, piece, size = [], [], 0
    for text in texts:
        for paragraph in make_corpus.plain_paragraphs(text):
            piece.append(paragraph)
            size += len(paragraph.encode())
            if size >= 4000:
                pieces.append("\n".join(piece))
                piece, size = [], 0
    return pieces


def _tei_pieces(paths: list[Path]) -> list[str]:
    return _pieces(["\n\n".join(make_corpus.tei_paragraphs(path)) for path in paths])


def _code(size: int) -> list[str]:
    """Files of Python's standard library."""
    texts = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        try:
            texts.append(path.read_text("utf-8"))
        except UnicodeDecodeError:
            continue  # tests of other encodings
        size -= len(texts[-1])
        if size < 0:
            break
    return texts


def _east(folder: Path) -> list[str]:
    """30 lines a text."""
    names = [f"flores200_devtest/devtest/{name}.devtest" for name in EAST]
    names += [
        f"tatoeba_laser112/tatoeba.{name}-eng.{name}" for name in ("cmn", "jpn", "kor", "tha")
    ]
    lines = [line for name in names for line in (folder / name).read_text("utf-8").splitlines()]
    random.Random(SEED).shuffle(lines)
    return ["\n".join(lines[at : at + 30]) for at in range(0, len(lines), 30)]


def _with_pairs(
    texts: list[str], shuffle: random.Random
) -> tuple[list[str], list[tuple[int, int, float]]]:
    """Put copies with a few to many words changed at the front, each behind its original."""
    front: list[str] = []
    pairs = []
    originals = [text for text in texts if text.isascii() and text.count(" ") > 150][:PAIRS]
    for text in originals:
        words = text.split(" ")
        share = shuffle.choice((0.005, 0.01, 0.02, 0.04, 0.08))
        changed = [shuffle.choice(words) if shuffle.random() < share else word for word in words]
        copy = " ".join(changed)
        left, right = _shingles(text), _shingles(copy)
        pairs.append((len(front), len(front) + 1, len(left & right) / len(left | right)))
        front += [text, copy]
    return front + texts, pairs


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def _write(path: Path, texts: list[str], pairs: list[tuple[int, int, float]]) -> None:
    """One text in six is for warming up, up to WARM_BYTES; none of the pairs."""
    front = 2 * len(pairs)
    warm, rest, size = [], texts[:front], 0
    for place, text in enumerate(texts[front:]):
        if place % 6 == 0 and size < WARM_BYTES:
            warm.append(text)
            size += len(text.encode())
        else:
            rest.append(text)
    part = path.with_suffix(".part")
    part.write_text(
        json.dumps(
            {"warm": warm, "texts": rest, "pairs": pairs, "paired": front}, ensure_ascii=False
        ),
        "utf-8",
    )
    part.rename(path)

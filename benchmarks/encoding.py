"""Byte-pair encoding beside its peers: `bench.py encode`, by processes of this file (rounds.py).

    encoding.py ENCODER/TOKENIZER DOCUMENTS LIMIT

A round is cold (a new encoder, nothing read before) or warm (a new encoder that has read other
texts of the same kind), by turns. Every encoder gets what it takes fastest: ours columns of Arrow
of about 4 MB, gigatoken and tiktoken bytes or strings, HF strings; one thread. A process of the
kind `memory` tells how much more memory it holds after random words.
"""

import os
import statistics
import sys
from pathlib import Path
from typing import Any

import rounds
from measured import Measured, PeerFailed
from section import Section, met, number

HERE = Path(__file__).parent
TOKENIZERS = {"gpt2": "r50k_base", "cl100k": "cl100k_base", "o200k": "o200k_base"}
TEXTS = ("english", "web", "languages", "greek", "code", "east")
STATES = ("cold", "warm")
MEGABYTES = {"gigatoken": 8.0, "tiktoken": 2.0, "tokenizers": 1.0, "datasets": 1.0}
ODD_MEGABYTES = 40  # of random words
TARGET = {"gigatoken": 1.0, "tiktoken": 7.0, "tokenizers": 7.0, "datasets": 7.0}


def _encoding(name: str) -> Any:
    import tiktoken

    return tiktoken.get_encoding(TOKENIZERS[name])


def _odd_words() -> list[str]:
    """Random words of 8 letters, 1 MB a text: what a table of pieces never meets again."""
    import numpy as np

    generator = np.random.default_rng(1)
    texts = []
    for _ in range(ODD_MEGABYTES):
        letters = generator.integers(97, 123, (1_000_000 // 9, 9), np.uint8)
        letters[:, 0] = 32
        texts.append(letters.tobytes().decode())
    return texts


def _resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Encoder(rounds.Work):
    """One encoder with one tokenizer; a subclass makes and calls it."""

    def __init__(self, documents: rounds.Documents, name: str) -> None:
        super().__init__(documents)
        self.name = name
        self.turn = -1
        self.texts, self.warm = self.shaped(documents.texts), self.shaped(documents.warm)

    def prepare(self) -> None:
        self.turn += 1
        self.encoder = None
        self.encoder = self.make()
        if STATES[self.turn % 2] == "warm":
            self.encode(self.warm)

    def run(self) -> Any:
        return self.encode(self.texts)

    def check(self, result: Any) -> Any:
        return rounds.digest_of_tokens(self.lists(result))

    def shaped(self, texts: list[str]) -> Any:
        """Texts as the encoder takes them fastest."""
        return texts

    def make(self) -> Any:
        """A new encoder."""
        raise NotImplementedError

    def encode(self, texts: Any) -> Any:
        """The tokens of all texts."""
        raise NotImplementedError

    def lists(self, result: Any) -> Any:
        """The tokens of each text."""
        return result


class Memory(rounds.Work):
    """How much more memory an encoder holds after random words: its `check`."""

    def __init__(self, work: Encoder) -> None:
        super().__init__(work.documents)
        self.packages = work.packages
        self.work = work
        work.prepare()
        work.encode(work.texts)
        self.before = _resident()
        self.odd = work.shaped(_odd_words())

    def run(self) -> Any:
        before = _resident()
        for at in range(len(self.odd)):
            self.work.encode(self.odd[at : at + 1])
        return _resident() - before

    def check(self, result: Any) -> Any:
        return {"bytes": result}


class Ours(Encoder):
    """gristmill.kernels.bpe.encoder.Encoder, as tokens.tokenizer calls it."""

    packages = ("numpy", "numba", "llvmlite", "pyarrow")

    def make(self) -> Any:
        from gristmill.kernels.bpe import encoder, merges
        from gristmill.kernels.pieces.pattern_names import Pattern

        if not hasattr(self, "merges"):
            ranks = _encoding(self.name)._mergeable_ranks
            self.merges = merges.merges_of_ranks(sorted(ranks, key=ranks.__getitem__))
        return encoder.Encoder(self.merges, Pattern[self.name.upper()])

    def shaped(self, texts: list[str]) -> Any:
        import ours

        from gristmill.tables.columns import utf8_buffers

        return [utf8_buffers(batch) for batch in ours._batches(texts)]

    def encode(self, texts: Any) -> Any:
        return [self.encoder.encode(*batch) for batch in texts]

    def lists(self, result: Any) -> Any:
        import numpy as np

        return [part for offsets, tokens in result for part in np.split(tokens, offsets[1:-1])]


class Gigatoken(Encoder):
    """gigatoken's batch form on bytes, not parallel."""

    packages = ("gigatoken",)

    def make(self) -> Any:
        import base64
        import tempfile

        import gigatoken

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ranks.tiktoken")
            ranks = _encoding(self.name)._mergeable_ranks
            lines = (b"%s %d\n" % (base64.b64encode(token), ranks[token]) for token in ranks)
            path.write_bytes(b"".join(lines))
            return gigatoken.Tokenizer.from_tiktoken(path, pretokenizer=self.name)

    def shaped(self, texts: list[str]) -> Any:
        return [text.encode() for text in texts]

    def encode(self, texts: Any) -> Any:
        return self.encoder.encode_batch(texts, parallel=False)

    def lists(self, result: Any) -> Any:
        import numpy as np

        return [np.asarray(row) for row in result]


class Tiktoken(Encoder):
    """tiktoken, a document a call; it remembers nothing."""

    packages = ("tiktoken",)

    def make(self) -> Any:
        return _encoding(self.name)

    def encode(self, texts: Any) -> Any:
        encode = self.encoder.encode_ordinary
        return [encode(text) for text in texts]


class Tokenizers(Encoder):
    """HF tokenizers' `encode_batch_fast`."""

    packages = ("tokenizers",)

    def make(self) -> Any:
        import tokenizers

        return tokenizers.Tokenizer.from_file(os.environ["GRISTMILL_BENCH_TOKENIZER"])

    def encode(self, texts: Any) -> Any:
        return self.encoder.encode_batch_fast(texts, add_special_tokens=False)

    def lists(self, result: Any) -> Any:
        return [encoding.ids for encoding in result]


class Datasets(Encoder):
    """HF datasets' `map` in batches with a fast tokenizer of transformers; in one process, in
    memory, and without a hash of the function, which would cost more than the texts.
    """

    packages = ("datasets", "transformers", "tokenizers")

    def make(self) -> Any:
        import transformers

        path = os.environ["GRISTMILL_BENCH_TOKENIZER"]
        return transformers.PreTrainedTokenizerFast(tokenizer_file=path)

    def shaped(self, texts: list[str]) -> Any:
        import datasets

        datasets.disable_progress_bars()
        return datasets.Dataset.from_dict({"text": texts})

    def encode(self, texts: Any) -> Any:
        tokenize = self.encoder
        return texts.map(
            lambda rows: tokenize(rows["text"], add_special_tokens=False),
            batched=True,
            new_fingerprint=f"{self.turn}-{len(texts)}",
            load_from_cache_file=False,
        )

    def lists(self, result: Any) -> Any:
        return result["input_ids"]


ENCODERS = {
    "ours": Ours,
    "gigatoken": Gigatoken,
    "tiktoken": Tiktoken,
    "tokenizers": Tokenizers,
    "datasets": Datasets,
}


def works() -> dict[str, Any]:
    """ENCODER/TOKENIZER, and with /memory behind it how much that holds."""
    made: dict[str, Any] = {}
    for encoder, kind in ENCODERS.items():
        for name in TOKENIZERS:
            made[f"{encoder}/{name}"] = lambda documents, kind=kind, name=name: kind(
                documents, name
            )
            made[f"{encoder}/{name}/memory"] = lambda documents, kind=kind, name=name: Memory(
                kind(documents, name)
            )
    return made


def rows(bench: Any) -> list[dict[str, Any]]:
    """A row for each peer, tokenizer, text and state; then the rows of memory."""
    import documents

    paths = documents.prepare(bench.data, list(TEXTS))
    out = []
    for peer in MEGABYTES:
        for name in ("gpt2",) if peer in ("tokenizers", "datasets") else TOKENIZERS:
            for text in TEXTS if peer == "gigatoken" else ("english", "languages"):
                out += _compare(bench, peer, name, text, paths[text])
    for encoder in ("ours", "gigatoken"):
        for name in ("gpt2", "cl100k"):
            out.append(_memory(bench, encoder, name, paths["english"]))
    return out


def _start(bench: Any, encoder: str, work: str, path: Path, megabytes: float) -> Any:
    python = sys.executable if encoder == "ours" else bench.peers
    environment = bench.environment if encoder == "ours" else bench.peer_environment
    return Measured(python, "encoding.py", work, path, int(megabytes * 1e6), environment)


def _compare(bench: Any, peer: str, name: str, text: str, path: Path) -> list[dict[str, Any]]:
    row = {"peer": peer, "tokenizer": name, "text": text}
    if bench.peers is None:
        return [{**row, "state": "cold", "failed": "no environment of peers"}]
    pair: list[Any] = []
    times: dict[str, list[list[float]]] = {state: [[], []] for state in STATES}
    try:
        for encoder in ("ours", peer):
            pair.append(_start(bench, encoder, f"{encoder}/{name}", path, MEGABYTES[peer]))
        for turn in range(2 * bench.asked.rounds + 2):
            for place, process in enumerate(pair):
                took = process.ask("round")["cpu"]
                if turn > 1:  # the first rounds are for caches and branch predictors
                    times[STATES[turn % 2]][place].append(took)
        checks = [process.ask("check")["check"] for process in pair]
    except PeerFailed as error:
        return [{**row, "state": "cold", "failed": str(error)}]
    finally:
        for process in pair:
            process.close()
    out = []
    for process in pair:
        bench.versions |= process.about["versions"]
    size = pair[0].about["megabytes"]
    for state in STATES:
        ours, theirs = times[state]
        ratios = [slow / fast for fast, slow in zip(ours, theirs, strict=True)]
        out.append(
            {
                **row,
                "state": state,
                "megabytes": size,
                "seconds": times[state],
                "ours": size / statistics.median(ours),
                "theirs": size / statistics.median(theirs),
                "ratio": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
                "target": TARGET[peer],
                "equal": checks[0]["digest"] == checks[1]["digest"],
            }
        )
        bench.say(
            f"{name} {text} {state}: ours {out[-1]['ours']:.0f}, {peer} "
            f"{out[-1]['theirs']:.0f} MB/s, ratio {out[-1]['ratio']:.2f}, "
            f"equal {out[-1]['equal']}"
        )
    return out


def _memory(bench: Any, encoder: str, name: str, path: Path) -> dict[str, Any]:
    row = {"memory": encoder, "tokenizer": name, "megabytes": ODD_MEGABYTES}
    if encoder != "ours" and bench.peers is None:
        return {**row, "failed": "no environment of peers"}
    process = None
    try:
        process = _start(bench, encoder, f"{encoder}/{name}/memory", path, 1.0)
        grown = []
        for _ in range(2):
            process.ask("round")
            grown.append(process.ask("check")["check"]["bytes"] / 1e6)
    except PeerFailed as error:
        return {**row, "failed": str(error)}
    finally:
        if process is not None:
            process.close()
    bench.say(f"memory of {encoder} with {name}: {grown}")
    return {**row, "grown": grown}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as lines of Markdown."""
    lines = [
        (
            "| tokenizer | text | | MB | ours, MB/s | peer | peer, MB/s | ratio (least to most) "
            "| target ratio | equal |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "memory" in row:
            continue
        front = f"| {row['tokenizer']} | {row['text']} | {row['state']} |"
        if "failed" in row:
            lines.append(f"{front} | | {row['peer']} | not measured: {row['failed']} | | | |")
            continue
        lines.append(
            f"{front} {row['megabytes']:.1f} | {number(row['ours'])} | {row['peer']} "
            f"| {number(row['theirs'])} "
            f"| {number(row['ratio'])} ({number(row['least'])} to {number(row['most'])}) "
            f"| {met(row['ratio'], row['target'])} "
            f"| {'yes' if row['equal'] else '**no**'} |"
        )
    lines += [
        "",
        (
            f"Memory that a process holds more after {ODD_MEGABYTES} MB of random words, and after "
            "the same again:"
        ),
        "",
        "| encoder | tokenizer | MB more | MB more the second time |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if "memory" in row:
            cells = [row.get("failed", ""), ""]
            if "grown" in row:
                cells = [f"{grown:.0f}" for grown in row["grown"]]
            lines.append(f"| {row['memory']} | {row['tokenizer']} | {' | '.join(cells)} |")
    return lines


SECTION = Section(
    name="encode",
    title="Byte-pair encoding",
    remarks=(
        "One core, processor time. Equal: the same tokens for every document. Cold: a new encoder"
        " that has read nothing; warm: a new one that has read other texts of the same kind (4 "
        "MB, or a sixth of what there is). gigatoken gets bytes in a batch, tiktoken a string a "
        "call, HF tokenizers a batch of strings; ours columns of Arrow of about 4 MB. `datasets` "
        "is HF datasets' `map` in batches with a fast tokenizer, in one process and in memory."
    ),
    measure=rows,
    table=table,
)


if __name__ == "__main__":
    rounds.serve(works())

"""Extractors of main text in an environment of their own, and rouge-score beside our own sum:
`PYTHON extraction_peers.py ASKED ANSWER` (extraction.py).

    pip install newspaper4k html-text boilerpy3 readability-lxml lxml_html_clean rouge-score

Each is run as its documentation shows, on pages that are strings. One that is not installed is left
out.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

Extract = Callable[[str], str]


def _newspaper() -> Extract:
    from newspaper import Article

    def extract(source: str) -> str:
        article = Article("http://host.example/", fetch_images=False)
        article.download(input_html=source)
        article.parse()
        return str(article.text)

    return extract


def _html_text() -> Extract:
    import html_text

    return lambda source: str(html_text.extract_text(source))


def _boilerpy() -> Extract:
    from boilerpy3.extractors import ArticleExtractor

    extractor = ArticleExtractor(raise_on_failure=False)
    return lambda source: str(extractor.get_content(source))


def _readability() -> Extract:
    from lxml import html
    from readability import Document

    def extract(source: str) -> str:
        found = html.fromstring(Document(source).summary())
        return "\n".join(" ".join(part.split()) for part in found.itertext() if part.strip())

    return extract


# The package to install, the module that it brings, and what extracts.
PEERS: dict[str, tuple[str, Callable[[], Extract]]] = {
    "newspaper4k": ("newspaper", _newspaper),
    "html-text": ("html_text", _html_text),
    "boilerpy3": ("boilerpy3", _boilerpy),
    "readability-lxml": ("readability", _readability),
}


def _run(extract: Extract, sources: list[str]) -> tuple[list[str], float]:
    """The texts, empty where it raised an error; processor seconds."""
    start, texts = time.process_time(), []
    for source in sources:
        try:
            texts.append(extract(source))
        except Exception:  # noqa: BLE001 - a peer's errors are of its own kinds
            texts.append("")
    return texts, time.process_time() - start


def _rouge(pairs: list[list[str]]) -> list[float]:
    """What rouge-score says, with words of all scripts."""
    from rouge_score import rouge_scorer, tokenizers

    class Words(tokenizers.Tokenizer):  # type: ignore[misc]
        def tokenize(self, text: str) -> list[str]:
            return re.findall(r"\w+", text.lower())

    scorer = rouge_scorer.RougeScorer(["rougeLsum"], tokenizer=Words())
    return [scorer.score(true, kept)["rougeLsum"].fmeasure for kept, true in pairs]


def main(asked: Path, answer: Path) -> None:
    """Run what is here over the pages that are asked for."""
    work = json.loads(asked.read_text("utf-8"))
    told: dict[str, object] = {"versions": {}, "rouge": None}
    for name, (module, make) in PEERS.items():
        if find_spec(module) is None:
            continue
        extract = make()
        told["versions"][name] = version(name)  # type: ignore[index]
        told[name] = {}
        for pages, sources in work["sets"].items():
            runs = [_run(extract, sources) for _ in range(work["rounds"])]
            told[name][pages] = (runs[0][0], min(seconds for _, seconds in runs))  # type: ignore[index]
    if find_spec("rouge_score"):
        told["rouge"] = _rouge(work["pairs"])
    answer.write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

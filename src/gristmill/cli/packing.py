"""The verb that packs a corpus' token shards into windows: thin, as app.py."""

from typing import TYPE_CHECKING, cast

from typer import Option

from gristmill.cli.arguments import Json
from gristmill.cli.report import Corpus
from gristmill.progress.terminal import print_result
from gristmill.system.interrupts import handle_ctrl_c

if TYPE_CHECKING:
    from gristmill.corpus.token_corpus import Split


def pack(
    corpus: Corpus,
    sequence_length: int = Option(2048, min=1, help="Positions of a window."),
    packing: str = Option(
        "best_fit",
        help="concat: documents one behind another. best_fit: none is cut that fits into a "
        "window. aligned: each window begins with a document.",
    ),
    split_at: str | None = Option(
        None, help="With best_fit: cut long documents at the end of a paragraph or a sentence."
    ),
    longer: str | None = Option(
        None,
        help="With best_fit, for documents longer than a window: cut them (the default) or "
        "refuse the corpus.",
    ),
    keep_rest: bool = Option(
        False, help="With aligned: keep the rest of a cut document where it fills a window."
    ),
    split: str = Option("train", help="train or val."),
    as_json: Json = False,
) -> None:
    """Pack the documents of a corpus into windows: padding, documents cut, tokens left out.

    It also makes the index that a loader with this packing needs, in ~/.cache/gristmill/packing
    or the folder that the environment variable GRISTMILL_PACKING names.
    """
    from gristmill.corpus.token_corpus import TokenCorpus
    from gristmill.loader.packing_report import lines, packing_report

    handle_ctrl_c()
    asked: dict[str, object] = {"kind": packing}
    if split_at is not None:
        asked["split_at"] = split_at
    if longer is not None:
        asked["longer"] = longer
    if keep_rest:
        asked["keep_rest"] = True
    of = cast("Split", split)  # packing_report refuses another word
    result = packing_report(TokenCorpus.open(corpus), sequence_length, asked, split=of)
    print_result(result, as_json, lines(result))

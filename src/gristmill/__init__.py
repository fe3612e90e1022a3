"""Raw web in, verified training tokens out.

    import gristmill
    from gristmill import filters

    gristmill.run("recipe.toml")                     a verb of the command line
    filters.Gopher(min_words=50)("Some text.")       a filter on texts in memory
    gristmill.Corpus("corpus").documents()           what a run has kept

Every verb of the command line is a function here: `gristmill model show` is show_model,
`gristmill release sign` is release_sign, `gristmill import` is import_tokens, and `gristmill node`
is Node (docs/library.md). Nothing heavy is imported until a name is used.
"""

from typing import TYPE_CHECKING

from gristmill.system.lazy_names import lazy, typed_imports

if TYPE_CHECKING:  # where each name is, which typed_imports reads
    from gristmill import filters as filters
    from gristmill.corpus.funnel import Funnel as Funnel
    from gristmill.corpus.token_corpus import TokenCorpus as TokenCorpus
    from gristmill.dedup.banding import curve as curve
    from gristmill.dedup.settings import Near as Near
    from gristmill.dedup.stream.duplicate_index import DuplicateIndex as DuplicateIndex
    from gristmill.demonstration import demo as demo
    from gristmill.errors import ArgumentError as ArgumentError
    from gristmill.errors import GristmillError as GristmillError
    from gristmill.errors import MachineError as MachineError
    from gristmill.errors import RecipeError as RecipeError
    from gristmill.errors import SourceError as SourceError
    from gristmill.errors import VerificationError as VerificationError
    from gristmill.library.duplicate_texts import MinHash as MinHash
    from gristmill.library.duplicate_texts import deduplicate_texts as deduplicate
    from gristmill.library.open_corpus import OpenCorpus as Corpus
    from gristmill.library.text_functions import extract as extract
    from gristmill.library.text_functions import language as language
    from gristmill.loader.bench_loader import bench_loader as bench_loader
    from gristmill.loader.ledger import seen as seen
    from gristmill.loader.loader import Loader as Loader
    from gristmill.loader.packing_report import packing_report as pack
    from gristmill.loader.plan import LoaderPlan as LoaderPlan
    from gristmill.loader.torch_dataset import TokenDataset as TokenDataset
    from gristmill.mixing.doremi import doremi as doremi
    from gristmill.mixing.fit import fit_mix as fit_mix
    from gristmill.mixing.mix import mix as mix
    from gristmill.mixing.propose import propose_mixes as propose_mixes
    from gristmill.network.node.node import Node as Node
    from gristmill.network.releases.publish import publish as publish
    from gristmill.network.releases.pull import pull as pull
    from gristmill.network.releases.release import ReleaseReader as ReleaseReader
    from gristmill.network.trust.keys import new_key as release_key
    from gristmill.network.trust.signing import rotate as release_rotate
    from gristmill.network.trust.signing import sign as release_sign
    from gristmill.network.withdrawal.withdraw import withdraw as withdraw
    from gristmill.network.withdrawal.withdraw_release import withdraw_release as release_withdraw
    from gristmill.pipeline import run as run
    from gristmill.recipe import init as init
    from gristmill.reports.diff import diff as diff
    from gristmill.reports.documents.contamination import contamination as contamination
    from gristmill.reports.documents.copies import copies as copies
    from gristmill.reports.documents.duplicates import duplicates as duplicates
    from gristmill.reports.documents.explore import explore as explore
    from gristmill.reports.documents.meanings import explain as explain
    from gristmill.reports.documents.repeated_lines import frequent as lines
    from gristmill.reports.documents.top_substrings import repeated as substrings
    from gristmill.reports.documents.why import why as why
    from gristmill.reports.integrity.verify import verify as verify
    from gristmill.reports.page.card import card as card
    from gristmill.reports.page.check import check as check
    from gristmill.reports.page.report import report as report
    from gristmill.reports.planning.chinchilla import chinchilla as chinchilla
    from gristmill.reports.planning.rejudge import rejudge as rejudge
    from gristmill.reports.planning.size import size as size
    from gristmill.reports.status import status as status
    from gristmill.reports.tokens.losses import losses as losses
    from gristmill.reports.tokens.stats import stats as stats
    from gristmill.tokens.tokenizer import Tokenizer as Tokenizer
    from gristmill.trainer_formats.export import export as export
    from gristmill.trainer_formats.import_tokens import import_tokens as import_tokens
    from gristmill.trainer_formats.token_source import TokenDocuments as TokenDocuments
    from gristmill.training.grow_tokenizer import grow_tokenizer as grow_tokenizer
    from gristmill.training.show_tokenizer import show_tokenizer as show_tokenizer
    from gristmill.training.train_models import show_model as show_model
    from gristmill.training.train_models import train_classifier as train_classifier
    from gristmill.training.train_models import train_perplexity as train_perplexity
    from gristmill.training.train_tokenizer import train_tokenizer as train_tokenizer

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "ArgumentError", "Corpus", "DuplicateIndex", "Funnel", "GristmillError", "Loader",
    "LoaderPlan", "MachineError", "MinHash", "Near", "Node", "RecipeError", "ReleaseReader",
    "SourceError", "TokenCorpus", "TokenDataset", "TokenDocuments", "Tokenizer",
    "VerificationError", "bench_loader", "card", "check", "chinchilla", "contamination",
    "copies", "curve", "deduplicate", "demo", "diff", "doremi", "duplicates", "explain",
    "explore", "export", "extract", "filters", "fit_mix", "grow_tokenizer", "import_tokens",
    "init", "language", "lines", "losses", "mix", "pack", "propose_mixes", "publish", "pull",
    "rejudge", "release_key", "release_rotate", "release_sign", "release_withdraw", "report",
    "run", "seen", "show_model", "show_tokenizer", "size", "stats", "status", "substrings",
    "train_classifier", "train_perplexity", "train_tokenizer", "verify", "why", "withdraw",
]
# fmt: on
_PLACES = typed_imports(__file__)
__getattr__ = lazy(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

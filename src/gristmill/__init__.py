"""Raw web in, verified training tokens out.

The verbs of the command line are functions of the same names here. Nothing heavy is imported until
one is called.
"""

from typing import Any

__version__ = "0.1.0"

# The other errors are in gristmill.errors, and here under their names as well.
__all__ = [
    "GristmillError",
    "Loader",
    "Node",
    "TokenDataset",
    "demo",
    "diff",
    "export",
    "init",
    "publish",
    "pull",
    "rejudge",
    "run",
    "seen",
    "stats",
    "status",
    "train_tokenizer",
    "verify",
    "why",
]

_MODULES = {
    "GristmillError": "errors",
    "Loader": "loader.loader",
    "MachineError": "errors",
    "Node": "network.node",
    "RecipeError": "errors",
    "SourceError": "errors",
    "TokenDataset": "loader.torch_dataset",
    "VerificationError": "errors",
    "demo": "demonstration",
    "diff": "report.diff",
    "export": "trainer_formats.export",
    "init": "recipe",
    "publish": "network.publish",
    "pull": "network.pull",
    "rejudge": "report.rejudge",
    "run": "pipeline",
    "seen": "loader.ledger",
    "stats": "report.stats",
    "status": "report.status",
    "train_tokenizer": "training.train_tokenizer",
    "verify": "report.verify",
    "why": "report.why",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"gristmill.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'gristmill' has no attribute {name!r}")

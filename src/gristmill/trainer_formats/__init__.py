"""Export to the files that trainers read, and import of token shards that others wrote: a module of
each format (docs/trainer-formats.md) has its value, a TextFormat or a TrainerFormat, and an
ImportFormat where it can be read.
"""

from typing import TYPE_CHECKING

from gristmill.system.plugins import Plugins

if TYPE_CHECKING:
    from gristmill.trainer_formats.kept_texts import TextFormat
    from gristmill.trainer_formats.token_format import ImportFormat, TrainerFormat

# What --to takes.
FORMATS: "Plugins[TextFormat | TrainerFormat]" = Plugins(
    __name__, ("TextFormat", "TrainerFormat"), "--to {}: no such format", "gristmill.formats"
)
# What --from takes.
IMPORTED: "Plugins[ImportFormat]" = Plugins(
    __name__, ("ImportFormat",), "--from {}: no such format", "gristmill.imports"
)

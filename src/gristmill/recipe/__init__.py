"""The recipe: TOML to frozen, validated values."""

from gristmill.recipe.custom_steps import (
    own_code,
    refuse_classes,
    refuse_code,
    with_classes,
    with_same_classes,
)
from gristmill.recipe.kernel_names import kernel_names
from gristmill.recipe.packaged import PRESETS, packaged
from gristmill.recipe.presets import for_files, from_folder, init, read_recipe
from gristmill.recipe.recipe import (
    CODE,
    PHASES,
    Loaded,
    Measure,
    Recipe,
    check_pages,
    from_stored,
    is_custom,
    is_post_dedup,
    load,
    make_step,
    parse,
    parse_tables,
    step_name,
    stored,
    stored_url,
    with_limit,
)
from gristmill.recipe.source_settings import Source, format_location

__all__ = [
    "CODE",
    "PHASES",
    "PRESETS",
    "Loaded",
    "Measure",
    "Recipe",
    "Source",
    "check_pages",
    "for_files",
    "format_location",
    "from_folder",
    "from_stored",
    "init",
    "is_custom",
    "is_post_dedup",
    "kernel_names",
    "load",
    "make_step",
    "own_code",
    "packaged",
    "parse",
    "parse_tables",
    "read_recipe",
    "refuse_classes",
    "refuse_code",
    "step_name",
    "stored",
    "stored_url",
    "with_classes",
    "with_limit",
    "with_same_classes",
]

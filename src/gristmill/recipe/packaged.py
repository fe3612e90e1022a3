"""Files of recipes that come with gristmill: presets, and parameters of languages."""

from pathlib import Path

from gristmill.errors import RecipeError, suggest

PRESETS = (
    "c4",
    "clean-small",
    "datatrove-0.10",
    "dclm",
    "dolma3",
    "fineweb-edu",
    "fineweb-v1",
    "fineweb-v1-fast",
    "fineweb2",
    "gopher",
    "lab",
    "nemotron-cc",
)


def packaged(name: str, what: str = "preset") -> Path:
    """Return a file that comes with gristmill, without `.toml`: a preset, the recipe to start from,
    or with `what = "languages"` parameters of languages.
    """
    here = Path(__file__).parent.parent
    file = f"{name}.toml" if what == "preset" else f"{what}/{name}.toml"
    for folder in (here / "recipes", here.parent.parent / "recipes"):
        if (folder / file).is_file():
            return folder / file
    raise RecipeError(f"no {what} {name!r} comes with gristmill{suggest(name, PRESETS)}")

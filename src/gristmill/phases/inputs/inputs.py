"""The inputs of a recipe's steps (filters/api/step_inputs.py), each found once by the process that
plans.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gristmill.corpus.layout import WITHDRAWN
from gristmill.errors import GONE, RecipeError
from gristmill.filters.api.step import Input
from gristmill.filters.api.step_inputs import find, installed_inputs
from gristmill.filters.lists.withdrawn import Withdrawn, read_list
from gristmill.phases.inputs.plan import Plan
from gristmill.recipe import Recipe
from gristmill.store.http.transfer import Transfer
from gristmill.tables.schema import document_name, row_number, shard_number


def gather(
    recipe: Recipe, folder: Path, transfer: Transfer, corpus: Path, plan: Plan
) -> dict[str, Input]:
    """Have every input of every step here, by its location as the recipe names it.

    Raises SourceError; RecipeError also where the recipe would bring back documents that were
    withdrawn from the corpus.
    """
    inputs: dict[str, Input] = {}
    for source in recipe.source:
        for what, location in recipe.inputs(source).items():
            if location not in inputs:
                inputs[location] = find(what, location, folder, transfer)
    if (corpus / WITHDRAWN).is_file():
        _refuse_return(recipe, inputs, corpus / WITHDRAWN)
    for source in recipe.source:
        for step in recipe.all_steps(source.name):
            if isinstance(step, Withdrawn):
                _refuse_new_numbers(plan, source.name, Path(inputs[step.list_].path), step.list_)
    return inputs


def _refuse_return(recipe: Recipe, inputs: dict[str, Input], path: Path) -> None:
    """Raise RecipeError unless every source has a step that drops all documents of a list."""
    wanted = read_list(path.read_bytes(), str(path)).urls.keys()
    for source in recipe.source:
        listed = [step for step in recipe.all_steps(source.name) if isinstance(step, Withdrawn)]
        dropped = {
            number
            for step in listed
            for number in read_list(Path(inputs[step.list_].path).read_bytes(), step.list_).urls
        }
        if not wanted <= dropped:
            raise RecipeError(
                f"{path.parent}: {len(wanted - dropped):,} documents were withdrawn from it and "
                f"the recipe does not drop them. Put this before its other steps: [[step]] with "
                f'use = "{Withdrawn.name}" and list = "{path}"'
            )


def _refuse_new_numbers(plan: Plan, source: str, path: Path, name: str) -> None:
    """Raise RecipeError where a file of which documents were withdrawn is read under a new number:
    the list names the documents by their old one, and would not drop them.
    """
    own = [shard for shard in plan.shards if shard.source == source]
    gone = {shard.number: shard for shard in own if shard.missing in GONE}
    if not gone:
        return
    back = {url for shard in own if shard.missing is None for url in shard.urls()}
    listed = read_list(path.read_bytes(), name)
    for number, url in sorted(listed.urls.items()):
        shard = gone.get(shard_number(number))
        file = shard.file_at(row_number(number)) if shard is not None else None
        if file in back and (url is None or url not in listed.alone):
            raise RecipeError(
                f"{name}: document {document_name(number)} was withdrawn, and its file "
                f"{file} is read again under another number, by which the list does not "
                "name it. Take the document out of the file and the file out of the recipe, or "
                f"give the list a line with its URL alone{f' ({url})' if url else ''}, which "
                "drops it under any number"
            )


def installed(recipe: Recipe, source: str) -> dict[str, Input]:
    """Return the inputs of a source's post-dedup steps, where packages hold them all.

    Raises RecipeError where a file does.
    """
    inputs: dict[str, Input] = {}
    for step in recipe.post_dedup_steps(source):
        inputs |= installed_inputs(step)
    return inputs


def is_as_made(given: Input, what: str, inputs: Mapping[str, Any]) -> bool:
    """Return whether an input is what a corpus was made with, by its manifest's `inputs`, whatever
    the source.
    """
    return given.sha256 in [
        entry["sha256"] for name, entry in inputs.items() if name.partition("[")[0] == what
    ]

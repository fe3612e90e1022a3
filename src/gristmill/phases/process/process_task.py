"""What a task of process holds, and what its records count."""

from typing import Any

import msgspec

from gristmill.corpus.corpus import content_key
from gristmill.dedup.settings import Deduplicate, ExactForm, Near
from gristmill.filters.api.step import Input, Step
from gristmill.phases.phase import Runtime, format_versions, key_fields
from gristmill.recipe import Measure, Recipe, Source
from gristmill.source.rows import Fields
from gristmill.store.manifest import PackedFile

FORMATS = ("process", "unicode", "compared")


class RawCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of a raw shard, as the manifest says it."""

    kind: str | None
    codec: str | None
    compressed_bytes: int
    decompressed_bytes: int
    documents: int
    records_skipped: dict[str, int]
    decoding: dict[str, int] = {}  # documents by what was unusual in decoding them
    first_rows: list[int] = []  # of each file of a pack


class KeptCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What all steps kept."""

    documents: int
    bytes: int  # of text


class ProcessCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What processing a shard counted."""

    raw: RawCounts
    kept: KeptCounts
    measuring: str  # the key of what was measured
    seconds: dict[str, float]  # of each step, of reading, writing and signing
    text_bytes: dict[str, int]  # that each step was given


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that apply to a shard's source, and what they read besides."""

    source: str
    step: list[dict[str, Any]]  # the recipe's
    inputs: dict[str, Input]  # by location

    def made(self) -> list[Step]:
        """Return the steps, in order."""
        return Recipe(source=[Source(name=self.source)], step=self.step).steps(self.source)

    def key(self) -> list[dict[str, Any]]:
        """Return all that their bytes depend on."""
        return self._content(thresholds=True)

    def measuring(self) -> list[dict[str, Any]]:
        """Return all that their measures depend on, whatever is then decided."""
        return self._content(thresholds=False)

    def _content(self, *, thresholds: bool) -> list[dict[str, Any]]:
        return [
            {
                "name": step.name,
                "version": step.version,
                "parameters": step.content() if thresholds else step.measuring(step.content()),
                "inputs": {
                    name: self.inputs[location].sha256 for name, location in step.inputs().items()
                },
            }
            for step in self.made()
        ]


class Signing(msgspec.Struct, frozen=True, kw_only=True):
    """What duplicates are found by, not what is done about them: another threshold, or other bands
    of as many numbers, read no shard again.
    """

    shingle: int | None = None  # null: near duplicates are not looked for
    unit: Any = None
    numbers: int | None = None
    signs: bool = True
    form: ExactForm = "folded"
    arabic_marks: bool = True
    near_arabic_marks: bool = True

    def settings(self) -> Deduplicate:
        """Return settings that sign so."""
        if self.numbers is None or self.shingle is None:
            return Deduplicate(exact=self.form, arabic_marks=self.arabic_marks)
        near = Near(
            shingle=self.shingle,
            unit=self.unit,
            signs=self.signs,
            arabic_marks=self.near_arabic_marks,
            bands=self.numbers,
            rows=1,
        )
        return Deduplicate(exact=self.form, near=near, arabic_marks=self.arabic_marks)


def make_signing(settings: Deduplicate) -> Signing:
    """Return what documents are signed by."""
    near = settings.near
    if near is None:
        return Signing(form=settings.form, arabic_marks=settings.arabic_marks)
    return Signing(
        shingle=near.shingle,
        unit=near.unit,
        numbers=near.numbers,
        signs=near.signs,
        form=settings.form,
        arabic_marks=settings.arabic_marks,
        near_arabic_marks=near.arabic_marks,
    )


class ProcessTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that processing one shard needs; a worker gets it."""

    root: Runtime[str]
    number: int
    path: Runtime[str]
    # The shard's own, of which a message speaks and by which a format can be doubted.
    name: Runtime[str]
    sha256: str
    # Of a pack, whose digest says what they are; `path` is then the recipe's folder.
    files: Runtime[tuple[PackedFile, ...]]
    kind: str | None
    # of the file or the package that has the format, where it is not built in
    kind_file: Runtime[str] = ""
    kind_sha256: str = ""
    fields: Fields
    libraries: dict[str, str]  # that readers use, and of which version
    steps: Steps
    measure: Measure
    signing: Signing | None  # null: the recipe does not deduplicate
    # the measure that documents are compared within; null: none
    within: str | None = None
    limit: int | None  # documents that the source may still have
    start: int = 0  # the first row that is read: those before it have an earlier number
    samples: int | None  # dropped texts kept for each reason; null: all
    seed: int

    def measuring(self) -> str:
        """Return the key of what is measured, whatever is then decided."""
        return content_key(
            "measuring",
            formats=format_versions(FORMATS),
            task={**key_fields(self), "steps": self.steps.measuring()},
        )

"""The tables that processing a shard writes."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.corpus import Corpus
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.signatures import sign
from gristmill.engine import allocation
from gristmill.filters.api.judge import Judged
from gristmill.filters.lists.withdrawn import REASON as WITHDRAWN
from gristmill.phases.process.process_task import ProcessTask
from gristmill.phases.process.reuse import merged
from gristmill.phases.process.samples import Sampler
from gristmill.store.parts import Part, TableWriter, writing_table
from gristmill.tables import schema


class ProcessTables:
    """The tables that processing a shard writes."""

    def __init__(
        self,
        stack: ExitStack,
        corpus: Corpus,
        name: str,
        task: ProcessTask,
        measures: pa.Schema,
        found: dict[str, pa.Schema],
        tables: dict[str, str],
    ) -> None:
        """`found` is by step the schema of its own table, `tables` its folder."""
        self.parts: list[list[Part]] = []
        self.kept = 0
        self.kept_bytes = 0

        def table(
            path: str, kind: pa.Schema, *, root: Path = corpus.stage, plain: bool = False
        ) -> TableWriter:
            writer, part = stack.enter_context(writing_table(root, path, kind, plain=plain))
            self.parts.append(part)
            return writer

        # What batches and a row group have freed is given back before and after the most is taken.
        documents, part = stack.enter_context(
            writing_table(
                corpus.stage,
                f"documents/{name}.parquet",
                schema.DOCUMENTS,
                give_back=allocation.give_back,
            )
        )
        self._documents = documents
        self.parts.append(part)
        self._measures = table(f"measures/{name}.parquet", measures)
        self._verdicts = table(f"process/{name}.parquet", schema.VERDICTS, root=corpus.work)
        self._samples = table(f"samples/{name}.parquet", schema.SAMPLES)
        self._found = {
            step: table(f"{tables[step]}/{name}.parquet", kind) for step, kind in found.items()
        }
        self._sampler = None if task.samples is None else Sampler(task.seed, task.samples)
        self._within = task.within
        if task.signing is not None:
            kind = schema.signatures(task.signing.numbers or 1)
            self._signatures = table(f"signatures/{name}.parquet", kind, plain=True)

    def write(self, judged: Judged) -> None:
        """Write what became of a batch."""
        self._documents.write(judged.kept)
        self._measures.write(judged.measures)
        self._verdicts.write(judged.verdicts)
        for step, batches in judged.found.items():
            for rows in batches:
                self._found[step].write(rows)
        for dropped in judged.dropped:
            dropped = dropped.filter(pc.not_equal(dropped["reason"], WITHDRAWN))
            if self._sampler is None:
                self._samples.write(dropped)
            else:
                self._sampler.add(dropped)
        self.kept += len(judged.kept)
        self.kept_bytes += judged.kept["text"].nbytes

    def sign(self, part: Judged, settings: Deduplicate) -> None:
        """Write the signatures of what was kept: those that are there, and those of what is new."""
        batches = [] if part.signatures is None else [part.signatures]
        unsigned = part.kept if part.unsigned is None else part.unsigned
        if len(unsigned):
            labels = None
            if self._within is not None:
                every = part.measures["document"].to_numpy()
                rows = np.searchsorted(every, unsigned["document"].to_numpy())
                labels = part.measures[self._within].take(pa.array(rows))
            batches.append(sign(unsigned, settings, labels))
        if len(batches) > 1:
            batches = [merged(*batches)]
        for batch in batches:
            self._signatures.write(batch)

    def finish(self) -> None:
        """Write what waited for the end."""
        allocation.give_back()  # rows of all tables are put together now
        for batch in self._sampler.batches() if self._sampler else []:
            self._samples.write(batch)

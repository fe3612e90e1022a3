"""What a run left under work/ of raw shards that are `removed` or `replaced`: texts and tokens go
from there too.
"""

from gristmill.corpus.corpus import Corpus
from gristmill.errors import GONE
from gristmill.phases.all_phases import PHASES
from gristmill.phases.inputs.plan import Plan
from gristmill.tables.schema import shard_name


def forget_gone(corpus: Corpus, plan: Plan) -> None:
    """Remove the records of such raw shards, and the files under work/ that these name."""
    phases = [phase for phase in PHASES if phase.scope == "shard"]
    for shard in plan.shards:
        if shard.missing not in GONE:
            continue
        name = shard_name(shard.number)
        for phase in phases:
            record = corpus.last(phase.name, name)
            if record is None:
                continue
            for part in record.work:
                (corpus.work / part.path).unlink(missing_ok=True)
            for part in record.parts:
                (corpus.stage / part.path).unlink(missing_ok=True)
            corpus.forget(phase.name, name)

"""Write verdicts: on which rows of a table the verdicts of a raw shard depend."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.dedup.duplicates import DROPS
from gristmill.phases.relations.write_verdicts import row_digests
from gristmill.store.parts import writing_table

Row = tuple[int, str, int, str | None, float]


def digests_of(folder: Path, rows: list[Row], size: int) -> dict[int, str]:
    """The digests of raw shards 0 to 3, of a table in batches of `size` rows."""
    columns: Any = zip(*rows, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, DROPS, strict=True)]
    with writing_table(folder, "drops.parquet", DROPS) as (table, _):
        for batch in pa.table(arrays, schema=DROPS).to_batches(max_chunksize=size):
            table.write(batch)
    return row_digests(folder / "drops.parquet", [0, 1, 2, 3])


def test_a_shards_digest_is_of_its_own_rows(tmp_path: Path) -> None:
    rows: list[Row] = [
        (shard << 32 | row, f"reason.{(shard + row) % 3}", row, None, row / 7)
        for shard in (0, 1, 3)
        for row in range(5)
    ]
    whole = digests_of(tmp_path, rows, 100)
    assert len(set(whole.values())) == 4
    for size in (1, 2, 4, 7):
        assert digests_of(tmp_path, rows, size) == whole
    for place, changed in enumerate(
        (
            (2, "reason.2", 3, None, 2 / 7),
            (2, "reason.0", 2, None, 2 / 7),
            (2, "reason.2", 2, "", 2 / 7),
            (2, "reason.2", 2, None, 0.3),
        )
    ):
        other = digests_of(tmp_path, [*rows[:2], changed, *rows[3:]], 4)
        assert {number for number in whole if other[number] != whole[number]} == {0}, place
    fewer = digests_of(tmp_path, rows[:10], 3)
    assert {number for number in whole if fewer[number] != whole[number]} == {3}
    assert fewer[3] == whole[2]  # both have no rows

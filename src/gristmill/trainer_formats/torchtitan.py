"""torchtitan: `SPLIT/tokens.bin`, uint32 tokens without a header, and `SPLIT/document_offsets.npy`,
int64, where each document begins, and the end of the last.

Source: torchtitan/components/data/README.md, "Adding your own source -- Example: Pretokenized data"
(PretokenizedMemmapSource). `gristmill.trainer_formats.token_source:TokenDocumentsConfig` gives the
documents of a corpus to torchtitan and grain without a copy.
"""

import io
from functools import partial

import numpy as np

from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.token_format import Counter, Stream, TrainerFormat, Written, unsigned


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write tokens.bin and document_offsets.npy of a split."""
    counter, at = Counter(stream), 0
    names = [f"{stream.split}/tokens.bin", f"{stream.split}/document_offsets.npy"]
    offsets = folder.spool("<i8")
    offsets.append(np.zeros(1, "<i8"))
    with folder.file(names[0]) as file:
        for block in counter.blocks():
            file.write(np.ascontiguousarray(block.tokens, "<u4"))
            ends = at + np.cumsum(block.lengths)
            offsets.append(ends[block.ended()])
            at = int(ends[-1])
    header = io.BytesIO()
    shape = {"descr": "<i8", "fortran_order": False, "shape": (offsets.count,)}
    np.lib.format.write_array_header_1_0(header, shape)
    with folder.file(names[1]) as file:
        file.write(header.getvalue())
        for block_offsets in offsets.blocks():
            file.write(block_offsets)
    offsets.close()
    return counter.written(names)


TORCHTITAN = TrainerFormat(
    name="torchtitan",
    files="`SPLIT/tokens.bin`, `document_offsets.npy`",
    holds="uint32",
    checked="torchtitan b5bcd76 (2026-08-21), grain 0.2.18: the source that its page "
    "shows, unchanged",
    side="after",
    one_stream=True,
    dtype=partial(unsigned, smallest=4),
    write=write,
)

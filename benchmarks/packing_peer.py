"""A peer's best-fit decreasing, for packing.py: `python packing_peer.py trl|olmo-core LENGTH FILE`.

FILE is a .npy of lengths of pieces, none longer than LENGTH. Prints a JSON object: seconds of
processor time of the packing alone, windows, and the version. TRL packs a table of token lists, as
its `pack_dataset(strategy="bfd")` does for each batch of rows, and returns the packed table;
OLMo-core's InstancePacker returns lists of documents.
"""

import importlib.metadata
import json
import sys
import time

import numpy as np


def main() -> None:
    """Pack, and print what it took."""
    who, length, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    lengths = np.load(path)
    if who == "trl":
        import pyarrow as pa
        from trl.data_utils import _pack_bfd

        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = pa.array(np.zeros(int(offsets[-1]), np.uint16))
        column = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
        table = pa.table({"input_ids": column})
        start = time.process_time()
        windows = len(_pack_bfd(table, length))
    else:
        from olmo_core.data.utils import InstancePacker

        ends = np.cumsum(lengths)
        packer = InstancePacker(length)
        start = time.process_time()
        windows = len(packer.pack_documents(np.stack([ends - lengths, ends], axis=1))[0])
    took = time.process_time() - start
    package = "trl" if who == "trl" else "ai2-olmo-core"
    version = importlib.metadata.version(package)
    print(json.dumps({"seconds": took, "windows": windows, "version": f"{package} {version}"}))


if __name__ == "__main__":
    main()

"""Runs datatrove's URL filter: a file of URLs -> a file of reasons and times. Its own Python runs
it (GRISTMILL_PEERS).
"""

import json
import sys
import time

from datatrove.data import Document
from datatrove.pipeline.filters import URLFilter

urls = json.load(open(sys.argv[1]))
start = time.perf_counter()
judge = URLFilter()
judge.download_data()
loaded = time.perf_counter()
reasons = []
for url in urls:
    said = judge.filter(Document(text="", id="", metadata={"url": url}))
    reasons.append(None if said is True else said[1])
done = time.perf_counter()
memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
json.dump(
    {"reasons": reasons, "load": loaded - start, "judge": done - loaded, "memory": int(memory)},
    open(sys.argv[2], "w"),
)

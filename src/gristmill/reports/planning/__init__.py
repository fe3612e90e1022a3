"""What a run or a training would take: sizes, time, use of a machine, other thresholds."""

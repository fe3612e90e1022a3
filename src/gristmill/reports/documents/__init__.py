"""Questions about documents: why, copies, repeated lines, contamination, explore."""

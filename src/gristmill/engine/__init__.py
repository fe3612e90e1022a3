"""Where work runs: the one place that drops documents, and the processes that do the work."""

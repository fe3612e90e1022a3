"""Processes, signals and streams of this machine, and which files are gristmill's own."""

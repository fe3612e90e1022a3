"""How a phase runs: what is done is not done again; progress; repair."""

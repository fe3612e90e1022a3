"""The counts that the published filter rules ask for."""

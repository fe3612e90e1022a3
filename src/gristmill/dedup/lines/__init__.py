"""Lines that stand in too many documents."""

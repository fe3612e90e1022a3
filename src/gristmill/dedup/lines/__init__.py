"""Lines that are in too many documents."""

"""Loading: a keyed order of windows, and the copying of tokens and documents' bounds into rows."""

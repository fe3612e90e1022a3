"""Who signed a release: keys, roots, metadata of The Update Framework, and its reader."""

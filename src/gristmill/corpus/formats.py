"""Format versions: what the bytes of each kind of part depend on besides parameters.

A number goes up when the code gives other bytes for the same input and the same recipe.
"""

FORMAT_VERSIONS = {
    "process": "3",
    "deduplicate": "4",
    "tokenize": "2",
    "assemble": "1",
    "unicode": "16.0",
}

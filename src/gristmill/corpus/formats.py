"""Format versions: what the bytes of each phase depend on besides its inputs and its parameters.

**The rule.** Raise a phase's number in the change that makes it write other bytes, or other counts,
for the same inputs and the same recipe, and in no other change. A phase whose number was raised
runs again in every corpus, and those behind it if its bytes did change. tests/test_golden.py fails
where bytes change and no number was raised.

`unicode` is the version of the tables that kernels/unicode is generated from: it goes up with them.
`compared` is that of the form in which texts are compared (kernels/folding/compared.py): 2 folds
Unicode; 1, before it had a number, did not. The maths of a model or a filter has its number at its
step (`version`), and a library that makes bytes (resiliparse's charsets, trafilatura, tokenizers)
is in the key of the phase that calls it. Another version of gristmill or of pyarrow is in no key:
the first changes bytes only under this rule, the second changes how rows are packed, never the
rows.
"""

# A phase that is not named here has format "1".
FORMAT_VERSIONS = {
    "process": "7",
    "corpus_filters": "1",
    "deduplicate": "5",
    "write_verdicts": "1",
    "count_lines": "1",
    "frequent_lines": "1",
    "repeated_substrings": "1",
    "tokenize": "4",
    "assemble": "1",
    "unicode": "16.0",
    "compared": "2",
}
# Of a manifest's `versions`: packages that change no bytes but under the rule above.
PACKAGES = ("gristmill", "pyarrow")

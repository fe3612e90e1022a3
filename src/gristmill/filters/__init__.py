"""The steps, one subject a module.

The recipe's `use = "gopher"` is the module `gopher` and its class `Gopher`.
"""

"""The document that a document was made of, as its source names it: rephrased ones have one."""

import json

DEFAULT = "parent"  # the field's name where a source sets none


def parent_id(extra: str | None, field: str = DEFAULT) -> str | None:
    """Return the id in a document's field: a string, or a whole number as a string.

    `extra` is its column of that name. None: it has no such field, or a value that is no id.
    """
    # Most documents have none. Other names than these may be written with escapes in JSON.
    if extra is None or (field.isascii() and field.isidentifier() and field not in extra):
        return None
    value = json.loads(extra).get(field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None

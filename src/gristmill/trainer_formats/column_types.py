"""The types of columns for values of JSON, inferred so that the result does not depend on the order
of values.

null      any other kind takes it in
bool, int, float, string
          int and float together are float where every int is exact in a float
list      of one kind
struct    of named kinds, at most MOST_NAMES, nested at most MOST_DEPTH deep
json      anything else: the value as JSON in a string
"""

from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

MOST_NAMES, MOST_DEPTH = 256, 6
EXACT = 1 << 53  # of integers in a float64
_INT64 = 1 << 63


class Kind(NamedTuple):
    """What the values of a column have in common."""

    name: str
    item: "Kind | None" = None  # of a list
    fields: tuple[tuple[str, "Kind"], ...] = ()  # of a struct, sorted by name
    exact: bool = True  # of int: every value is exact in a float


JSON = Kind("json")
NULL = Kind("null")
_FLAT = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}


def value_kind(value: Any, depth: int = MOST_DEPTH) -> Kind:
    """Return the kind of one value."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return Kind("bool")
    if isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            return JSON
        return Kind("int", exact=-EXACT <= value <= EXACT)
    if isinstance(value, float):
        return Kind("float")
    if isinstance(value, str):
        return Kind("string")
    if depth == 0:
        return JSON
    if isinstance(value, list):
        item = NULL
        for element in value:
            item = merged(item, value_kind(element, depth - 1))
        return Kind("list", item)
    if len(value) > MOST_NAMES:
        return JSON
    return Kind(
        "struct",
        fields=tuple(
            sorted((name, value_kind(element, depth - 1)) for name, element in value.items())
        ),
    )


def merged(left: Kind, right: Kind) -> Kind:
    """Return the kind that holds the values of both."""
    if left == right or right.name == "null":
        return left
    if left.name == "null":
        return right
    names = {left.name, right.name}
    if names == {"int"}:
        return Kind("int", exact=False)
    if names == {"int", "float"}:
        # A float column takes ints in: one that is not exact makes it JSON for good.
        return Kind("float") if left.exact and right.exact else JSON
    if names == {"list"}:
        assert left.item is not None
        assert right.item is not None
        return Kind("list", merged(left.item, right.item))
    if names == {"struct"}:
        fields = dict(left.fields)
        for name, kind in right.fields:
            fields[name] = merged(fields.get(name, NULL), kind)
        if len(fields) <= MOST_NAMES:
            return Kind("struct", fields=tuple(sorted(fields.items())))
    return JSON


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a column; of nulls alone it is a string."""
    if kind.name in _FLAT:
        return _FLAT[kind.name]
    if kind.name == "list":
        assert kind.item is not None
        return pa.list_(arrow_type(kind.item))
    if kind.name == "struct" and kind.fields:
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in kind.fields])
    return pa.string()


def is_json(kind: Kind) -> bool:
    """Return whether a column holds JSON; Parquet has no struct without fields."""
    return kind.name == "json" or (kind.name == "struct" and not kind.fields)


def as_kind(value: Any, kind: Kind) -> Any:
    """Return a value as its column holds it."""
    if value is None:
        return None
    if is_json(kind):
        return msgspec.json.encode(value).decode()
    if kind.name == "float":
        return float(value)
    if kind.name == "list":
        assert kind.item is not None
        return [as_kind(element, kind.item) for element in value]
    if kind.name == "struct":
        return {name: as_kind(value.get(name), inner) for name, inner in kind.fields}
    return value

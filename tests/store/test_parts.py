"""JSON has one byte form, that of Python's json."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from gristmill.store.parts import to_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[]{},: "\\é'), inner),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_indented_as_python_does_it(value: object) -> None:
    assert to_json(value) == json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def test_what_json_has_no_word_for() -> None:
    assert to_json({"a": [math.nan, math.inf]}) == b'{\n "a": [\n  NaN,\n  Infinity\n ]\n}\n'

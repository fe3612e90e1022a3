"""The funnel as lines for people."""

from gristmill.corpus.funnel import Funnel


def test_pages_decoded_against_their_label_have_a_line() -> None:
    table = {"documents": 200, "steps": [], "kept": 200, "decoding": {"against_label": 3}}
    assert "  decoded against their label                  3     1.5 %" in Funnel(table).lines()
    del table["decoding"]
    assert not any("label" in line for line in Funnel(table).lines())

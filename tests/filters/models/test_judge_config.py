"""A transformer's config.json names no code: neither beside the model nor on the hub."""

import pytest

transformers = pytest.importorskip("transformers")

from gristmill.filters.models import judge_config  # noqa: E402

BERT = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
CODE = {
    "auto_map": {"AutoConfig": "evil.Config"},
    "_attn_implementation": "somebody/kernel",
    "attn_implementation": "somebody/kernel",
    "_attn_implementation_internal": "somebody/kernel",
    "experts_implementation": "somebody/kernel",
    "quantization_config": {"quant_method": "evil"},
    "_name_or_path": "somebody/model",
    "trust_remote_code": True,
    "unheard_of": 1,
}


def test_keys_that_name_code_do_not_reach_the_configuration() -> None:
    made = judge_config.settings({**BERT, **CODE})
    assert made.to_dict() == judge_config.settings(BERT).to_dict()
    assert made._attn_implementation == judge_config.settings(BERT)._attn_implementation
    assert made.hidden_size == 64
    for key, value in CODE.items():
        assert getattr(made, key, None) != value, key


def test_without_the_check_a_key_would_name_code_of_the_hub() -> None:
    """What the check is for: transformers itself takes it."""
    taken = transformers.AutoConfig.for_model(**{**BERT, "attn_implementation": "a/b"})
    assert taken._attn_implementation == "a/b"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "model_type: expected one of"),
        ({"model_type": "evil"}, "model_type"),
        ({"model_type": ["bert"]}, "model_type"),
        ({**BERT, "num_hidden_layers": 10**9}, "num_hidden_layers: expected at most"),
        ({**BERT, "dtype": "load"}, "dtype: expected one of"),
        ({**BERT, "id2label": {"a": [[[[[1]]]]]}}, "nested too deep"),
    ],
)
def test_others_are_refused(table: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        judge_config.settings(table)


def test_labels_and_shapes_are_taken() -> None:
    table = {**BERT, "id2label": {"0": "low", "1": "high"}, "label2id": {"low": 0, "high": 1}}
    made = judge_config.settings({**table, "problem_type": "regression"})
    assert (made.num_labels, made.id2label[1]) == (2, "high")
    assert made.problem_type == "regression"


def test_every_listed_type_has_a_head_in_transformers() -> None:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as HEADS,
    )

    assert set(judge_config.TYPES) <= set(HEADS)

"""The config.json of a transformer, read as data: which class, and the plain values that this class
knows.

transformers takes any key: `auto_map` names code beside the model, `_attn_implementation` code on
the hub, `quantization_config` other packages. So the class is one of a fixed list, and a key is
taken only if a configuration of that class has it by default.
"""

from typing import Any

# Model types of transformers whose classification heads are judged by, all of its own code.
TYPES = (
    *("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "ernie"),
    *("esm", "eurobert", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "llama"),
    *("ministral", "mistral", "mobilebert", "modernbert", "mpnet", "olmo", "olmo2", "phi", "phi3"),
    *("qwen2", "qwen3", "rembert", "roberta", "smollm3", "squeezebert", "stablelm", "t5", "umt5"),
    *("xlm-roberta", "xlm-roberta-xl", "xlnet"),
)
# Keys of every class that name no shape: where code or files come from, and what wrote them.
NEVER = frozenset({"_name_or_path", "architectures", "auto_map", "transformers_version"})
# What a head is made of, which some classes take without a default.
HEAD = frozenset({"num_labels", "id2label", "label2id", "problem_type", "classifier_dropout"})
NUMBERS = ("float32", "float16", "bfloat16")  # of dtype
LARGEST = 1 << 31
MOST_LAYERS = 1024


def settings(table: dict[str, Any]) -> Any:
    """Return the configuration of a classification model. Raises ValueError, which names the
    key.
    """
    from transformers import AutoConfig

    kind = table.get("model_type")
    if kind not in TYPES:
        raise ValueError(f"model_type: expected one of {', '.join(TYPES)}")
    default = AutoConfig.for_model(kind)
    known = {key for key in default.to_dict() if not key.startswith("_")} | HEAD
    known |= set(getattr(default, "attribute_map", {}))
    known |= {"rope_theta", "rope_scaling", "rope_parameters", "pad_token_id", "torch_dtype"}
    for key in ("dtype", "torch_dtype"):
        if table.get(key) not in (None, *NUMBERS):
            raise ValueError(f"{key}: expected one of {', '.join(NUMBERS)}")
    given = {
        key: _plain(value, key, 0)
        for key, value in table.items()
        if key in known - NEVER - {"model_type"} and "implementation" not in key
    }
    return AutoConfig.for_model(kind, **given)


def _plain(value: Any, key: str, depth: int) -> Any:
    """Return a value of JSON within bounds. Raises ValueError."""
    if isinstance(value, dict | list) and depth > 3:
        raise ValueError(f"{key}: nested too deep")
    if isinstance(value, dict):
        return {str(name): _plain(inner, key, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, key, depth + 1) for inner in value]
    most = MOST_LAYERS if "layers" in key else LARGEST
    if isinstance(value, int) and not -most <= value <= most:
        raise ValueError(f"{key}: expected at most {most:,}")
    return value

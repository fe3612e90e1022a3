"""A small GPT in torch: what DoReMi trains as its reference and its proxy.

A decoder of pre-norm blocks with learned positions, tied embeddings and GELU, as GPT-2 (Radford et
al. 2019) without biases and dropout. Its parameters are a plain table of tensors, and the model is
a function of them, so that a checkpoint is nothing but tensors.
"""

import io
import math
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.errors import MachineError, RecipeError, VerificationError
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.system.memory_use import free_memory

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    raise ImportError("torch is not installed: pip install 'gristmill[torch]'") from error

Tensors = dict[str, Any]
FORMAT = 1
FILE = "model.pt"


class ProxyConfig(NamedTuple):
    """The shape of a model."""

    vocabulary: int
    sequence_length: int
    width: int
    layers: int
    heads: int

    @property
    def parameters(self) -> int:
        """Return how many numbers it has."""
        return (
            (self.vocabulary + self.sequence_length) * self.width
            + self.layers * (12 * self.width**2 + 2 * self.width)
            + self.width
        )

    def memory(self, rows: int) -> int:
        """About the bytes that training with its reference beside it takes: weights, gradients and
        AdamW's two moments, the reference's weights, and what the backward pass keeps of `rows`.
        """
        kept = self.layers * 16 * self.width + 3 * self.vocabulary
        return 20 * self.parameters + 4 * rows * self.sequence_length * kept


# Widths and layers by name.
SIZES = {
    "nano": (64, 2, 2),
    "tiny": (128, 4, 4),
    "small": (256, 6, 8),
    "15m": (384, 6, 6),
    "60m": (512, 10, 8),
    "120m": (768, 12, 12),
    "280m": (1024, 18, 16),
}


def find_config(size: str, vocabulary: int, sequence_length: int) -> ProxyConfig:
    """Return the shape of a size by name. Raises RecipeError."""
    if size not in SIZES:
        raise RecipeError(f"size {size!r}: it is one of {', '.join(SIZES)}")
    width, layers, heads = SIZES[size]
    return ProxyConfig(vocabulary, sequence_length, width, layers, heads)


def shapes(config: ProxyConfig) -> dict[str, tuple[tuple[int, ...], float | None]]:
    """Of each tensor its shape, and the deviation of its first numbers (None: they are 1)."""
    width = config.width
    residual = 0.02 / math.sqrt(2 * config.layers)
    tensors: dict[str, tuple[tuple[int, ...], float | None]] = {
        "token": ((config.vocabulary, width), 0.02),
        "place": ((config.sequence_length, width), 0.02),
        "last": ((width,), None),
    }
    for layer in range(config.layers):
        tensors |= {
            f"{layer}.before": ((width,), None),
            f"{layer}.attention": ((3 * width, width), 0.02),
            f"{layer}.joined": ((width, width), residual),
            f"{layer}.between": ((width,), None),
            f"{layer}.up": ((4 * width, width), 0.02),
            f"{layer}.down": ((width, 4 * width), residual),
        }
    return tensors


def started(config: ProxyConfig, seed: int, device: str = "cpu") -> Tensors:
    """Return a model's first parameters; the same seed gives the same numbers on every device."""
    drawn = torch.Generator().manual_seed(seed)
    parameters = {
        name: torch.ones(shape) if scale is None else torch.randn(shape, generator=drawn) * scale
        for name, (shape, scale) in shapes(config).items()
    }
    return {name: value.to(device).requires_grad_() for name, value in parameters.items()}


def logits(model: Tensors, config: ProxyConfig, tokens: Any) -> Any:
    """Return the scores of the next token, (rows, length, vocabulary) float32, for tokens (rows,
    length) int64.
    """
    rows, length = tokens.shape
    width = config.width
    x = model["token"][tokens] + model["place"][:length]
    for layer in range(config.layers):
        seen = functional.layer_norm(x, (width,), model[f"{layer}.before"])
        parts = functional.linear(seen, model[f"{layer}.attention"])
        query, key, value = parts.view(rows, length, 3, config.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + functional.linear(
            mixed.transpose(1, 2).reshape(rows, length, width), model[f"{layer}.joined"]
        )
        seen = functional.layer_norm(x, (width,), model[f"{layer}.between"])
        raised = functional.gelu(functional.linear(seen, model[f"{layer}.up"]))
        x = x + functional.linear(raised, model[f"{layer}.down"])
    x = functional.layer_norm(x, (width,), model["last"])
    return functional.linear(x, model["token"])


def token_losses(model: Tensors, config: ProxyConfig, tokens: Any) -> Any:
    """Return the loss of each token in nats, (rows, length) float32, of tokens (rows, length +
    1).
    """
    scores = logits(model, config, tokens[:, :-1])
    losses = functional.cross_entropy(
        scores.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    )
    return losses.view(tokens.shape[0], -1)


def save_model(folder: Path, model: Tensors, config: ProxyConfig) -> None:
    """Write a model into a folder; the file appears whole."""
    write_state(folder, FILE, {"config": tuple(config), "model": plain(model)})


def load_model(folder: Path | str, device: str = "cpu") -> tuple[Tensors, ProxyConfig]:
    """Read a model. Raises RecipeError where there is none, VerificationError for a damaged one."""
    path = Path(folder) / FILE
    state = read_state(path, device)
    try:
        config = ProxyConfig(*(int(value) for value in state["config"]))
        model = state["model"]
        stated = {name: shape for name, (shape, _) in shapes(config).items()}
        if {name: tuple(value.shape) for name, value in model.items()} != stated:
            raise ValueError("its tensors have other shapes than its config says")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerificationError(f"{path}: no model of gristmill: {error}") from error
    return model, config


def plain(model: Tensors) -> Tensors:
    """Return a model's numbers, on the processor and apart from gradients."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.items()}


def write_state(folder: Path, name: str, state: dict[str, Any]) -> None:
    """Write tensors and plain values; the file appears whole. Raises MachineError."""
    data = io.BytesIO()
    torch.save({"format": FORMAT, **state}, data)
    with machine_errors(folder / name, every=True):
        write_bytes(folder, name, data.getvalue())


def read_state(path: Path, device: str = "cpu") -> dict[str, Any]:
    """Read what `write_state` wrote; no code in a file is run. Raises RecipeError where there is
    no file, VerificationError for one that is damaged.
    """
    if not path.is_file():
        raise RecipeError(f"{path}: there is no such file")
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises what its unpickler and its zip reader raise
        said = str(error).partition("\n")[0][:200] or type(error).__name__
        raise VerificationError(f"{path}: cannot be read as tensors: {said}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise VerificationError(f"{path}: not written by this version of gristmill")
    return state


def check_memory(config: ProxyConfig, rows: int, device: str) -> None:
    """Refuse a model that does not fit beside its reference. Raises MachineError."""
    if device.startswith("cuda"):
        free: int | None = int(torch.cuda.mem_get_info(torch.device(device))[0])
    else:
        free = free_memory()
    if free is not None and (needed := config.memory(rows)) > free:
        raise MachineError(
            f"a proxy of {config.parameters:,} parameters with {rows:,} rows of "
            f"{config.sequence_length:,} tokens needs about {needed / 1e9:.1f} GB on {device}, and "
            f"{free / 1e9:.1f} GB are free: take a smaller size, batch_size or sequence_length"
        )

"""Batches out of token shards: order, mix, packing, plan, loader, ledger, and a layer for torch.

The names of `__all__` are public.
"""

from gristmill.system.lazy_names import lazy

_PLACES = {
    "TokenWindows": "loader.torch_dataset:TokenWindows",
    "batch_of": "loader.torch_dataset:batch_of",
    "document_ids": "loader.masks:document_ids",
    "leading_tokens": "loader.masks:leading_tokens",
    "loss_mask": "loader.masks:loss_mask",
    "on_device": "loader.torch_dataset:on_device",
    "token_bytes": "loader.masks:token_bytes",
}
__all__ = [*_PLACES]  # noqa: PLE0604
__getattr__ = lazy(__name__, _PLACES)

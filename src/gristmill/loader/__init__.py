"""Batches out of token shards: order, mix, packing, plan, loader, ledger, and a layer for torch."""

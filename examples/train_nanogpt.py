"""Train a small GPT from a corpus of gristmill, on a CPU, in a few minutes.

    gristmill demo demo
    python examples/train_nanogpt.py demo/corpus --out run
    python examples/train_nanogpt.py demo/corpus --out run      # goes on where it was stopped
    torchrun --nproc-per-node 2 examples/train_nanogpt.py demo/corpus --out run    # two processes

Kill it at any moment, even by SIGKILL, and start it again: losses.csv is the one of a run that was
never stopped. A checkpoint has the model, the optimizer and the state of the data; it is written
beside its place and renamed. Attention stays within documents, and no loss is taken where a
document's last token would have to predict the next document's first.

In the end it prints the loss on the corpus' validation tokens, in bits per byte of their text: such
figures can be compared between tokenizers.

Under torchrun each process has its part of every batch, and the gradients are averaged (DDP). A run
may go on with another number of processes: the batches are the same, and the losses are but for the
order in which numbers are added.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import gristmill
from gristmill import TokenCorpus, TokenDataset
from gristmill.loader import batch_of, document_ids, loss_mask, on_device


class Block(nn.Module):
    """Attention within documents, and two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.attention(self.before(x)).view(rows, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.joined(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.layers(self.between(x))


class Gpt(nn.Module):
    """A GPT of a few layers."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.last(x))


def save(path: Path, state: dict[str, object]) -> None:
    """Write a checkpoint beside its place, and rename it."""
    beside = path.with_suffix(".new")
    with open(beside, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


@torch.no_grad()
def held_out(model: Gpt, corpus: str, length: int) -> str:
    """The loss on validation tokens, window by window."""
    if not TokenCorpus.open(corpus).sources("val"):
        return "no validation tokens: raise [tokens] validation in the recipe"

    def scores(tokens: torch.Tensor) -> torch.Tensor:
        earlier = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        return model(tokens, earlier)

    found = gristmill.losses(corpus, scores, sequence_length=length)["all"]
    return (
        f"validation: {found['bits_per_byte']:.3f} bits per byte, loss {found['loss']:.3f} "
        f"a token, {found['bytes']:,} bytes"
    )


def summed(value: torch.Tensor, ranks: int) -> torch.Tensor:
    """The sum of a value over all processes."""
    if ranks > 1:
        value = value.clone()
        distributed.all_reduce(value)
    return value


def main() -> None:
    """Train, or go on."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("corpus")
    parser.add_argument("--out", type=Path, default=Path("run"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--every", type=int, default=20, help="steps from checkpoint to checkpoint")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.set_num_threads(1)  # the same sums in the same order, whatever the machine is doing

    ranks = int(os.environ.get("WORLD_SIZE", "1"))  # torchrun sets it
    if ranks > 1:
        distributed.init_process_group("gloo")
    first = ranks == 1 or distributed.get_rank() == 0
    dataset = TokenDataset(
        options.corpus,
        sequence_length=options.length,
        batch_size=options.batch,
        seed=1,
        steps=options.steps,
    )
    if first:
        dataset.plan.save(options.out / "plan.json")  # `gristmill seen` answers from it
    vocabulary = dataset.plan.segments[0].vocabulary
    model = Gpt(vocabulary, options.length, options.width, options.layers, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    checkpoint, losses = options.out / "checkpoint.pt", options.out / "losses.csv"
    curve: list[str] = []
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        dataset.load_state_dict(state["data"])
        curve = state["curve"]
        if first:
            print(f"going on at step {len(curve)}")
    network = DistributedDataParallel(model) if ranks > 1 else model

    # A data set's `steps` is an epoch, of which this run has one.
    ended = len(curve) >= options.steps
    for item in () if ended else on_device(dataset, "cpu"):
        batch = batch_of(item)
        documents = torch.from_numpy(document_ids(batch))
        mask = (documents[:, :, None] == documents[:, None, :]).tril()[:, None]
        counted = torch.from_numpy(loss_mask(batch))
        scores = network(item["inputs"], mask)
        # The mean over the labels of all processes: DDP averages what each has.
        labels = summed(counted.sum(), ranks)
        total = functional.cross_entropy(scores[counted], item["targets"][counted], reduction="sum")
        loss = total / labels * ranks
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step = len(curve)
        curve.append(f"{step},{(summed(total.detach(), ranks) / labels).item():.9f}")
        if not first:
            continue
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            data = dataset.state_after(item)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(checkpoint, {**state, "data": data, "curve": curve})
            losses.write_text("\n".join(curve) + "\n")
            print(f"step {step + 1}: loss {float(curve[-1].split(',')[1]):.3f}", flush=True)
    dataset.close()
    if first:
        print(held_out(model, options.corpus, options.length))
    if ranks > 1:
        distributed.barrier()
        del network  # before the group
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()

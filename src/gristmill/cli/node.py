"""The verb that fetches a node's shards: thin, as app.py."""

from pathlib import Path

from typer import Argument, Option

from gristmill.cli.arguments import Json, parse_bytes
from gristmill.progress.terminal import print_result, warn
from gristmill.system.interrupts import handle_ctrl_c


def node(
    urls: list[str] = Argument(
        ...,
        metavar="URL...",
        help="Where the corpus was published; of several, the next one is asked if one fails.",
    ),
    node_id: str = Option(..., help="The id of this node: it decides which shards."),
    rotation: int = Option(0, min=0, help="Fetch the shards of this rotation."),
    cache_dir: Path | None = Option(None, help="The folder of the cache; processes may share it."),
    cache_bytes: str | None = Option(
        None,
        help="Limit the cache to this size (200GB); the least recently used files that nobody "
        "uses are removed first.",
    ),
    root: Path | None = Option(
        None, help="The pinned root.json: releases must be signed by its keys."
    ),
    assignment: str = Option("genesis", help="genesis or rendezvous."),
    shards: int = Option(10, min=1, help="Shards of a rotation."),
    nodes: Path | None = Option(
        None, help="For rendezvous: a file with the ids of all nodes, by line."
    ),
    holders: int = Option(3, min=1, help="For rendezvous: nodes that hold each shard."),
    as_json: Json = False,
) -> None:
    """Fetch and verify the shards that are assigned to a training node, and show where they are."""
    from gristmill.errors import RecipeError
    from gristmill.network.node.node import Node

    handle_ctrl_c()
    if assignment not in ("genesis", "rendezvous"):
        raise RecipeError(f"--assignment {assignment}: it is genesis or rendezvous")
    try:
        listed = None if nodes is None else nodes.read_text("utf-8").split()
    except (OSError, ValueError) as error:
        raise RecipeError(f"--nodes {nodes}: cannot be read as UTF-8 text: {error}") from error
    if listed is not None and node_id not in listed:
        raise RecipeError(
            f"--nodes {nodes}: node {node_id!r} is not among its {len(listed):,} ids: add it, in "
            "the list of every node"
        )
    with Node(
        urls,
        node_id,
        cache_dir=cache_dir,
        cache_bytes=parse_bytes("--cache-bytes", cache_bytes),
        root=root,
        assignment="rendezvous" if assignment == "rendezvous" else "genesis",
        shards=shards,
        nodes=listed,
        holders=holders,
        on_event=warn,
    ) as fetcher:
        result = fetcher.fetch(rotation)
    lines = [
        f"release {result['release']}, manifest {result['manifest']}, "
        + ("signed" if result["signed"] else "without a pinned root"),
        (
            f"rotation {rotation} of {result['rotations']:,}: {len(result['shards'])} shards, "
            f"{result['tokens']:,} tokens, {result['bytes'] / 1e6:,.1f} MB"
        ),
        *(f"  {path}" for path in result["shards"]),
        f"corpus {result['corpus']}",
    ]
    print_result(result, as_json, lines)

"""The verb that fetches a node's shards: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.arguments import Json, parse_bytes
from gristmill.progress.terminal import print_result, warn
from gristmill.system.interrupts import handle_ctrl_c


def node(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...",
            help="Where the corpus was published; of several, the next one is asked if one fails.",
        ),
    ],
    node_id: Annotated[str, typer.Option(help="The id of this node: it decides which shards.")],
    rotation: Annotated[int, typer.Option(min=0, help="Fetch the shards of this rotation.")] = 0,
    cache_dir: Annotated[
        Path | None, typer.Option(help="The folder of the cache; processes may share it.")
    ] = None,
    cache_bytes: Annotated[
        str | None,
        typer.Option(
            help="Limit the cache to this size (200GB); the least recently used files that nobody "
            "uses are removed first."
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The pinned root.json: releases must be signed by its keys.")
    ] = None,
    assignment: Annotated[str, typer.Option(help="genesis or rendezvous.")] = "genesis",
    shards: Annotated[int, typer.Option(min=1, help="Shards of a rotation.")] = 10,
    nodes: Annotated[
        Path | None, typer.Option(help="For rendezvous: a file with the ids of all nodes, by line.")
    ] = None,
    holders: Annotated[
        int, typer.Option(min=1, help="For rendezvous: nodes that hold each shard.")
    ] = 3,
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
    ) as one:
        result = one.fetch(rotation)
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

"""How deep a parsed page is: what a library that recurses is spared."""

from typing import Any


def tree_depth(root: Any, most: int) -> int:
    """Return how many elements lie in one another from an element down, itself counted; at `most`
    counting stops.
    """
    node, depth, deepest = root, 1, 1
    while deepest < most:
        below = node.first_element_child
        if below is not None:
            node, depth = below, depth + 1
            deepest = max(deepest, depth)
            continue
        while (beside := node.next_element_sibling) is None:
            node, depth = node.parent_element, depth - 1
            if depth <= 1:
                return deepest
        node = beside
    return deepest

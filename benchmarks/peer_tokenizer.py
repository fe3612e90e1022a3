"""GPT-2's tokenizer.json, made from tiktoken's ranks for peers that need it."""

import base64


def gpt2_json(data: bytes) -> bytes:
    """A tokenizer.json from tiktoken's ranks: a token's two parts are what the ranks below its own
    make of it.
    """
    from gristmill.tokens.rank_files import END_OF_TEXT
    from gristmill.training.tokenizer_json import BytePairTokenizer, write_tokenizer_json

    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in data.splitlines() if line)
    }
    tokens = sorted(ranks, key=ranks.__getitem__)
    merges = []
    for rank, token in enumerate(tokens[256:], 256):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [ranks.get(parts[i] + parts[i + 1], rank) for i in range(len(parts) - 1)]
            place = pairs.index(min(pairs))
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        merges.append((ranks[parts[0]], ranks[parts[1]]))
    single = [token[0] for token in tokens[:256]]
    return write_tokenizer_json(BytePairTokenizer("gpt2", [END_OF_TEXT], False, single, merges))

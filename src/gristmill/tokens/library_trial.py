"""What a tokenizer.json does to HF tokenizers, in a process that may die (try_in_process.py).

It imports the library and nothing that takes memory of its own.
"""

import os

MOST_ADDED = 200  # added tokens that are tried as texts
TEXTS = (
    "",
    " ",
    "a",
    "  a  b\n\n\tc ",
    "The quick brown fox, 1234 times: naïve café!",
    "文字 ไทย हिन्दी 😀 e\u0301 \u00a0\u200b\ufeff ﬁ Å",
    "<|endoftext|></s><s> <0x0A> ▁ \x00",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 4,
)


def encode_texts(data: bytes) -> str:
    """Load a file, and encode a few texts and its added tokens. Raises ValueError where the library
    refuses.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers

    try:
        made = tokenizers.Tokenizer.from_buffer(data)
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = True
        added = [token.content for token in made.get_added_tokens_decoder().values()][:MOST_ADDED]
        for text in (*TEXTS, *added, *(f"a {token} b" for token in added)):
            made.encode(text, add_special_tokens=False)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        raise ValueError(str(error) or type(error).__name__) from error
    return ""

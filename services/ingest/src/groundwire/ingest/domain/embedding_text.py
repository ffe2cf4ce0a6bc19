"""Make the text that is embedded for a chunk: its content under the headings that lead to it, in windows the model can read.

The stored chunk stays verbatim. The headings give the model the subject that the words of the chunk leave out, and the
windows keep the end of a long chunk from being ignored.
"""

import hashlib
from collections.abc import Iterable, Sequence

SEPARATOR = " > "


def heading_prefix(title: str | None, chapter: str, path: Sequence[str], max_chars: int) -> str:
    """Return `Title > Chapter > Section` and a blank line, without repetitions, at most `max_chars` and the blank line.

    The outermost parts are left out first; the result is empty when not even the innermost fits.
    """
    parts = list(dict.fromkeys(part for part in (title, chapter, *path) if part))
    while parts and len(SEPARATOR.join(parts)) > max_chars:
        parts.pop(0)
    return SEPARATOR.join(parts) + "\n\n" if parts else ""


def window_starts(token_starts: Sequence[int], word_starts: Sequence[bool], capacity: int) -> list[int]:
    """Return the code points where the windows of a text begin; the first is 0.

    Every window holds at most `capacity` (>= 1) tokens and all are about equally long; a cut moves
    back to the start of a word when there is one in the last quarter.

    Args:
        token_starts: code point of each token of the text, ascending.
        word_starts: whether a word begins with that token.
        capacity: tokens the model reads beside the prefix and its special tokens.
    """
    starts, done = [0], 0
    while len(token_starts) - done > capacity:
        left = -(-(len(token_starts) - done) // capacity)
        step = -(-(len(token_starts) - done) // left)
        floor = done + max(1, step - step // 4)
        cut = next((at for at in range(done + step, floor - 1, -1) if word_starts[at]), done + step)
        starts.append(token_starts[cut])
        done = cut
    return starts


def embedding_inputs(prefix: str, content: str, starts: Sequence[int]) -> list[str]:
    """Return what the model reads for a chunk: one text for each window."""
    ends = [*starts[1:], len(content)]
    return [prefix + content[start:end] for start, end in zip(starts, ends, strict=True)]


def embedding_key(inputs: Iterable[str]) -> str:
    """Return the SHA-256 (lower-case hex) that names the vector of these inputs in the embedding cache."""
    digest = hashlib.sha256()
    for text in inputs:
        encoded = text.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()

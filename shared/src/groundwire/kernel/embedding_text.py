"""What a model reads of a chunk."""

from collections.abc import Sequence


def embedding_text(hierarchy_path: Sequence[str], content: str) -> str:
    """Return the text whose vector stands for a chunk: the headings above it, one on each line, and its content.

    A chunk in the middle of a section does not say what it is about; its headings do. They are repeated also where
    the content begins with one of them, so that neighbours of a section are embedded alike.

    Args:
        hierarchy_path: headings above the chunk, outermost first; empty leaves the content as it is.
        content: the chunk's part of the canonical text.
    """
    return "\n".join((*hierarchy_path, "", content)) if hierarchy_path else content

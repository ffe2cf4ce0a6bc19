"""Turn the source of a Markdown heading into the words a reader sees."""

import html
import re

from groundwire.kernel.text_blocks import code_spans

MAX_HEADING_CHARS = 200
_ATTRIBUTES = re.compile(r"\{[#.][^{}]*\}$")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*_\\])([*_])(?=\S)(.+?)(?<=\S)\1(?![\w*_])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"\s+")


def heading_text(source: str) -> str:
    """Return the text of a heading without Markdown markup, at most MAX_HEADING_CHARS code points.

    Code spans keep their content, links their text; HTML tags, emphasis marks, escapes and a trailing `{#id}` go.
    """
    source = _ATTRIBUTES.sub("", source[: 4 * MAX_HEADING_CHARS].rstrip()).rstrip()
    parts, done = [], 0
    for start, end in code_spans(source, 0, len(source)):
        parts += [_plain(source[done:start]), source[start:end].strip("`")]
        done = end
    parts.append(_plain(source[done:]))
    return _SPACES.sub(" ", "".join(parts)).strip()[:MAX_HEADING_CHARS].rstrip()


def _plain(text: str) -> str:
    for markup, kept in ((_IMAGE_OR_LINK, r"\1"), (_TAG, ""), (_STRONG, r"\2"), (_EMPHASIS, r"\2"), (_ESCAPE, r"\1")):
        text = markup.sub(kept, text)
    return html.unescape(text)

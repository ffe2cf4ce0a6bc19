"""Shows markup as plain text: what a person reads where the source has marks, links and line breaks."""

import re

from markdown_it import MarkdownIt

from groundwire.answer.evidence import Markup

_MARKDOWN = MarkdownIt("commonmark")
_MAY_HOLD_MARKDOWN = re.compile(r"[*_`\[<&\\!]")
# `[text][label]` and footnotes need definitions that stand elsewhere in the document.
_REFERENCE_LINK = re.compile(r"\[([^\[\]]+)\]\[[^\[\]]*\]|\[\^[^\[\]]+\]")
_REFERENCE_NUMBER = re.compile(r"(?<=[^\s\[(])\[\d{1,3}\](?:_(?!\w))?")
_TASK_BOX = re.compile(r"^\[[ xX]\]\s")
_RST = (
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r":(pep|rfc):`(?:[^`<]*<)?(\d+)[^`]*`"), lambda match: f"{match[1].upper()} {match[2]}"),
    (re.compile(r"(?::[\w.:+-]+:)?`~?([^`<]+?)(?:\s*<[^`>]*>)?`(?:__?(?!\w))?"), r"\1"),
    (re.compile(r"\s?\[[#*\w]{1,20}\]_(?!\w)"), ""),
    (re.compile(r"(?<![\w*])\*{1,2}([^\s*](?:[^*\n]*[^\s*])?)\*{1,2}(?![\w*])"), r"\1"),
    (re.compile(r"(?<=\w)_(?=[\s.,;:)!?]|$)"), ""),
)
_HYPHENATED = re.compile(r"(?<=[a-z])-[ \t]*\n[ \t]*(?=[a-z])")
_QUOTE_MARKS = re.compile(r"\n[ \t]{0,3}(?:>[ \t]?)+")
_SPACE = re.compile(r"\s+")


def plain_text(text: str, markup: Markup) -> str:
    """Return the text of a sentence, cell or list item on one line, without marks; words are never changed."""
    text = _QUOTE_MARKS.sub("\n", text) if markup is not Markup.NONE else _HYPHENATED.sub("", text)
    text = _REFERENCE_NUMBER.sub("", text)
    if markup is Markup.MARKDOWN and _MAY_HOLD_MARKDOWN.search(text):
        text = _without_markdown(_TASK_BOX.sub("", _REFERENCE_LINK.sub(r"\1", text)))
    elif markup is Markup.RST:
        for pattern, replacement in _RST:
            text = pattern.sub(replacement, text)
    return _SPACE.sub(" ", text).strip()


def _without_markdown(text: str) -> str:
    parts: list[str] = []
    for token in _MARKDOWN.parseInline(text)[0].children or []:
        if token.type in {"text", "code_inline", "text_special"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return "".join(parts)

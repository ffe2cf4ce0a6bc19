"""Reads HTML and what dialects of Markdown add to it as plain Markdown, in a text of the same length."""

import re

from groundwire.kernel.html_tags import html_as_markdown

_FENCE = re.compile(
    r"[ \t]*+(?P<run>`{3,}+|~{3,}+|:{3,}+(?=[ \t]*+(?:[{\w]|\s|\Z)))[ \t]*+"
    r"(?:\{(?P<name>[\w:-]{1,40})\})?(?P<info>[^\r\n]*+)"
)
_OPTION = re.compile(r"[ \t]*+:[\w-]{1,40}:(?:\s|$)")
# `!!! note "Title"` and `=== "Tab"` of MkDocs, `/// note | Title` of its extensions, `> [!NOTE]` of GitHub, and the
# targets `(name)=` of MyST.
_MARK = re.compile(
    r"[ \t]*+(?:(?:!!!|\?\?\?\+?)[ \t]++[a-z][^\r\n]*+|===[!+]?[ \t]++\"[^\r\n]*+"
    r"|///(?:[ \t]++[a-z-]++(?:[ \t]*+\|[^\r\n]*+)?)?|>[ \t]*+\[!\w{1,20}\]|\([\w:.-]{1,80}\)=)\s*$"
)
# What stands in them is read like any other text.
_OF_PROSE = re.compile(
    r"admonition|attention|caution|card|danger|deprecated|dropdown|error|grid(?:-item(?:-card)?)?|hint|important|note"
    r"|seealso|tab-(?:item|set)|tip|todo|version(?:added|changed|removed)|warning"
)
# They say nothing to a reader.
_OF_LAYOUT = re.compile(r"contents|(?:current)?module|figure|image|include|index|literalinclude|program|raw|toctree")
# A definition in the dialects of PHP and MyST: the term stands in the line above.
_DEFINITION = re.compile(r":[ \t]++\S")
_DEFINED = re.compile(r"[ \t]{0,3}(?:[\w`\[(]|\*\*)[^\r\n]{0,79}(?<!:)\s*")
# The title of a tab says for which platform or variant what stands below it is; MkDocs may show an icon before it. The
# name of a file says nothing that the code below it does not.
_TAB = re.compile(
    r"(?P<indent>[ \t]*+)===[!+]?[ \t]++\"(?:[ \t]*+:[\w-]{1,60}:[ \t])?[ \t]*+"
    r"(?P<title>\w(?![^\r\n]{0,79}\.\w{1,5}\"\s*\Z)[^\r\n\"]{0,79})\"\s*"
)
_SIGNS = ("```{", "~~~{", ":::", "!!!", "???", "===", "///", "[!", ")=", "\n: ", "\n:\t")
_VISIBLE = re.compile(r"[^\r\n]")


def read_markdown(text: str) -> str:
    """Return a text of the same length in which directives and HTML are plain Markdown.

    What stands in a note, a warning, a tab or the like of MyST, MkDocs, Docusaurus or GitHub is text like any other,
    and no code; tables of contents and other layout are spaces. A term and its definition are one line, with a colon
    between them. Takes time linear in the length of the text.
    """
    return html_as_markdown(_without_directives(text) if any(sign in text for sign in _SIGNS) else text)


def _without_directives(text: str) -> str:
    shown = list[str]()
    notes = list[str]()  # the fences around the text
    around = ""  # the fence around code or layout, which holds no other
    is_hidden = has_options = False
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        run, name, info = fence.group("run", "name", "info") if fence else ("", "", "")
        is_end = bool(run) and not name and not info.strip()
        is_option, has_options = has_options and _OPTION.match(line) is not None, False
        if around:
            shown.append(_blank(line) if is_hidden else line)
            if is_end and run.startswith(around):
                around = ""
        elif is_end and notes and run.startswith(notes[-1]):
            notes.pop()
            shown.append(_blank(line))
        elif run and (_OF_PROSE.fullmatch(name or "") or run[0] == ":"):
            notes.append(run)
            shown.append(_blank(line))
            has_options = True
        elif run:
            around, is_hidden = run, _OF_LAYOUT.fullmatch(name or "") is not None
            shown.append(_blank(line) if is_hidden else line)
        elif _DEFINITION.match(line) and shown and _DEFINED.fullmatch(shown[-1]):
            shown[-1] = f"{shown[-1].rstrip()}:".ljust(len(shown[-1]))
            shown.append(f" {line[1:]}")
        else:
            has_options = is_option
            tab = _TAB.fullmatch(line)
            shown.append(_labelled(tab) if tab else _blank(line) if is_option or _MARK.match(line) else line)
    return "".join(shown)


def _labelled(tab: re.Match[str]) -> str:
    """Return the line of a tab as one that introduces what follows: its title with a colon."""
    end = tab[0][len(tab[0].rstrip("\r\n")) :]
    return f"{tab['indent']}{tab['title'].rstrip(':')}:".ljust(len(tab[0]) - len(end)) + end


def _blank(line: str) -> str:
    return _VISIBLE.sub(" ", line)

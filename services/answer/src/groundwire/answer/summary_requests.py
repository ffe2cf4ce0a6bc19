"""Questions that ask for a summary, and the document that they ask it of."""

import re
from collections.abc import Sequence

from groundwire.answer.evidence import Passage
from groundwire.kernel.stems import content_stems

_SUMMARY = re.compile(
    r"^\W*(?:please |can you |could you |i want |i need )*(?:(?:summari[sz]e|sum up|outline|recap)"
    r"|(?:(?:give|show|write|make)(?: me)? )?(?:an? |the )?(?:short |brief |quick )?(?:summary|overview|outline) of"
    r"|what (?:does|do|is|are)(?= .{1,80} (?:about|cover)\W*$)|tl;?dr(?: of)?)"
    r"(?P<subject>[^?!\n]{0,80}?)(?: (?:all )?(?:about|cover))?(?: for me|please)?\W*$",
    re.IGNORECASE,
)
_KIND_OF_DOCUMENT = re.compile(
    r"^\W*(?:the |this )?(?:chapter|section|document|file|page|article|paper|book|guide)"
    r" (?:on|about|called|named) (?:the )?",
    re.IGNORECASE,
)
# A document that is called no more than that.
_WHOLE = re.compile(
    r"\W*(?:(?:this|the|that|my|whole|entire|it|text|document|file|page|article|paper|book|handbook|guide|report|content)"
    r"s?\b\W*)*$",
    re.IGNORECASE,
)


def document_asked_for(question: str) -> str | None:
    """Return the name of what a summary is asked of: None for other questions, empty for "this document"."""
    match = _SUMMARY.match(question)
    if match is None:
        return None
    return "" if _WHOLE.match(match["subject"]) else _KIND_OF_DOCUMENT.sub("", match["subject"]).strip()


def named_place(name: str, passages: Sequence[Passage]) -> tuple[str, str] | None:
    """Return the id of the best document whose title or source has all words of a name, or with the chapter that has.

    The chapter is empty where the whole document is named; None where nothing is.
    """
    stems = set(content_stems(name))
    if not stems:
        return None
    for passage in passages:
        if stems <= {*content_stems(f"{passage.title} {passage.source_uri}")}:
            return passage.document_id, ""
    return next(
        ((each.document_id, each.chapter) for each in passages if stems <= {*content_stems(each.chapter)}), None
    )

"""Write citations as text: numbered sources, source nodes, and references in the manner of APA."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from groundwire.answer.answers import Citation

_UNKNOWN = "unknown"


class CitationStyle(StrEnum):
    """How citations are written."""

    INLINE = "INLINE"
    NUMBERED = "NUMBERED"
    SOURCE_NODES = "SOURCE_NODES"
    APA = "APA"
    APA_PLAIN = "APA_PLAIN"


@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference says of a work. `year` 0 and empty texts are unknown.

    `authors` are in order, as they are written: `Doe, Jane`, `Doe, J.` or `World Health Organization`. `pages` is as it
    is written too: `5` or `45-47`. `source` is the journal, the publisher or the file.
    """

    authors: tuple[str, ...] = ()
    year: int = 0
    title: str = ""
    source: str = ""
    pages: str = ""
    doi: str = ""
    url: str = ""


def reference_of(citation: Citation) -> Reference:
    return Reference(
        authors=citation.creators,
        year=citation.date_created.year if citation.date_created else 0,
        title=citation.title,
        source=citation.source_uri,
        pages=_pages(citation.page_numbers),
        doi=citation.doi,
        url=citation.url,
    )


def line_of(citation: Citation, reference: Reference, style: CitationStyle) -> str:
    match style:
        case CitationStyle.APA:
            return apa(reference)
        case CitationStyle.APA_PLAIN:
            return apa_plain(reference)
        case CitationStyle.INLINE:
            return f"[{citation.marker}] \u201c{citation.quote}\u201d {_place(reference)}"
        case CitationStyle.NUMBERED | CitationStyle.SOURCE_NODES:
            return f"[{citation.marker}] {_place(reference)}"


def list_of(lines: Sequence[str], style: CitationStyle) -> str:
    """Return lines below each other, equal ones once; references in the order of the alphabet, others as they come."""
    distinct = list(dict.fromkeys(lines))
    if style is CitationStyle.APA:
        distinct.sort(key=str.casefold)
    return "\n".join(distinct)


def _place(reference: Reference) -> str:
    return f"{reference.title or _UNKNOWN}, p. {reference.pages or _UNKNOWN}"


def _pages(numbers: Sequence[int]) -> str:
    if not numbers:
        return ""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


# APA

_MOST_AUTHORS = 20
_FIRST_AUTHORS = 19


def apa(reference: Reference) -> str:
    """Return a reference as APA, 7th edition, writes it in plain text.

    Authors with `&` before the last, given names as initials where family and given names are told apart by a comma,
    from 21 authors on the first 19, an ellipsis and the last; `n.d.` without a year; the title in front without an
    author; `p.` for one page and `pp.` for several; a DOI as link, else the URL, without a stop behind it.
    """
    year = f"({reference.year})." if reference.year else "(n.d.)."
    title, authors = _with_stop(reference.title or reference.source or reference.url), _authors(reference.authors)
    head = f"{_with_stop(authors)} {year} {title}" if authors else f"{title} {year}"
    # A source that is the link or stands as title already would be said twice.
    is_repeated = reference.source in {"", reference.url, reference.title} or not reference.title
    source = "" if is_repeated else reference.source
    pages = f"{'pp.' if _is_range(reference.pages) else 'p.'} {_dashed(reference.pages)}" if reference.pages else ""
    place = ", ".join(part for part in (source, pages) if part)
    link = _link(reference)
    return " ".join(part for part in (head, _with_stop(place), link) if part)


def apa_plain(reference: Reference) -> str:
    """Return a reference in a simpler form: authors joined by commas, `Unknown` without any, always `pp.`.

    `Smith, J., Doe, A. (2024). Q3 Financial Report. Corporate Finance Quarterly, pp. 45-47.` A link has no stop behind
    it.
    """
    authors = ", ".join(reference.authors) or "Unknown"
    text = f"{authors} ({reference.year or 'n.d.'}). {reference.title}. {reference.source}"
    text += f", pp. {reference.pages}" if reference.pages else ""
    link = _link(reference)
    return f"{text}. {link}" if link else f"{text}."


def _link(reference: Reference) -> str:
    if not reference.doi:
        return reference.url
    return reference.doi if reference.doi.startswith("https://") else f"https://doi.org/{reference.doi}"


def _authors(authors: Sequence[str]) -> str:
    names = [_inverted(name) for name in authors if name.strip()]
    if len(names) > _MOST_AUTHORS:
        return f"{', '.join(names[:_FIRST_AUTHORS])}, . . . {names[-1]}"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f", & {names[-1]}" if names else ""


def _inverted(name: str) -> str:
    """Return `Doe, J. A.` for `Doe, Jane Ann`.

    A name without a comma stays as it is: `World Health Organization` is no person.
    """
    family, comma, given = name.partition(",")
    if not comma:
        return name.strip()
    parts = given.split()
    initials = " ".join("-".join(f"{each[0]}." for each in part.split("-") if each) for part in parts)
    return f"{family.strip()}, {initials}" if initials else family.strip()


def _with_stop(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


def _is_range(pages: str) -> bool:
    return any(mark in pages for mark in ("-", "\u2013", ","))


def _dashed(pages: str) -> str:
    return pages.replace("-", "\u2013")

"""Builds the text of an answer statement by statement, numbering its citations."""

from dataclasses import dataclass, replace

from groundwire.answer.domain.answer import Citation, Claim, cite
from groundwire.answer.domain.confidence import claim_confidence
from groundwire.answer.domain.draft import Source, Statement
from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class Addition:
    """What a statement added: `text` at code point `start` of the content, and citations not seen before."""

    text: str
    start: int
    citations: tuple[Citation, ...]


class Composer:
    """An answer in the making, at most `limit` code points long.

    Each statement is followed by its markers, ` [1]`. A statement that does not fit is left out whole, so
    the text always ends with a sentence and its markers, and numbers have no gap (requirement S4-06, T43).
    """

    def __init__(self, collection: str, limit: int) -> None:
        self._collection = collection
        self._limit = limit
        self._numbers: dict[tuple[str, int, int, int], int] = {}
        self.content = ""
        self.citations: list[Citation] = []
        self.claims: list[Claim] = []
        self.is_cut = False

    def add(self, statement: Statement) -> Addition | None:
        """Append a statement whose sources were all checked; None when it does not fit.

        The very first statement is shortened at a word instead, because an answer has to say something.
        """
        fitting = statement if self._fits(statement) else self._shortened(statement)
        self.is_cut = self.is_cut or fitting is not statement
        return None if fitting is None else self._append(fitting)

    def _append(self, statement: Statement) -> Addition:
        before = len(self.content)
        lead = self.content + (statement.separator if self.content else "")
        span = _span_at(lead, statement.text)
        known = len(self.citations)
        markers = tuple(dict.fromkeys(self._number(source, span) for source in statement.sources))
        self.content = lead + statement.text + _marks(markers)
        relevances = [source.passage.relevance for source in statement.sources]
        self.claims.append(Claim(span, statement.text, tuple(sorted(markers)), claim_confidence(relevances)))
        return Addition(self.content[before:], before, tuple(self.citations[known:]))

    def _number(self, source: Source, answer_span: Span) -> int:
        """Return the marker of a source: the one it has, with one more answer span, or the next."""
        key = _key(source)
        marker = self._numbers.setdefault(key, len(self._numbers) + 1)
        if marker > len(self.citations):
            self.citations.append(cite(marker, self._collection, source, answer_span))
        elif answer_span not in self.citations[marker - 1].answer_spans:
            known = self.citations[marker - 1]
            self.citations[marker - 1] = replace(known, answer_spans=(*known.answer_spans, answer_span))
        return marker

    def _fits(self, statement: Statement) -> bool:
        lead = len(self.content) + (len(statement.separator) if self.content else 0)
        return lead + len(statement.text) + self._marks_length(statement) <= self._limit

    def _marks_length(self, statement: Statement) -> int:
        fresh = len(self._numbers)
        markers: dict[tuple[str, int, int, int], int] = {}
        for source in statement.sources:
            key = _key(source)
            if key not in markers:
                fresh += key not in self._numbers
                markers[key] = self._numbers.get(key, fresh)
        return len(_marks(tuple(markers.values())))

    def _shortened(self, statement: Statement) -> Statement | None:
        """Return the statement cut at the last word that fits; only possible for the first one, if it is a quote.

        It rests on the source it was copied from alone: others may continue differently.
        """
        if self.content or statement.sources[0].quote != statement.text:
            return None
        statement = replace(statement, sources=statement.sources[:1])
        room = self._limit - self._marks_length(statement)
        head = statement.text[:room]
        kept = (head[: len(head) - len(head.split()[-1])] if len(head.split()) > 1 else head).rstrip()
        source = statement.sources[0]
        start, start_byte = source.span.start, source.span.start_byte
        span = Span(start, start + len(kept), start_byte, start_byte + len(kept.encode()))
        return Statement(kept, (replace(source, span=span, quote=kept),), statement.separator)


def _key(source: Source) -> tuple[str, int, int, int]:
    return (source.passage.document_id, source.passage.generation, source.span.start, source.span.end)


def _marks(markers: tuple[int, ...]) -> str:
    return "".join(f" [{marker}]" for marker in markers)


def _span_at(lead: str, text: str) -> Span:
    start_byte = len(lead.encode())
    return Span(len(lead), len(lead) + len(text), start_byte, start_byte + len(text.encode()))

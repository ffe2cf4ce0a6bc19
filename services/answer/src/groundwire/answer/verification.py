"""Compare returned citations, and those of stored answers, with what is stored now."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from groundwire.answer.ports import DocumentGeneration, Library, StoredDocument, Workers
from groundwire.answer.sessions import KeptAnswer, SessionStore
from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1 import span_pb2
from groundwire.api.retrieve.v1.library_service_pb2 import ChunkLocation
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.errors import NotFoundError
from groundwire.kernel.session import AnswerFilter, Role
from groundwire.kernel.spans import OffsetMap, Span
from groundwire.rpc.messages import to_span

# Characters on each side that distinguish places with the same text.
_SURROUNDINGS = 200
# A quote such as "the" occurs everywhere, and each place is compared.
_PLACES = 100


class CanonicalText:
    """A stored text to compare citations with."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._offsets = OffsetMap(text)

    def span(self, claimed: span_pb2.Span) -> Span | None:
        """Return the claimed span, None if it is not a range of the text or its code points and bytes disagree."""
        start, end, bytes_ = claimed.start, claimed.end, (claimed.start_byte, claimed.end_byte)
        try:
            if (start, end) == (0, 0):
                start, end = map(self._offsets.to_codepoint, bytes_)
            span = self._offsets.span(start, end)
        except (IndexError, ValueError):
            return None
        agrees = bytes_ in {(0, 0), (span.start_byte, span.end_byte)}
        return span if agrees and span.start < span.end else None

    def only_place(self, quote: str) -> Span | None:
        """Return the place of a quote that occurs exactly once; an empty quote occurs everywhere."""
        start = self.text.find(quote)
        if start < 0 or self.text.find(quote, start + 1) >= 0:
            return None
        return self._offsets.span(start, start + len(quote))

    def likeliest_place(self, quote: str, claimed: Span | None, cited: "CanonicalText | None") -> Span | None:
        """Return where the quote is that was cited at `claimed` of another text, None if it does not occur.

        Of several places, the one whose surroundings share most characters with those in `cited`; among equals, and
        without `cited`, the one nearest to the cited place. Looks at the nearest hundred on either side.
        """
        if not quote:
            return None
        origin = claimed.start if claimed is not None else 0
        places = [*self._places(quote, origin, forwards=True), *self._places(quote, origin, forwards=False)]
        if not places:
            return None
        before = after = ""
        if cited is not None and claimed is not None:
            before = cited.text[max(0, claimed.start - _SURROUNDINGS) : claimed.start]
            after = cited.text[claimed.end : claimed.end + _SURROUNDINGS]

        def likeness(start: int) -> tuple[int, int]:
            end = start + len(quote)
            front = _common(reversed(self.text[max(0, start - _SURROUNDINGS) : start]), reversed(before))
            return (front + _common(self.text[end : end + _SURROUNDINGS], after), -abs(start - origin))

        start = max(places, key=likeness)
        return self._offsets.span(start, start + len(quote))

    def _places(self, quote: str, origin: int, *, forwards: bool) -> Iterator[int]:
        """Yield where the quote begins, the places nearest to `origin` first, a hundred at most."""
        # It begins before the origin, but may end after it.
        place, end = origin - 1, origin + len(quote) - 1
        for _ in range(_PLACES):
            if forwards:
                place = self.text.find(quote, place + 1)
            else:
                place = self.text.rfind(quote, 0, end)
                end = place + len(quote) - 1
            if place < 0:
                return
            yield place


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def compare(
    claimed: citation_pb2.Citation, text: CanonicalText | None
) -> tuple[citation_pb2.VerificationFailure.ValueType, str, Span | None]:
    """Return why a citation fails (unspecified when it does not), the stored text at its span, and the span.

    Nothing of it is trusted. The code points or the bytes of its span may both be 0, which means not given; an empty
    digest is not compared.
    """
    if text is None:
        return citation_pb2.VERIFICATION_FAILURE_GENERATION_NOT_FOUND, "", None
    span = text.span(claimed.span)
    if span is None:
        return citation_pb2.VERIFICATION_FAILURE_SPAN_INVALID, "", None
    stored = text.text[span.start : span.end]
    if stored != claimed.quote:
        return citation_pb2.VERIFICATION_FAILURE_TEXT_DIFFERS, stored, span
    digest = hashlib.sha256(claimed.quote.encode()).hexdigest()
    if claimed.quote_sha256 not in {"", digest}:
        return citation_pb2.VERIFICATION_FAILURE_DIGEST_DIFFERS, stored, span
    return citation_pb2.VERIFICATION_FAILURE_UNSPECIFIED, stored, span


MESSAGES = {
    citation_pb2.VERIFICATION_FAILURE_UNSPECIFIED: "the stored text at this span equals the quote",
    citation_pb2.VERIFICATION_FAILURE_DOCUMENT_NOT_FOUND: "there is no such document",
    citation_pb2.VERIFICATION_FAILURE_GENERATION_NOT_FOUND: "this generation of the document is not stored",
    citation_pb2.VERIFICATION_FAILURE_SPAN_INVALID: (
        "the span is not a range of the text, or its code points and bytes disagree"
    ),
    citation_pb2.VERIFICATION_FAILURE_TEXT_DIFFERS: "the stored text at this span is another",
    citation_pb2.VERIFICATION_FAILURE_DIGEST_DIFFERS: "the quote does not have the digest that the citation gives",
    citation_pb2.VERIFICATION_FAILURE_CHUNK_MISMATCH: "the chunk does not exist or does not hold the span",
}
"""What each outcome means, for people."""


MAX_TEXT_BYTES = 3 << 20
"""UTF-8 of all stored texts that verifications of one call show."""


async def verify_citations(
    library: Library, workers: Workers, citations: Sequence[citation_pb2.Citation]
) -> list[citation_pb2.CitationVerification]:
    """Return one verification for each citation, in the order given; none of them is an error.

    Each document is read once, whatever the number of its citations. Stored texts are left out that would make up
    more than 3 MiB together. An empty chunk id and a chunk number of 0 are not compared.
    """
    places: dict[DocumentGeneration, list[int]] = defaultdict(list)
    for index, claimed in enumerate(citations):
        places[DocumentGeneration(claimed.collection, claimed.document_id, claimed.generation)].append(index)
    chunks = await library.chunk_places([(each.chunk_id, each.chunk_number) for each in citations])
    verifications: dict[int, citation_pb2.CitationVerification] = {}
    room, budget = MAX_TEXT_BYTES, current_budget()
    for named, indexes in places.items():
        document = await library.document(named)
        claims = [(citations[index], chunks[index]) for index in indexes]
        # In a worker: searching a long text for a thousand quotes takes seconds.
        found, room = await workers.run(budget, verify_in_document, claims, document, room, budget)
        verifications.update(zip(indexes, found, strict=True))
    return [verifications[index] for index in range(len(citations))]


def verify_in_document(
    claims: Sequence[tuple[citation_pb2.Citation, ChunkLocation | None]],
    document: StoredDocument | None,
    room: int,
    budget: Budget,
) -> tuple[list[citation_pb2.CitationVerification], int]:
    """Return one verification for each citation of a document, and how much is left of `room` bytes of stored text."""
    if document is None:
        failure = citation_pb2.VERIFICATION_FAILURE_DOCUMENT_NOT_FOUND
        missing = citation_pb2.CitationVerification(
            verdict=citation_pb2.CITATION_VERDICT_FAILED,
            failure=failure,
            message=MESSAGES[failure],
            quote_state=citation_pb2.QUOTE_STATE_GONE,
        )
        return [missing] * len(claims), room
    cited = CanonicalText(document.text) if document.text is not None else None
    # All citations name the same generation.
    is_live = claims[0][0].generation == document.live_generation
    live = cited if is_live and cited is not None else CanonicalText(document.live_text)
    verifications = []
    for claimed, chunk in claims:
        budget.check()
        failure, stored, span = compare(claimed, cited)
        # Chunks of older generations are gone, so only one of the live generation can be looked at.
        if not failure and span is not None and is_live and (claimed.chunk_id or claimed.chunk_number):
            in_chunk = (
                chunk is not None
                and (chunk.document_id, chunk.generation) == (claimed.document_id, claimed.generation)
                and chunk.span.start <= span.start
                and span.end <= chunk.span.end
            )
            failure = failure if in_chunk else citation_pb2.VERIFICATION_FAILURE_CHUNK_MISMATCH
        current = span if is_live and not failure else live.only_place(claimed.quote)
        # The surroundings of the cited place distinguish the quote from equal ones only if it really was there.
        known = cited if stored == claimed.quote else None
        likely = current or live.likeliest_place(claimed.quote, span, known)
        state = citation_pb2.QUOTE_STATE_GONE
        if likely is not None:
            state = citation_pb2.QUOTE_STATE_IN_PLACE if likely == span else citation_pb2.QUOTE_STATE_MOVED
        # A citation that is wrong may name a whole book, a thousand times.
        size = len(stored.encode("utf-8"))
        if size > room:
            stored, size = "", 0
        room -= size
        verifications.append(
            citation_pb2.CitationVerification(
                verdict=citation_pb2.CITATION_VERDICT_FAILED if failure else citation_pb2.CITATION_VERDICT_EXACT,
                failure=failure,
                stored_text=stored,
                generation_live=is_live,
                current_generation=document.live_generation,
                current_span=to_span(current) if current else None,
                message=MESSAGES[failure],
                quote_state=state,
                live_span=to_span(likely) if likely else None,
            )
        )
    return verifications, room


# Each is a whole answer.
_READ_AT_A_TIME = 100
# Answers that one page looks at, so that a call for the few stale ones among many ends in time.
_MOST_READ = 1000


@dataclass(frozen=True, slots=True)
class ListedAnswer:
    """An answer, and whether a document it cites has been changed or deleted since."""

    kept: KeptAnswer
    is_stale: bool


async def list_answers(
    sessions: SessionStore,
    library: Library,
    tenant: str,
    wanted: AnswerFilter,
    after: tuple[str, int] | None,
    limit: int,
    *,
    only_stale: bool,
    document_id: str,
) -> tuple[list[ListedAnswer], tuple[str, int] | None]:
    """Return up to `limit` answers behind `after`, the newest first, and where the next page begins, None at the end.

    There may be fewer although more follow: a page looks at 1,000 answers. An empty `document_id` means whatever they
    cite.
    """
    listed: list[ListedAnswer] = []
    for _ in range(_MOST_READ // _READ_AT_A_TIME):
        batch = await sessions.answers(tenant, wanted, after, _READ_AT_A_TIME)
        cited = {document_id for kept in batch for document_id in kept.reply.cited}
        live = await library.live_generations(cited) if cited else {}
        for kept in batch:
            after = kept.position
            entry = ListedAnswer(kept, _is_stale(kept, live))
            is_of_document = not document_id or any(each.document_id == document_id for each in kept.reply.citations)
            if not is_of_document or (only_stale and not entry.is_stale):
                continue
            if len(listed) == limit:
                return listed, listed[-1].kept.position
            listed.append(entry)
        if len(batch) < _READ_AT_A_TIME:
            return listed, None
    return listed, after


class AnswerNotFoundError(NotFoundError):
    """The session has no such answer."""

    resource_type = "answer"


async def get_answer(
    sessions: SessionStore, library: Library, workers: Workers, tenant: str, session_id: str, answer_id: str
) -> tuple[ListedAnswer, list[citation_pb2.CitationVerification]]:
    """Return the answer of this id or to the question of this id, and what became of its citations, in their order.

    Raises:
        SessionNotFoundError: there is no such session.
        AnswerNotFoundError: the session has no such answer.
    """
    exchange = await sessions.exchange(tenant, session_id, answer_id)
    if exchange is not None and exchange.message.role is Role.ASSISTANT:
        exchange = await sessions.exchange(tenant, session_id, exchange.message.related_message_id)
    if exchange is None or exchange.answer is None:
        raise AnswerNotFoundError(answer_id)
    session = await sessions.get(tenant, session_id)
    kept = KeptAnswer(("", 0), session_id, session.collection, exchange.message, exchange.answer)
    live = await library.live_generations(kept.reply.cited)
    citations = kept.reply.answer.citations if kept.reply.answer else ()
    claimed = []
    for citation in citations:
        # Whatever chunk it was found in: what was quoted is the text of the document.
        quoted = citation_pb2.Citation()
        quoted.CopyFrom(citation)
        quoted.chunk_id, quoted.chunk_number = "", 0
        claimed.append(quoted)
    return ListedAnswer(kept, _is_stale(kept, live)), await verify_citations(library, workers, claimed)


def _is_stale(kept: KeptAnswer, live: Mapping[str, int]) -> bool:
    """Tell whether a cited document has changed or is gone; `live` has the live generation of each that exists."""
    return kept.reply.redacted or any(live.get(each.document_id) != each.generation for each in kept.reply.citations)

"""What agents can do with a server: each tool is a few calls of the Python client."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import AsyncGroundwireClient, Citation, Document, Hit
from groundwire.client.values import held_by
from groundwire.kernel.errors import InvalidRequestError

_READ_CHARS = 20_000
_LISTED = 50
_DECIMALS = 4
_Collection = Annotated[str, Field(description="Name of a collection, as list_collections returns it.")]
_Count = Annotated[int, Field(ge=1, le=50, description="How many to return at the most.")]
_Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description='Which chunks may be used, by metadata: {"year": {"$gte": 2024}}, {"tags": "sea"}, '
        '{"$or": [{"source_path": "a.md"}, {"chapter": "Traits"}]}.'
    ),
]
_Reference = Annotated[str, Field(description="Id or source of a document.")]
_Entity = Annotated[str, Field(description="Whose memory it is, such as a user; empty for everybody's.")]


class _Result(BaseModel):
    """What a tool returns; agents are told the descriptions of its fields."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class CollectionSummary(_Result):
    """A collection."""

    name: str
    profile: str
    """What it is for: general, documents, conversations, memory, web or book."""
    document_count: int
    record_count: int
    """Memories and the like."""


class Collections(_Result):
    """All collections."""

    collections: list[CollectionSummary]


class DocumentSummary(_Result):
    """A stored document."""

    document_id: str
    source: str
    title: str
    character_count: int


class Documents(_Result):
    """Documents by their sources."""

    documents: list[DocumentSummary]
    has_more: bool
    """Whether there are more; a longer source_prefix shows others."""


class DocumentPart(DocumentSummary):
    """A stretch of the text of a document."""

    text: str
    end: int
    """Where the text ends, in characters of the document; read on from here."""


class Passage(_Result):
    """A stretch of a stored document: `text` is exactly its characters from `start` to `end`."""

    text: str
    source: str
    title: str
    section: str
    pages: list[int]
    document_id: str
    generation: int
    """Version of the document, counted from 1."""
    start: int
    end: int


class ScoredPassage(Passage):
    """A passage that a search found."""

    score: float
    """Relevance from 0 to 1."""


class SearchResults(_Result):
    """What a search found."""

    passages: list[ScoredPassage]
    """The best first."""


class Quote(Passage):
    """What an answer or a checked text rests on."""

    marker: int
    """The number in brackets behind what the quote supports."""


class CitedAnswer(_Result):
    """An answer whose sentences are cited."""

    answer: str
    refusal: str
    """Why there is no answer, such as no_results; empty where there is one."""
    confidence: float
    """How likely the sources support the answer, from 0 to 1."""
    citations: list[Quote]
    opposing: list[Quote]
    """What contradicts the answer elsewhere in the documents; say so where there is any."""


class CheckedClaim(_Result):
    """A claim of a text, and what the documents say of it."""

    claim: str
    verdict: str
    """supported, disputed, contradicted, unsupported, or not_needed where a claim needs no source."""
    markers: list[int]
    """Of the citations that support it, or say otherwise."""


class CheckedText(_Result):
    """A text compared with the documents."""

    verdict: str
    claims: list[CheckedClaim]
    citations: list[Quote]


class WriteResult(_Result):
    """What a write did."""

    id: str
    """Of the document or memory."""
    outcome: str


class Tools:
    """Bound methods of this are the tools; their docstrings tell agents what they do."""

    def __init__(self, client: AsyncGroundwireClient) -> None:
        self._client = client

    async def list_collections(self) -> Collections:
        """List the collections of documents and memories."""
        collections = [
            CollectionSummary(
                name=each.name,
                profile=each.profile,
                document_count=each.document_count - each.record_count,
                record_count=each.record_count,
            )
            async for each in self._client.collections()
        ]
        return Collections(collections=collections)

    async def list_documents(
        self,
        collection: _Collection,
        source_prefix: Annotated[str, Field(description="First characters of their sources.")] = "",
    ) -> Documents:
        """List the documents of a collection by their sources, at most 50."""
        listed: list[DocumentSummary] = []
        async with aclosing(self._client.collection(collection).documents(source_prefix=source_prefix)) as documents:
            async for each in documents:
                if len(listed) == _LISTED:
                    return Documents(documents=listed, has_more=True)
                listed.append(DocumentSummary(**_summary(each)))
        return Documents(documents=listed, has_more=False)

    async def read_document(
        self,
        collection: _Collection,
        document: _Reference,
        start: Annotated[int, Field(ge=0, description="First character to read.")] = 0,
    ) -> DocumentPart:
        """Read the text of a document, at most 20,000 characters from a start."""
        found = await self._client.collection(collection).document(document)
        if start > found.char_count:
            raise InvalidRequestError.of(
                "start", f"is behind the end of the text, which has {found.char_count} characters"
            )
        end = min(start + _READ_CHARS, found.char_count)
        stretch = self._client.document_text(
            collection=collection,
            reference=DocumentReference(document_id=found.document_id),
            generation=found.generation,
            start=start,
            end=end,
        )
        async with aclosing(stretch) as parts:
            text = "".join([part.text async for part in parts])
        return DocumentPart(**_summary(found), text=text, end=end)

    async def search(
        self,
        collection: _Collection,
        query: str,
        count: _Count = 5,
        filter: _Filter = None,  # noqa: A002 - what everybody calls it
    ) -> SearchResults:
        """Find the passages of a collection that match a query best, by meaning and by words."""
        return _search_results(await self._client.collection(collection).search(query, k=count, filter=filter))

    async def ask(
        self,
        collection: _Collection,
        question: str,
        filter: _Filter = None,  # noqa: A002 - what everybody calls it
    ) -> CitedAnswer:
        """Answer a question from the documents of a collection, and cite each sentence with its exact quote.

        The question has to be understood without what was said before. Where the documents do not hold the answer,
        `refusal` says why.
        """
        answer = await self._client.collection(collection).ask(question, filter=filter)
        return CitedAnswer(
            answer=answer.text,
            refusal=answer.refusal,
            confidence=round(answer.confidence, _DECIMALS),
            citations=_quotes(answer.citations),
            opposing=_quotes(each.citation for each in answer.opposing),
        )

    async def check_text(self, collection: _Collection, text: str) -> CheckedText:
        """Check a text, whoever wrote it, claim by claim against the documents of a collection."""
        checked = await self._client.ground_text(collection=collection, text=text)
        claims = [
            CheckedClaim(
                claim=claim.text,
                verdict=held_by(claim, "verdict"),
                markers=[*(each.marker for each in claim.sources), *(each.marker for each in claim.opposing)],
            )
            for claim in checked.claims
        ]
        citations = _quotes(map(Citation.of, checked.citations))
        return CheckedText(verdict=held_by(checked, "verdict"), claims=claims, citations=citations)

    async def recall(
        self, collection: _Collection, query: str, entity: _Entity = "", count: _Count = 5
    ) -> SearchResults:
        """Find the memories that match a query best, those of an entity together with everybody's."""
        memories = self._client.collection(collection)
        return _search_results(
            await memories.recall(query, k=count, entity=entity or None, include_global=bool(entity))
        )

    async def ingest_text(
        self,
        collection: _Collection,
        source: Annotated[str, Field(description="What the text is called and cited by, such as notes/tides.md.")],
        text: Annotated[str, Field(description="The whole text, plain or Markdown.")],
        title: str = "",
    ) -> WriteResult:
        """Store a text as a document; one of the same source is replaced."""
        result = await self._client.collection(collection).ingest_text(text, source=source, title=title)
        return WriteResult(id=result.document.document_id, outcome=result.outcome)

    async def delete_document(self, collection: _Collection, document: _Reference) -> WriteResult:
        """Delete a document; `groundwire docs restore` brings it back for some time."""
        document_id = (await self._client.collection(collection).document(document)).document_id
        await self._client.delete_document(collection=collection, reference=DocumentReference(document_id=document_id))
        return WriteResult(id=document_id, outcome="deleted")

    async def remember(
        self,
        collection: _Collection,
        text: Annotated[str, Field(description="What to remember, as a sentence that can stand alone.")],
        entity: _Entity = "",
        importance: Annotated[int, Field(ge=1, le=5, description="5 for what matters most.")] = 3,
    ) -> WriteResult:
        """Remember a fact, preference or decision beyond this conversation."""
        memories = self._client.collection(collection)
        result = await memories.remember(text, entity=entity, importance=importance)
        return WriteResult(id=result.record_id, outcome=result.outcome)

    async def read_resource(self, collection: str, document_id: str) -> str:
        """Return the whole text of a document."""
        return await self._client.collection(collection).text(document_id)


def _summary(document: Document) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "source": document.source,
        "title": document.title,
        "character_count": document.char_count,
    }


def _place(cited: Hit | Citation) -> dict[str, Any]:
    return {
        "source": cited.source,
        "title": cited.title,
        "pages": cited.pages,
        "document_id": cited.document_id,
        "generation": cited.generation,
        "start": cited.span.start,
        "end": cited.span.end,
    }


def _search_results(hits: Iterable[Hit]) -> SearchResults:
    passages = [
        ScoredPassage(**_place(hit), text=hit.text, section=" › ".join(hit.path), score=round(hit.score, _DECIMALS))
        for hit in hits
    ]
    return SearchResults(passages=passages)


def _quotes(citations: Iterable[Citation]) -> list[Quote]:
    return [Quote(**_place(each), text=each.quote, section=each.heading, marker=each.marker) for each in citations]

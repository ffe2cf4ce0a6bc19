"""Compare a text, whoever wrote it, with a collection: cut, search for each claim, bind, check every source, number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from groundwire.answer.answers import Citations
from groundwire.answer.evidence import Passage, Source, agrees
from groundwire.answer.grounding.claims import ClaimKind, WrittenClaim
from groundwire.answer.grounding.grounder import BoundSource, GroundedClaim, Grounder, Verdict
from groundwire.answer.ports import Library, Retriever, Search
from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1.degraded_stage_pb2 import DegradedStage
from groundwire.kernel.errors import InvalidRequestError

MAX_CLAIMS = 200
"""Most claims of a text that need a source."""


class TextVerdict(StrEnum):
    """What the sources say to a text as a whole."""

    GROUNDED = "GROUNDED"
    PARTLY_GROUNDED = "PARTLY_GROUNDED"
    UNGROUNDED = "UNGROUNDED"
    NOTHING_CLAIMED = "NOTHING_CLAIMED"


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text to compare; `options` is the caller's message for the retriever, passed on unread.

    With `chunk_ids` these chunks are what the text is compared with, and nothing is searched for.
    """

    text: str
    collection: str
    options: Any = None
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CitedClaim:
    """A grounded claim with the markers of its sources and of its opposing sources, in their order.

    `closest` is the marker of where a claim that is not supported would have to stand, 0 for none.
    """

    grounded: GroundedClaim
    markers: tuple[int, ...] = ()
    opposing: tuple[int, ...] = ()
    closest: int = 0


@dataclass(frozen=True, slots=True)
class GroundedText:
    """A text with its claims in order and the citations that they name, markers from 1 without gaps."""

    claims: tuple[CitedClaim, ...]
    citations: tuple[citation_pb2.Citation, ...]
    degraded_stages: tuple["DegradedStage.ValueType", ...] = ()

    @property
    def needed(self) -> int:
        """Return how many claims need a source."""
        return sum(each.grounded.verdict is not Verdict.NOT_NEEDED for each in self.claims)

    @property
    def supported(self) -> int:
        """Return how many claims have one."""
        return sum(bool(each.markers) for each in self.claims)

    @property
    def verdict(self) -> TextVerdict:
        """Return what the sources say to the whole."""
        if not self.needed:
            return TextVerdict.NOTHING_CLAIMED
        if self.supported == self.needed:
            return TextVerdict.GROUNDED
        return TextVerdict.PARTLY_GROUNDED if self.supported else TextVerdict.UNGROUNDED


class TextGrounder:
    """Compares texts with collections."""

    def __init__(self, *, retriever: Retriever, grounder: Grounder, library: Library) -> None:
        self._retriever = retriever
        self._grounder = grounder
        self._library = library

    async def ground(self, written: WrittenText) -> GroundedText:
        """Return the claims of a text with what supports and opposes them; every citation was compared with the store.

        Raises:
            CollectionNotFoundError: there is no such collection.
            InvalidRequestError: more than `MAX_CLAIMS` claims need a source.
            ChunkNotFoundError: one of `chunk_ids` is not a live chunk of the collection.
            GroundwireError: what the retriever and the embedder raise.
        """
        max_chars = await self._library.max_query_chars_of(written.collection)
        claims = await self._grounder.claims_of(written.text)
        needing = [claim for claim in claims if claim.kind is ClaimKind.STATEMENT]
        if len(needing) > MAX_CLAIMS:
            raise InvalidRequestError.of(
                "text", f"has {len(needing)} claims that need a source, at most {MAX_CLAIMS} are compared at a time"
            )
        passages, degraded = await self._passages(written, needing, max_chars)
        found = iter(passages)
        per_claim = [next(found) if claim.kind is ClaimKind.STATEMENT else () for claim in claims]
        grounded = [
            replace(claim, closest=None if claim.sources else claim.closest)
            for claim in await self._grounder.ground_claims(claims, per_claim)
        ]
        sources: dict[tuple[int, int, int], Source] = {}
        for claim in grounded:
            named = [*(each.source for each in claim.sources), *(each.source for each in claim.opposing)]
            if claim.closest is not None:
                named.append(claim.closest.source)
            sources |= {_key(source): source for source in named}
        stored = await self._library.stored(written.collection, list(sources.values())) if sources else []
        good = {
            key: replace(source, page_numbers=text.page_numbers)
            for (key, source), text in zip(sources.items(), stored, strict=True)
            if text is not None and agrees(source, text)
        }
        checked = [_with_good_sources(claim, good) for claim in grounded]
        citations = Citations(written.collection)
        numbered = []
        for each in checked:
            span = each.claim.span
            # How sure the claim is of a source, and not how relevant its chunk is, is what a citation of it tells.
            backing = [replace(bound.source, assessed=each.support) for bound in each.sources]
            markers = tuple(citations.mark(source, span) for source in backing)
            opposing = tuple(citations.mark(against.source, span) for against in each.opposing)
            closest = citations.mark(each.closest.source, span) if each.closest is not None else 0
            numbered.append(CitedClaim(each, markers, opposing, closest))
        return GroundedText(tuple(numbered), tuple(citations.made), degraded)

    async def _passages(
        self, written: WrittenText, claims: Sequence[WrittenClaim], max_chars: int
    ) -> tuple[list[tuple[Passage, ...]], tuple["DegradedStage.ValueType", ...]]:
        """Return what to compare each claim with, and the stages of the searches that were left out."""
        if not claims:
            return [], ()
        if written.chunk_ids:
            text = _cut(claims[0].text, max_chars)
            given = await self._retriever.retrieve(Search(written.collection, text, written.options, written.chunk_ids))
            return [given.passages] * len(claims), tuple(given.report.degraded_stages)
        searches = []
        for claim in claims:
            # A claim that points back is searched for with what it points at, if that fits.
            together = f"{claim.antecedent} {claim.text}"
            text = together if claim.antecedent and len(together) <= max_chars else _cut(claim.text, max_chars)
            searches.append(Search(written.collection, text, written.options))
        retrievals = await self._retriever.retrieve_all(searches)
        degraded = {stage: None for each in retrievals for stage in each.report.degraded_stages}
        return [each.passages for each in retrievals], tuple(degraded)


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return text[:max_chars].rsplit(" ", 1)[0] or text[:max_chars]


def _key(source: Source) -> tuple[int, int, int]:
    return (source.passage.chunk_number, source.span.start, source.span.end)


def _with_good_sources(claim: GroundedClaim, good: Mapping[tuple[int, int, int], Source]) -> GroundedClaim:
    sources = tuple(replace(each, source=good[key]) for each in claim.sources if (key := _key(each.source)) in good)
    opposing = tuple(replace(each, source=good[key]) for each in claim.opposing if (key := _key(each.source)) in good)
    closest: BoundSource | None = None
    if claim.closest is not None and (key := _key(claim.closest.source)) in good:
        closest = replace(claim.closest, source=good[key])
    checked = replace(claim, sources=sources, opposing=opposing, closest=closest)
    # What it rested on has changed since the search.
    lost = len(sources) < len(claim.sources)
    return replace(checked, verdict=Verdict.UNSUPPORTED, support=0.0, sources=()) if lost else checked

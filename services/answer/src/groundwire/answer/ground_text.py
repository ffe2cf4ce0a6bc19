"""Compare any text with a collection: split it into claims, search for each, and check and number every source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundwire.answer.answers import Citations, to_discrepancy
from groundwire.answer.evidence import Passage, Source, agrees
from groundwire.answer.grounding.claims import ClaimKind, WrittenClaim
from groundwire.answer.grounding.grounder import BoundSource, GroundedClaim, Grounder, Verdict
from groundwire.answer.ports import Library, Retriever, Search
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import grounding_pb2
from groundwire.api.common.v1.degraded_stage_pb2 import DegradedStage
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.messages import to_span

MAX_CLAIMS = 200
"""Most claims of a text that need a source."""
# A message has 4 MiB; the rest is for the claims.
_MAX_CITATIONS_BYTES = 3 << 20


@dataclass(frozen=True, slots=True)
class TextGrounder:
    """Finds the sources of a text's claims in a collection."""

    retriever: Retriever
    grounder: Grounder
    library: Library

    async def ground(self, request: pb.GroundTextRequest) -> pb.GroundTextResponse:
        """Return the claims of a text with what supports and opposes them; every citation was compared with the store.

        Raises:
            CollectionNotFoundError: there is no such collection.
            InvalidRequestError: more than `MAX_CLAIMS` claims need a source, or the citations are more than 3 MiB.
            ChunkNotFoundError: one of `chunk_ids` is not a live chunk of the collection.
            GroundwireError: what the retriever and the embedder raise.
        """
        max_chars = await self.library.max_query_chars_of(request.collection)
        claims = await self.grounder.claims_of(request.text)
        needing = [claim for claim in claims if claim.kind is ClaimKind.STATEMENT]
        if len(needing) > MAX_CLAIMS:
            raise InvalidRequestError.of(
                "text", f"has {len(needing)} claims that need a source, at most {MAX_CLAIMS} are compared at a time"
            )
        passages, degraded = await self._passages(request, needing, max_chars)
        found = iter(passages)
        per_claim = [next(found) if claim.kind is ClaimKind.STATEMENT else () for claim in claims]
        grounded = [
            # Where there are sources, the nearest miss says nothing more.
            replace(claim, closest=None if claim.sources else claim.closest)
            for claim in await self.grounder.ground_claims(claims, per_claim)
        ]
        sources: dict[tuple[int, int, int], Source] = {}
        for claim in grounded:
            named = [*(each.source for each in claim.sources), *(each.source for each in claim.opposing)]
            if claim.closest is not None:
                named.append(claim.closest.source)
            sources |= {_key(source): source for source in named}
        stored = await self.library.stored(request.collection, list(sources.values())) if sources else []
        good = {
            key: replace(source, page_numbers=text.page_numbers)
            for (key, source), text in zip(sources.items(), stored, strict=True)
            if text is not None and agrees(source, text)
        }
        checked = []
        for claim in grounded:
            own = tuple(replace(each, source=good[key]) for each in claim.sources if (key := _key(each.source)) in good)
            opposing = tuple(
                replace(each, source=good[key]) for each in claim.opposing if (key := _key(each.source)) in good
            )
            closest = None
            if claim.closest is not None and (key := _key(claim.closest.source)) in good:
                closest = replace(claim.closest, source=good[key])
            held = replace(claim, sources=own, opposing=opposing, closest=closest)
            if len(own) < len(claim.sources):  # what it rested on has changed since the search
                held = replace(held, verdict=Verdict.UNSUPPORTED, support=0.0, sources=())
            checked.append(held)
        return ground_response(request.collection, checked, degraded)

    async def _passages(
        self, request: pb.GroundTextRequest, claims: Sequence[WrittenClaim], max_chars: int
    ) -> tuple[list[tuple[Passage, ...]], tuple["DegradedStage.ValueType", ...]]:
        """Return the passages to compare each claim with, and the stages that the searches left out."""
        options, chunk_ids = request.options if request.HasField("options") else None, tuple(request.chunk_ids)
        if not claims:
            if options or chunk_ids:
                # For its errors: which options and chunks there are does not depend on what the text says.
                text = _cut(request.text.strip(), max_chars)
                await self.retriever.retrieve(Search(request.collection, text, options, chunk_ids))
            return [], ()
        if chunk_ids:
            # Whatever the search is for: all of these chunks come back.
            text = _cut(claims[0].text, max_chars)
            given = await self.retriever.retrieve(Search(request.collection, text, options, chunk_ids))
            return [given.passages] * len(claims), tuple(given.report.degraded_stages)
        searches = []
        for claim in claims:
            # A claim that points back is searched for with what it points at, if that fits.
            together = f"{claim.antecedent} {claim.text}"
            text = together if claim.antecedent and len(together) <= max_chars else _cut(claim.text, max_chars)
            searches.append(Search(request.collection, text, options))
        retrievals = await self.retriever.retrieve_all(searches)
        degraded = {stage: None for each in retrievals for stage in each.report.degraded_stages}
        return [each.passages for each in retrievals], tuple(degraded)


def _cut(text: str, max_chars: int) -> str:
    """Return the text, cut at the end of a word where it is too long; it must not begin with a space."""
    return text if len(text) <= max_chars else text[:max_chars].rsplit(" ", 1)[0]


def _key(source: Source) -> tuple[int, int, int]:
    return (source.passage.chunk_number, source.span.start, source.span.end)


def ground_response(
    collection: str, claims: Sequence[GroundedClaim], degraded: Sequence["DegradedStage.ValueType"]
) -> pb.GroundTextResponse:
    """Return the response of claims whose sources are as stored.

    Raises:
        InvalidRequestError: the citations are more than 3 MiB.
    """
    citations = Citations(collection)
    answered = []
    for claim in claims:
        span = claim.claim.span
        message = grounding_pb2.GroundedClaim(
            text_span=to_span(span),
            text=claim.claim.text,
            kind=grounding_pb2.ClaimKind.Value(f"CLAIM_KIND_{claim.claim.kind}"),
            verdict=grounding_pb2.ClaimVerdict.Value(f"CLAIM_VERDICT_{claim.verdict}"),
            support=claim.support,
        )
        for bound in claim.sources:
            # A citation shows how well the source supports the claim, not how relevant its chunk is.
            marker = citations.mark(replace(bound.source, assessed=claim.support), span)
            message.sources.append(_to_source(marker, bound))
        message.discrepancies.extend(map(to_discrepancy, claim.discrepancies))
        for against in claim.opposing:
            marker = citations.mark(against.source, span)
            message.opposing.add(marker=marker, discrepancy=to_discrepancy(against.discrepancy))
        if claim.closest is not None:
            message.closest.CopyFrom(_to_source(citations.mark(claim.closest.source, span), claim.closest))
        answered.append(message)
    needed = sum(each.verdict is not Verdict.NOT_NEEDED for each in claims)
    supported = sum(bool(each.sources) for each in claims)
    if not needed:
        verdict = grounding_pb2.GROUNDING_VERDICT_NOTHING_CLAIMED
    elif supported == needed:
        verdict = grounding_pb2.GROUNDING_VERDICT_GROUNDED
    elif supported:
        verdict = grounding_pb2.GROUNDING_VERDICT_PARTLY_GROUNDED
    else:
        verdict = grounding_pb2.GROUNDING_VERDICT_UNGROUNDED
    response = pb.GroundTextResponse(
        verdict=verdict,
        citations=citations.made,
        needed_count=needed,
        supported_count=supported,
        degraded_stages=degraded,
    )
    if response.ByteSize() > _MAX_CITATIONS_BYTES:
        raise InvalidRequestError.of("text", "has more citations than a response holds; send it in parts")
    response.claims.extend(answered)
    return response


def _to_source(marker: int, bound: BoundSource) -> grounding_pb2.ClaimSource:
    match = grounding_pb2.SourceMatch.Value(f"SOURCE_MATCH_{bound.match}")
    return grounding_pb2.ClaimSource(marker=marker, match=match, similarity=bound.similarity)

"""Answer one search: derive a filter, choose sections, search, and say what was applied and what was left out."""

import time
from dataclasses import dataclass, replace

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.filters import And, Filter
from groundwire.retrieve.domain.choosing import ChosenSection, choose_sections, within
from groundwire.retrieve.domain.received_call import ReceivedCall
from groundwire.retrieve.domain.searching import PreparedVector, SearchRequest, SearchResult, SearchState
from groundwire.retrieve.outline_ports import OutlineReader
from groundwire.retrieve.parse_question import ParseQuestion
from groundwire.retrieve.search_chunks import SearchChunks


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The results. `self_query_failed`: a filter was asked for and could not be derived, so there is none of it.

    `chosen` are the sections that a top-down search was limited to, best first.
    """

    result: SearchResult
    self_query_failed: bool = False
    chosen: tuple[ChosenSection, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrieveChunks:
    """Serves checked requests; safe to call from many threads at once."""

    search_chunks: SearchChunks
    parse_question: ParseQuestion
    outlines: OutlineReader
    embedder: Embedder

    def interpret(self, call: ReceivedCall, request: SearchRequest, budget: Budget) -> SearchRequest:
        """Return the request with the filter that its own words ask for, if it wants one.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidRequestError: the query is longer than its collection takes.
        """
        if not request.self_query:
            return request
        asked = request.asked or call.received
        parsed = self.parse_question(
            request.tenant, request.collection, request.query, asked, budget, field="query", searchable=True
        )
        extraction = parsed.extraction
        where = _both(request.where, extraction.where)
        query = request.query if request.vector is not None else extraction.semantic_query
        failed = parsed.fell_back
        return replace(request, query=query, where=where, self_query=False, self_query_failed=failed)

    def __call__(self, call: ReceivedCall, request: SearchRequest, budget: Budget) -> Retrieved:
        """Return the results of an interpreted request; times count from the receipt of the call.

        Raises:
            GroundwireError: as `SearchChunks`.
        """
        chosen: tuple[ChosenSection, ...] = ()
        if request.top_down:
            request, chosen = self._limited(request, budget)
        result = self.search_chunks(request, budget)
        first = (SearchState.RECEIVED, min(call.received, result.times.states[0][1]))
        total_s = time.perf_counter() - call.started
        times = replace(result.times, total_s=total_s, states=(first, *result.times.states[1:]))
        return Retrieved(replace(result, times=times), request.self_query_failed, chosen)

    def _limited(self, request: SearchRequest, budget: Budget) -> tuple[SearchRequest, tuple[ChosenSection, ...]]:
        """Return the request limited to the best sections; as it is when its vector does not fit, which is an error."""
        collection, outline = self.outlines.read(request.tenant, request.collection)
        if request.vector is None and collection.identity == self.embedder.identity and request.prepared is None:
            started = time.perf_counter()
            vector = self.embedder.embed_query(request.query, budget)
            request = replace(request, prepared=PreparedVector(vector, time.perf_counter() - started))
        known = request.prepared.vector if request.vector is None and request.prepared else request.vector
        if known is None or known.shape != (collection.identity.dimensions,):
            return request, ()
        chosen = tuple(choose_sections(request.query, known, outline.sections, outline.vectors))
        return replace(request, where=_both(request.where, within(chosen))), chosen


def _both(given: Filter | None, derived: Filter | None) -> Filter | None:
    if given is None or derived is None:
        return derived if given is None else given
    # Side by side, so that the given filter may be as deep as a filter may be.
    return And((*_clauses(given), *_clauses(derived)))


def _clauses(condition: Filter) -> tuple[Filter, ...]:
    return condition.clauses if isinstance(condition, And) else (condition,)

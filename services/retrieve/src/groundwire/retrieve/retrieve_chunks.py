"""Answer one search: search, then say what was applied and what was left out."""

import time
from dataclasses import dataclass, replace

from groundwire.kernel.budget import Budget
from groundwire.retrieve.domain.received_call import ReceivedCall
from groundwire.retrieve.domain.searching import SearchRequest, SearchResult, SearchState
from groundwire.retrieve.search_chunks import SearchChunks


@dataclass(frozen=True, slots=True)
class RetrieveChunks:
    """Serves checked requests; safe to call from many threads at once."""

    search_chunks: SearchChunks

    def __call__(self, call: ReceivedCall, request: SearchRequest, budget: Budget) -> SearchResult:
        """Return the results; times count from the receipt of the call.

        Raises:
            GroundwireError: as `SearchChunks`.
        """
        result = self.search_chunks(request, budget)
        first = (SearchState.RECEIVED, min(call.received, result.times.states[0][1]))
        times = replace(
            result.times,
            total_s=time.perf_counter() - call.started,
            states=(first, *result.times.states[1:]),
        )
        return replace(result, times=times)

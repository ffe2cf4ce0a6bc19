"""What an assistant should know before it answers: persona, turns, memories, summaries, FAQs and documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from groundwire.catalog.search_view import SearchView
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.filters import Comparator, Comparison, Exists, Filter
from groundwire.kernel.records import record_id_of, record_time
from groundwire.retrieve.search import Progress, Search, resolved
from groundwire.retrieve.search_types import Ranking, SearchHit, SearchRequest

SECTIONS = ("persona", "faq", "memory", "turn", "summary")
"""Types of records in the order in which sections are returned."""
_BY_TIME = frozenset({"turn", "summary"})
_DOCUMENTS = "document"
# What comes first gets tokens first: without its persona and the last turns an assistant loses the thread.
_BUDGET_ORDER = ("persona", "turn", "memory", "summary", "faq", _DOCUMENTS)


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A checked request.

    `search` has the query, the scopes and the filter, and says how to search; its `top_k` is that of documents.
    `limits` has the most records of each type that is returned. Without a `conversation_id` turns and summaries are
    searched for like the rest. `max_tokens` None is no bound.
    """

    search: SearchRequest
    limits: Mapping[str, int]
    conversation_id: str = ""
    with_documents: bool = True
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A chunk that should be known: that of a record, or of a document.

    `hit` has its scores where it was searched for, `contradicts` ids of memories of the same section.
    """

    stored: StoredChunk
    hit: SearchHit | None = None
    contradicts: tuple[str, ...] = ()

    @property
    def record_id(self) -> str:
        return record_id_of(self.stored.document.source_uri)

    @property
    def time(self) -> datetime:
        """Return when the record was made or last updated."""
        return record_time(self.stored.document.fields.record or {})


@dataclass(frozen=True, slots=True)
class ContextSection:
    """Entries in the order shown, and how many others did not fit."""

    entries: tuple[ContextEntry, ...] = ()
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    """What was found: a section for each type that was asked for, and the documents; all of one catalog position.

    `lacks_dense`: words alone found some of it, because the model or the engine does not answer. `lacks_rerank`: some
    of it is in the order before the reranker, because that does not answer.
    """

    sections: Mapping[str, ContextSection]
    documents: ContextSection
    tokens: int
    position: int
    consistency_token: str
    lacks_dense: bool
    lacks_rerank: bool


def retrieve_context(search: Search, request: ContextRequest, budget: Budget) -> Context:
    """Return what there is to know.

    Raises:
        CollectionNotFoundError: no such collection.
        InvalidFilterError: the filter does not fit the collection's fields.

        All others of `Search.search` too.
    """
    return search.read(
        request.search, budget, lambda view, is_last: _gather(search, request, view, budget, is_last=is_last)
    )


def _gather(search: Search, request: ContextRequest, view: SearchView, budget: Budget, *, is_last: bool) -> Context:
    found: dict[str, list[list[ContextEntry]]] = {}
    # What a section is searched for is nearly always among the best of all; only rare types need a search more.
    kinds = (*request.limits, *([_DOCUMENTS] if request.with_documents else []))
    # What was said before helps to find documents; of facts about somebody it finds those that were not asked for.
    alone = replace(request.search, context="")
    prepared, shared, lacks_dense, lacks_rerank = request.search.prepared, None, False, False
    if any(kind not in _BY_TIME or not request.conversation_id for kind in kinds):
        prepared, shared = search.search_for_several(view, alone, budget, is_last=is_last)
    for kind in kinds:
        budget.check()
        if kind in _BY_TIME and request.conversation_id:
            where = resolved(request.search, view)
            with view.together():
                numbers = view.newest(request.conversation_id, kind, where, request.limits[kind])
                stored = view.chunks(numbers, where)
            found[kind] = [[ContextEntry(stored[number])] for number in numbers if number in stored]
            continue
        goes_on = kind == _DOCUMENTS and bool(request.search.context)
        asked = request.search if goes_on else replace(alone, prepared=prepared)
        if kind == _DOCUMENTS:
            asked = replace(asked, added=Exists("record_type", present=False))
        else:
            is_record = Comparison("record_type", Comparator.EQ, kind)
            asked = replace(asked, added=is_record, top_k=request.limits[kind])
        if lacks_rerank:  # waiting for it again would take the time of the types that are left
            asked = replace(asked, rerank=False)
        if kind == "memory":
            asked = replace(asked, ranking=Ranking.MEMORY)
        elif kind == "persona":
            # By vectors alone: what words add depends on the other parts of the persona, and is no measure of its
            # own. So questions about identity, tone and rules bring a part, and others mostly none.
            least = max(search.settings.rag_persona_min_relevance, asked.min_relevance or 0.0)
            asked = replace(asked, mode=SearchMode.VECTOR, min_relevance=least)
        result = search.search_in(
            view,
            asked,
            budget,
            Progress(search.clock, None),
            is_last=is_last,
            record_type="" if kind == _DOCUMENTS else kind,
            shared=None if goes_on else shared,
        )
        lacks_dense = lacks_dense or result.lacks_dense
        lacks_rerank = lacks_rerank or result.lacks_rerank
        entries = [ContextEntry(hit.stored, hit) for hit in result.hits]
        if kind == "memory":
            found[kind] = _contradicting_together(entries, view, resolved(asked, view), request.limits[kind])
        else:
            newest_first = sorted(entries, key=lambda entry: entry.time, reverse=True) if kind in _BY_TIME else entries
            found[kind] = [[entry] for entry in newest_first]
    sections, tokens = _fitting(found, request.max_tokens)
    token = search.wait_for_position.tokens.issue(
        view.position, tenant=request.search.tenant, collection_uid=view.collection.uid
    )
    documents = sections.pop(_DOCUMENTS, ContextSection())
    return Context(sections, documents, tokens, view.position, token, lacks_dense, lacks_rerank)


def _contradicting_together(
    entries: Sequence[ContextEntry], view: SearchView, where: Filter | None, limit: int
) -> list[list[ContextEntry]]:
    """Return memories in their order, each with those that contradict it beside it, newest first; at most `limit`.

    `where` is the filter that the memories were found with; those that contradict them have to pass it as well.
    """
    against = view.contradictions([entry.stored.chunk_number for entry in entries])
    known = {entry.stored.chunk_number: entry for entry in entries}
    further = [number for every in against.values() for number in every if number not in known]
    passing = view.among(where, further) if further else set[int]()
    known |= {number: ContextEntry(stored) for number, stored in view.chunks(sorted(passing), where).items()}
    groups: list[list[ContextEntry]] = []
    placed: set[int] = set()
    for entry in entries:
        number = entry.stored.chunk_number
        # In the order of the search, so that the best of equally old ones is kept.
        others = [other for each, other in known.items() if each in against[number] and each not in placed]
        others.sort(key=lambda other: other.time, reverse=True)
        group = [entry, *others[: limit - 1]]
        if number in placed or len(placed) + len(group) > limit:
            continue
        placed.update(each.stored.chunk_number for each in group)
        groups.append(sorted(group, key=lambda each: each.time, reverse=True))
    by_pair = {(one, other) for one, every in against.items() for other in every}
    for group in groups:
        for place, each in enumerate(group):
            own = each.stored.chunk_number
            opposed = [other for other in placed if (own, other) in by_pair or (other, own) in by_pair]
            group[place] = replace(each, contradicts=tuple(sorted(known[other].record_id for other in opposed)))
    return groups


def _fitting(
    found: Mapping[str, Sequence[Sequence[ContextEntry]]], max_tokens: int | None
) -> tuple[dict[str, ContextSection], int]:
    """Return the sections with what fits into the budget, and the tokens that it takes.

    Entries of one group stay together. Latest turns and summaries end at the first that does not fit, so that there is
    no gap between those that are shown.
    """
    sections: dict[str, ContextSection] = {}
    tokens = 0
    for kind in (each for each in _BUDGET_ORDER if each in found):
        taken: list[ContextEntry] = []
        omitted = 0
        for group in found[kind]:
            size = sum(entry.stored.chunk.token_count for entry in group)
            has_gap = kind in _BY_TIME and omitted > 0
            if has_gap or (max_tokens is not None and tokens + size > max_tokens):
                omitted += len(group)
                continue
            tokens += size
            taken += group
        # Tokens went to the newest first; they are read in the order in which they were said.
        sections[kind] = ContextSection(tuple(reversed(taken) if kind in _BY_TIME else taken), omitted)
    return {kind: sections[kind] for kind in (*SECTIONS, _DOCUMENTS) if kind in sections}, tokens

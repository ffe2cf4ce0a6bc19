"""Messages of searches, questions, contexts and expansions that come in, and the scopes that they may search.

What breaks a rule raises InvalidRequestError, which names every violation.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.hit_pb2 import HitView
from groundwire.api.common.v1.record_pb2 import RecordType
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.filters import Scopes
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, collected, refuse, violations_of
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Membership, Or, Scalar
from groundwire.kernel.identifiers import (
    ENTITY_SCOPE,
    GLOBAL_SCOPE,
    WITHOUT_CONTROLS,
    has_controls,
    parse_collection_name,
    parse_conversation_id,
    parse_entity,
    parse_scope,
)
from groundwire.kernel.identity import Identity
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.context import SECTIONS, ContextRequest
from groundwire.retrieve.expansion import DEFAULT_LEVELS_UP, DEFAULT_MAX_CHARS, ExpandMode, Expansion
from groundwire.retrieve.search_types import Ranking, ResultOrder, SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.pagination import MAX_PAGE_SIZE
from groundwire.rpc.value_messages import members_by_number, parse_timestamp

MODES = members_by_number(search_mode_pb2.SearchMode, SearchMode)
ORDERS = members_by_number(search_mode_pb2.OrderBy, ResultOrder)
QUERY_TYPES = members_by_number(search_mode_pb2.QueryType, QueryType)
QUERY_TYPE_VALUES = {kind: value for value, kind in QUERY_TYPES.items()}
_RANKINGS = members_by_number(search_mode_pb2.Ranking, Ranking)
_IS_TOP_DOWN = {
    search_mode_pb2.RETRIEVAL_STRATEGY_UNSPECIFIED: False,
    search_mode_pb2.RETRIEVAL_STRATEGY_DIRECT: False,
    search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN: True,
}
_ENUMS: Mapping[str, Container[int]] = {
    "mode": search_mode_pb2.SearchMode.values(),
    "ranking": search_mode_pb2.Ranking.values(),
    "order_by": search_mode_pb2.OrderBy.values(),
    "view": HitView.values(),
    "strategy": _IS_TOP_DOWN,
}
_MAX_SCOPES = 100
# Clocks of callers may run ahead of this server's.
_CLOCK_SKEW = timedelta(minutes=1)
_MAX_EXPONENT = 32
"""Of two, for the largest number of a vector: squares of much larger and much smaller ones do not fit into float32."""


def parse_retrieve_request(
    message: pb.RetrieveRequest, identity: Identity, settings: RetrieveSettings, now: datetime
) -> SearchRequest:
    """Return the checked request.

    Raises:
        InvalidRequestError: with every violation found; InvalidFilterError when only the filter is wrong.
        PermissionDeniedError: the credential does not allow a scope that is named.
    """
    options, where = message.options, None
    # Separate: if nothing else is wrong, the filter's own class of error is raised.
    wrong_filter: InvalidRequestError | None = None
    try:
        where = parse_filter_message(options.filter, "options.filter") if options.HasField("filter") else None
    except InvalidRequestError as error:
        wrong_filter = error
    violations = [
        *violations_of(parse_collection_name, message.collection),
        *check_query(message.query, settings.max_query_chars),
        *(check_query(message.context, settings.max_query_chars, "context") if message.context else ()),
        *_option_violations(message, settings.max_top_k),
        *query_time_violations(message, now),
    ]
    if message.HasField("expansion"):
        violations += _expansion_violations(message.expansion, _RESULT_LIMITS, "expansion.")
        if options.HasField("snapshot"):
            violations.append(FieldViolation("expansion", "reads the present, not a snapshot"))
    vector = np.asarray(message.query_vector, dtype=np.float32) if message.query_vector else None
    # Zeros point nowhere: everything would be equally near.
    if vector is not None and not (np.isfinite(vector).all() and vector.any()):
        violations.append(FieldViolation("query_vector", "must be finite and not all zero"))
    elif vector is not None and abs(exponent := int(np.frexp(np.abs(vector).max())[1])) > _MAX_EXPONENT:
        vector = np.ldexp(vector, -exponent)  # by a power of two, which changes no digit
    if violations:
        raise InvalidRequestError([*violations, *(wrong_filter.violations if wrong_filter else ())])
    if wrong_filter:
        raise wrong_filter
    return SearchRequest(
        tenant=identity.tenant,
        scopes=searched_scopes(identity, where, options.scopes, options.entity, include_global=options.include_global),
        collection=message.collection,
        query=message.query,
        context=message.context,
        where=where,
        top_k=options.top_k if options.HasField("top_k") else None,
        min_relevance=options.min_relevance if options.HasField("min_relevance") else None,
        mode=MODES.get(options.mode),
        dense_weight=options.dense_weight if options.HasField("dense_weight") else None,
        order=ORDERS.get(options.order_by, ResultOrder.RELEVANCE),
        ranking=_RANKINGS.get(options.ranking, Ranking.RELEVANCE),
        collapse_duplicates=options.collapse_duplicates if options.HasField("collapse_duplicates") else True,
        vector=vector,
        query_types=tuple(QUERY_TYPES[kind] for kind in options.query_types),
        self_query=options.self_query,
        top_down=_IS_TOP_DOWN[options.strategy],
        asked=parse_timestamp(message.query_time, "query_time") if message.HasField("query_time") else None,
        exact=options.exact,
        snapshot=options.snapshot if options.HasField("snapshot") else None,
        diversity=options.diversity,
        max_per_document=options.max_per_document if options.HasField("max_per_document") else None,
        rerank=options.rerank if options.HasField("rerank") else None,
        explain=options.explain,
        consistency_token=options.consistency_token,
    )


def check_query(query: str, max_chars: int, field: str = "query") -> list[FieldViolation]:
    """Return the violations of a query or question; lengths count code points."""
    if len(query) > max_chars:
        return [FieldViolation(field, f"must be at most {max_chars} characters, has {len(query)}")]
    if not query.strip():
        return [FieldViolation(field, "must not be blank")]
    return [FieldViolation(field, WITHOUT_CONTROLS)] if has_controls(query) else []


_COUNTS: Final = ("top_k", "max_per_document")
_SHARES: Final = ("min_relevance", "dense_weight", "diversity")


def _option_violations(message: pb.RetrieveRequest, max_top_k: int) -> Iterator[FieldViolation]:
    options = message.options
    for named in (*_COUNTS, *_SHARES):
        least, most = (1, max_top_k) if named in _COUNTS else (0.0, 1.0)
        if options.HasField(named) and not least <= getattr(options, named) <= most:
            yield FieldViolation(f"options.{named}", f"must be {least} to {most}")
    # Positions are integers of SQL, which are signed.
    if options.HasField("snapshot") and options.snapshot >= 1 << 63:
        yield FieldViolation("options.snapshot", "must be below 2^63")
    for name, known in _ENUMS.items():
        if (value := getattr(options, name)) not in known:
            yield FieldViolation(f"options.{name}", f"unknown value {value}")
    for position, kind in enumerate(options.query_types):
        if kind not in QUERY_TYPES:
            yield FieldViolation(f"options.query_types[{position}]", f"unknown value {kind}")
    if options.strategy == search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN and options.HasField("snapshot"):
        yield FieldViolation("options.strategy", "TOP_DOWN reads the present, not a snapshot")
    if len(options.scopes) > _MAX_SCOPES:
        yield FieldViolation("options.scopes", f"must be at most {_MAX_SCOPES} scopes")
    for position, scope in enumerate(options.scopes[:_MAX_SCOPES]):
        yield from violations_of(parse_scope, scope, f"options.scopes[{position}]")
    if options.entity:
        yield from violations_of(parse_entity, options.entity, "options.entity")


def query_time_violations(message: pb.RetrieveRequest, now: datetime) -> list[FieldViolation]:
    if not message.HasField("query_time"):
        return []
    violations = violations_of(parse_timestamp, message.query_time, "query_time")
    if not violations and parse_timestamp(message.query_time, "query_time") > now + _CLOCK_SKEW:
        violations.append(FieldViolation("query_time", "must not be in the future"))
    return violations


def parse_question_time(request: pb.ParseQueryRequest, max_chars: int, now: datetime) -> datetime:
    """Check a question, and return when it was asked."""
    violations = violations_of(parse_collection_name, request.collection)
    violations += check_query(request.question, max_chars, "question")
    refuse(violations)
    return parse_timestamp(request.question_time, "question_time") if request.HasField("question_time") else now


def check_embedded_texts(queries: Sequence[str], texts: Sequence[str]) -> None:
    """Raise unless there are 1 to 1,000 queries and texts, none of them blank."""
    if not 1 <= len(queries) + len(texts) <= MAX_PAGE_SIZE:
        raise InvalidRequestError.of("texts", f"must be 1 to {MAX_PAGE_SIZE}, together with the queries")
    refuse(
        FieldViolation(f"{field}[{number}]", "must not be blank")
        for field, given in (("queries", queries), ("texts", texts))
        for number, text in enumerate(given)
        if not text.strip()
    )


_EXPAND_MODES = members_by_number(pb.ExpandMode, ExpandMode)
_MAX_EXPANDED = 20
_EXPAND_LIMITS = {"radius": (0, 20), "levels_up": (1, 3), "max_chars": (1, 1_000_000)}
_RESULT_LIMITS = {**_EXPAND_LIMITS, "result_count": (1, _MAX_EXPANDED)}


def parse_expand_request(request: pb.ExpandRequest) -> tuple[list[str | int], Expansion]:
    """Return the chunks, by id or number, and how far to go."""
    violations = violations_of(parse_collection_name, request.collection)
    if not 1 <= len(request.chunks) <= _MAX_EXPANDED:
        violations.append(FieldViolation("chunks", f"must be 1 to {_MAX_EXPANDED} chunks"))
    violations += violations_of(parse_chunk_references, request.chunks, "chunks")
    violations += _expansion_violations(request, _EXPAND_LIMITS)
    refuse(violations)
    return parse_chunk_references(request.chunks, "chunks"), to_expansion(request)


def parse_chunk_references(references: Sequence[ChunkReference], field: str) -> list[str | int]:
    """Return the ids or numbers of chunks.

    Raises:
        InvalidRequestError: naming each that has neither.
    """
    parsed: list[str | int] = []
    violations: list[FieldViolation] = []
    for number, reference in enumerate(references):
        with collected(violations):
            parsed.append(parse_chunk_reference(reference, f"{field}[{number}]"))
    refuse(violations)
    return parsed


def parse_chunk_reference(reference: ChunkReference, field: str = "reference") -> str | int:
    """Return the id or the number of a chunk.

    Raises:
        InvalidRequestError: it has neither.
    """
    kind = reference.WhichOneof("reference")
    if kind is None:
        raise InvalidRequestError.of(field, "must have either chunk_id or chunk_number")
    return getattr(reference, kind)  # type: ignore[no-any-return]


def _expansion_violations(
    message: pb.ExpandRequest | pb.ResultExpansion, limits: Mapping[str, tuple[int, int]], prefix: str = ""
) -> Iterator[FieldViolation]:
    if message.mode not in _EXPAND_MODES:
        yield FieldViolation(f"{prefix}mode", "must be WINDOW, NEIGHBOURS, PARENT or HIERARCHY")
    for field, (low, high) in limits.items():
        if message.HasField(field) and not low <= getattr(message, field) <= high:  # type: ignore[arg-type]  # our names
            yield FieldViolation(f"{prefix}{field}", f"must be {low} to {high}")


def to_expansion(message: pb.ExpandRequest | pb.ResultExpansion) -> Expansion:
    return Expansion(
        mode=_EXPAND_MODES[message.mode],
        radius=message.radius if message.HasField("radius") else None,
        levels_up=message.levels_up if message.HasField("levels_up") else DEFAULT_LEVELS_UP,
        max_chars=message.max_chars if message.HasField("max_chars") else DEFAULT_MAX_CHARS,
    )


def searched_scopes(
    identity: Identity,
    where: Filter | None,
    scopes: Sequence[str] = (),
    entity: str = "",
    *,
    include_global: bool = False,
) -> Scopes:
    """Return the scopes to search, ascending: those that are named, else global records as far as they are allowed.

    A filter names scopes where every match must be of them. An empty `entity` is nobody's.

    Raises:
        PermissionDeniedError: the credential does not allow a scope that is named.
    """
    named = {*scopes, *([ENTITY_SCOPE + entity] if entity else []), *(_scopes_of(where) or ())}
    if include_global:
        named.add(GLOBAL_SCOPE)
    for scope in sorted(named):
        identity.require_scope(scope)
    if not named and identity.allows_scope(GLOBAL_SCOPE):
        named.add(GLOBAL_SCOPE)
    return tuple(sorted(named))


def filter_names_entity(message: pb.RetrieveRequest) -> bool:
    """Tell whether the filter of a search, valid or not, is for an entity; one that cannot be read may be."""
    if not message.options.HasField("filter"):
        return False
    try:
        named = _scopes_of(parse_filter_message(message.options.filter))
    except InvalidRequestError:
        return True
    return names_entity(named or ())


def names_entity(scopes: Iterable[str]) -> bool:
    return any(scope.startswith(ENTITY_SCOPE) for scope in scopes)


def _scopes_of(where: Filter | None) -> frozenset[str] | None:
    """Return scopes of which every match of a filter is one; None where it matches others as well."""
    match where:
        case And(clauses):
            known = [found for found in map(_scopes_of, clauses) if found is not None]
            return min(known, key=len, default=None)
        case Or(clauses):
            parts = [_scopes_of(clause) for clause in clauses]
            return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
        case Comparison("scope" | "entity" as field, Comparator.EQ, value):
            values: tuple[Scalar, ...] = (value,)
        case Membership("scope" | "entity" as field, values, negated=False):
            pass
        case _:
            return None
    prefix = ENTITY_SCOPE if field == "entity" else ""
    names = (prefix + value for value in values if isinstance(value, str))
    # Metadata of documents may have the name `scope` for something else.
    return frozenset(name for name in names if name == GLOBAL_SCOPE or name.startswith(ENTITY_SCOPE))


MOST_RECORDS: Mapping[str, int] = {"persona": 10, "faq": 10, "memory": 20, "turn": 20, "summary": 10}
"""Of each type that a section may have."""
_MAX_CONTEXT_TOKENS = 1_000_000
RECORD_TYPES = {kind: RecordType.Value(f"RECORD_TYPE_{kind.upper()}") for kind in SECTIONS}


def parse_context_request(
    message: pb.RetrieveContextRequest, identity: Identity, settings: RetrieveSettings, now: datetime
) -> ContextRequest:
    """Return the checked request.

    Raises:
        InvalidRequestError: with every violation found.
        PermissionDeniedError: the credential does not allow a scope that is named.
    """
    known = {number: kind for kind, number in RECORD_TYPES.items()}
    names = [known.get(each.record_type, "") for each in message.sections]
    violations: list[FieldViolation] = []
    for number, (name, section) in enumerate(zip(names, message.sections, strict=True)):
        place = f"sections[{number}]"
        if not name:
            violations.append(FieldViolation(f"{place}.record_type", f"must be one of {', '.join(SECTIONS)}"))
        elif name in names[:number]:
            violations.append(FieldViolation(f"{place}.record_type", f"{name} is listed already"))
        elif section.HasField("top_k") and not 1 <= section.top_k <= MOST_RECORDS[name]:
            violations.append(FieldViolation(f"{place}.top_k", f"must be 1 to {MOST_RECORDS[name]}"))
    if message.HasField("max_tokens") and not 1 <= message.max_tokens <= _MAX_CONTEXT_TOKENS:
        violations.append(FieldViolation("max_tokens", f"must be 1 to {_MAX_CONTEXT_TOKENS}"))
    if message.conversation_id:
        violations += violations_of(parse_conversation_id, message.conversation_id, "conversation_id")
    like_a_search = pb.RetrieveRequest(
        collection=message.collection, query=message.query, options=message.options, context=message.context
    )
    if message.HasField("query_time"):
        like_a_search.query_time.CopyFrom(message.query_time)
    # These options do not apply to a context.
    for ignored in ("ranking", "order_by", "self_query", "strategy", "explain"):
        like_a_search.options.ClearField(ignored)
    try:
        search = parse_retrieve_request(like_a_search, identity, settings, now)
    except InvalidRequestError as error:
        error.violations = (*error.violations, *violations)
        raise
    refuse(violations)
    limits_asked = (each.top_k if each.HasField("top_k") else None for each in message.sections)
    asked, defaults = dict(zip(names, limits_asked, strict=True)) or dict.fromkeys(SECTIONS), settings.context_limits
    return ContextRequest(
        search=search,
        limits={kind: asked[kind] or defaults[kind] for kind in SECTIONS if kind in asked and kind in defaults},
        conversation_id=message.conversation_id,
        with_documents=not message.without_documents,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
    )

"""Requests are checked whole: every violation is named, nothing is ignored silently."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Identity
from groundwire.retrieve.search_types import ResultOrder, SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wire.requests import parse_retrieve_request
from groundwire.rpc.filter_messages import to_filter_message

_NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _parse(query: str = "q", collection: str = "docs", **options: Any) -> SearchRequest:
    return _parse_message(pb.RetrieveRequest(collection=collection, query=query, options=RetrievalOptions(**options)))


def _parse_message(message: pb.RetrieveRequest) -> SearchRequest:
    return parse_retrieve_request(message, Identity(), RetrieveSettings(max_query_chars=500, max_top_k=20), _NOW)


def _violated(call: Callable[[], object]) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        call()
    return [violation.field for violation in caught.value.violations]


@pytest.mark.requirement("S3-01")
@pytest.mark.requirement("S3-14")
@pytest.mark.requirement("S3-32")
@pytest.mark.requirement("C15")
@pytest.mark.parametrize("query", ["x", "x" * 500, "🦀" * 500, " x ", "a\tb\nc\rd", "é" * 250])
def test_one_to_five_hundred_characters_are_accepted_unchanged(query: str) -> None:
    assert _parse(query).query == query


@pytest.mark.requirement("S3-01")
@pytest.mark.requirement("S3-31")
@pytest.mark.requirement("C25")
@pytest.mark.parametrize(
    "query", ["", " ", "\n\t ", "x" * 501, "🦀" * 501, " " * 500 + "x", "a\0b", "a\x1bb", "a\x7fb"]
)
def test_empty_blank_long_and_control_characters_are_refused(query: str) -> None:
    assert _violated(lambda: _parse(query)) == ["query"]


@pytest.mark.requirement("S3-15")
@pytest.mark.requirement("T19")
def test_an_unset_top_k_is_left_to_the_collection_and_an_explicit_zero_is_refused() -> None:
    assert _parse().top_k is None
    assert [_parse(top_k=k).top_k for k in (1, 20)] == [1, 20]
    for wrong in (0, 21, -1):
        assert _violated(lambda wrong=wrong: _parse(top_k=wrong)) == ["options.top_k"]  # type: ignore[misc]  # bound now


@pytest.mark.requirement("S3-16")
@pytest.mark.requirement("T19")
def test_an_unset_threshold_is_left_to_the_collection_and_an_explicit_zero_is_kept() -> None:
    assert _parse().min_relevance is None
    assert [_parse(min_relevance=value).min_relevance for value in (0.0, 1.0)] == [0.0, 1.0]


@pytest.mark.requirement("S3-16")
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["min_relevance", "dense_weight", "diversity"])
def test_shares_outside_zero_to_one_are_refused(field: str, value: float) -> None:
    options: dict[str, Any] = {field: value}
    assert _violated(lambda: _parse(**options)) == [f"options.{field}"]


def test_all_violations_come_at_once() -> None:
    options = RetrievalOptions(top_k=0, min_relevance=2.0)
    options.filter.all_of.filters.add()
    message = pb.RetrieveRequest(collection="No Such", query="", options=options)
    expected = ["collection", "query", "options.top_k", "options.min_relevance", "options.filter.all_of.filters[0]"]
    assert _violated(lambda: _parse_message(message)) == expected


def test_a_wrong_filter_alone_keeps_its_own_reason() -> None:
    options = RetrievalOptions()
    options.filter.SetInParent()
    with pytest.raises(InvalidFilterError):
        _parse_message(pb.RetrieveRequest(collection="docs", query="q", options=options))


def test_modes_orders_weights_and_filters_arrive() -> None:
    where = parse_filter({"level": {"$gte": 2}})
    parsed = _parse(
        mode=search_mode_pb2.SEARCH_MODE_LEXICAL,
        order_by=search_mode_pb2.ORDER_BY_TIMESTAMP_ASC,
        dense_weight=0.5,
        collapse_duplicates=False,
        filter=to_filter_message(where),
        strategy=search_mode_pb2.RETRIEVAL_STRATEGY_DIRECT,
        exact=True,
        snapshot=7,
        diversity=0.25,
        rerank=True,
        explain=True,
    )
    assert parsed == SearchRequest(
        tenant="default",
        collection="docs",
        query="q",
        where=where,
        mode=SearchMode.LEXICAL,
        order=ResultOrder.TIMESTAMP_ASC,
        dense_weight=0.5,
        collapse_duplicates=False,
        exact=True,
        snapshot=7,
        diversity=0.25,
        rerank=True,
        explain=True,
    )


def test_unknown_modes_and_orders_are_refused() -> None:
    assert _violated(lambda: _parse(mode=99, order_by=98)) == ["options.mode", "options.order_by"]


def test_every_option_of_the_contract_is_used() -> None:
    used = {"top_k", "min_relevance", "filter", "mode", "order_by", "dense_weight", "collapse_duplicates"}
    used |= {
        "query_types",
        "exact",
        "snapshot",
        "explain",
        "diversity",
        "rerank",
        "ranking",
        "scopes",
        "entity",
        "include_global",
        "max_per_document",
    }
    used |= {"self_query", "strategy", "include_flat_view", "consistency_token", "view", "include_report"}
    assert {field.name for field in RetrievalOptions.DESCRIPTOR.fields} == used


def test_a_vector_of_the_caller_must_be_usable() -> None:
    parsed = _parse_message(pb.RetrieveRequest(collection="docs", query="q", query_vector=[0.5, -1.0]))
    assert parsed.vector is not None
    assert parsed.vector.tolist() == [0.5, -1.0]
    for wrong in ([float("nan"), 1.0], [float("inf")], [0.0, 0.0]):
        message = pb.RetrieveRequest(collection="docs", query="q", query_vector=wrong)
        assert _violated(lambda message=message: _parse_message(message)) == ["query_vector"]  # type: ignore[misc]  # bound now


@pytest.mark.requirement("S3-04")
def test_a_query_may_be_older_but_not_from_the_future() -> None:
    message = pb.RetrieveRequest(collection="docs", query="q")
    for fine in (timedelta(days=-400), timedelta(seconds=59)):
        message.query_time.FromDatetime(_NOW + fine)
        assert _parse_message(message).query == "q"
    message.query_time.FromDatetime(_NOW + timedelta(hours=1))
    assert _violated(lambda: _parse_message(message)) == ["query_time"]
    message.query_time.nanos = -5
    assert _violated(lambda: _parse_message(message)) == ["query_time"]

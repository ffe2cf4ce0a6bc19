"""Searches of records, contexts and listings come in the same order from SQLite and from PostgreSQL."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.common.v1.search_mode_pb2 import RANKING_MEMORY
from groundwire.client import GroundwireClient
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.catalogs import POSTGRESQL, SQLITE, catalogs_are
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import (
    ASSISTANT,
    FAQ,
    START,
    SUMMARY,
    USER,
    Keeping,
    memory,
    memory_id,
    record,
    turn,
)

_WORDS = "harbour tide crane ferry quay 潮汐 港の灯台 とうだい".split()  # noqa: SIM905 - readable
_SCOPES = ("", "entity:ann", "entity:ben")
_CONVERSATION = "conv-harbour"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Keeping]]:
    """The same random records, of several types and scopes, on SQLite and on PostgreSQL."""
    folder = tmp_path_factory.mktemp("both")
    servers, clients, filled = [], [], []
    for kind in (SQLITE, POSTGRESQL):
        with catalogs_are(kind):
            servers.append(ServerProcess(folder / kind))
        clients.append(GroundwireClient(servers[-1].address))
        filled.append(Keeping(clients[-1]))
        fill(filled[-1], random.Random(41))
    yield filled
    for client in clients:
        client.close()
    for server in servers:
        server.stop()


def fill(keeping: Keeping, rng: random.Random) -> None:
    def said() -> str:
        return " ".join(rng.choices(_WORDS, k=rng.randint(2, 8)))

    keeping.put(
        *(
            memory(
                said(),
                seconds=rng.randrange(10**7),
                scope=rng.choice(_SCOPES),
                record_id=memory_id(number),
                importance=rng.randint(1, 5),
                tags=rng.sample(["a", "b", "c"], rng.randrange(3)),
            )
            for number in range(30)
        )
    )
    keeping.put(*(record(FAQ, f"Q: {said()}?\nA: {said()}", record_id=f"faq-{number}") for number in range(6)))
    keeping.put(
        *(
            turn(role, said(), _CONVERSATION, seconds=60 * number, turn_index=number, record_id=f"turn-{role}-{number}")
            for number in range(1, 7)
            for role in (USER, ASSISTANT)
        )
    )
    for number in range(1, 4):
        summary = record_pb2.SummaryDetails(conversation_id=_CONVERSATION, summary_index=number)
        at = START + timedelta(minutes=number)
        keeping.put(record(SUMMARY, said(), at=at, summary=summary, record_id=f"summary-{number}"))
    keeping.delete(memory_id(3), memory_id(4))


def random_options(rng: random.Random) -> RetrievalOptions:
    mode: Any = rng.randrange(4)
    options = RetrievalOptions(top_k=rng.randint(1, 15), min_relevance=0.0, mode=mode)
    if rng.random() < 0.5:
        options.ranking = RANKING_MEMORY
    if rng.random() < 0.5:
        options.entity, options.include_global = rng.choice(["ann", "ben", "carl"]), rng.random() < 0.5
    where: dict[str, Any] = rng.choice(
        [
            {"importance": {"$gte": rng.randint(1, 5)}},
            {"tags": {"$contains": rng.choice("abc")}},
            {"$or": [{"record_type": "turn"}, {"importance": {"$in": [1, 2.0, 3]}}]},
            {"$not": {"record_type": rng.choice(["memory", "turn", "faq"])}},
            {"timestamp": {"$lt": (START + timedelta(days=rng.randrange(100))).isoformat()}},
            {},
        ]
    )
    if where:
        options.filter.CopyFrom(to_filter_message(parse_filter(where)))
    return options


def test_searches_and_contexts_have_the_same_order(both: list[Keeping]) -> None:
    rng, found = random.Random(42), 0
    for _ in range(40):
        query, options = " ".join(rng.choices(_WORDS, k=rng.randint(1, 4))), random_options(rng)
        at = Timestamp()
        at.FromDatetime(START + timedelta(days=rng.randrange(100, 200)))
        searches, contexts = [], []
        for keeping in both:
            response = keeping.client.retrieve(collection=keeping.collection, query=query, options=options)
            searches.append([hit.chunk.content for hit in response.results])
            context = keeping.client.retrieve_context(
                collection=keeping.collection,
                query=query,
                options=RetrievalOptions(entity=options.entity, include_global=True, min_relevance=0.0),
                conversation_id=_CONVERSATION,
                query_time=at,
            )
            contexts.append(
                [
                    (section.record_type, entry.record.record_id, entry.record.scope, entry.hit.relevance_score)
                    for section in context.sections
                    for entry in section.entries
                ]
            )
        assert searches[0] == searches[1], (query, options)
        assert contexts[0] == contexts[1], (query, options)
        assert len(contexts[0]) > 3
        found += len(searches[0])
    assert found > 100


def test_listings_have_the_same_order(both: list[Keeping]) -> None:
    rng, listed = random.Random(43), 0
    for _ in range(20):
        options = random_options(rng)
        given: dict[str, Any] = {"filter": options.filter} if options.HasField("filter") else {}
        texts = [keeping.texts(**given) for keeping in both]
        assert texts[0] == texts[1], options
        listed += len(texts[0])
    assert listed > 100

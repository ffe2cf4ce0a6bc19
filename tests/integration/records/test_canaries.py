"""What others keep never shows: random calls with a credential of one entity, and not a word of another one's."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import chunk_pb2, document_pb2, span_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.common.v1.search_mode_pb2 import RANKING_MEMORY, SEARCH_MODE_LEXICAL, SEARCH_MODE_VECTOR
from groundwire.api.ingest.v1 import record_service_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Right
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.methods import METHODS, is_within_scopes
from tests.credentials import bearer, call, make_key, methods_of
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import ASSISTANT, FAQ, USER, Keeping, memory, memory_id, record, turn

CALLS = 600
_ALPHA, _BETA = "entity:alpha", "entity:beta"
_CANARIES = ("zyxbeta", "quillbeta")
_HIDDEN = "vexbeta"
"""Stored with the others, and never asked for: a response that has it has it from a record."""
_OWN = ("harbour", "berth", "ferry", "alpha")


class Canaries:
    """A collection with records of two entities, a client that may see one of them, and ids of the other's."""

    def __init__(self, server: ServerProcess, keys: dict[str, str]) -> None:
        self.everybody = Keeping(GroundwireClient(server.address, metadata=dict(bearer(keys["all"]))))
        self.client = GroundwireClient(server.address, metadata=dict(bearer(keys["alpha"])))
        self.metadata, self.collection = bearer(keys["alpha"]), self.everybody.collection
        self.address = server.address
        for at, (scope, words) in enumerate(((_ALPHA, _OWN), (_BETA, (*_CANARIES, _HIDDEN, "harbour", "berth")))):
            said = " ".join(words)
            for number in range(6):
                self.everybody.put(
                    memory(f"{said} {number}", record_id=memory_id(10 * at + number), scope=scope, tags=[words[0]]),
                    record(FAQ, f"Q: {said}? A: {number}", scope=scope),
                    turn(USER, f"{said}?", f"conv-{scope[7:]}", turn_index=number + 1, scope=scope),
                    turn(ASSISTANT, f"{said}!", f"conv-{scope[7:]}", turn_index=number + 1, scope=scope),
                )
        link = record_service_pb2.LINK_KIND_CONTRADICTS
        self.everybody.link(memory_id(10), link, memory_id(11))
        hidden = self.everybody.client.list_records(
            collection=self.collection, filter=to_filter_message(parse_filter({"scope": _BETA})), page_size=100
        ).records
        assert len(hidden) == 24
        self.ids = [each.record_id for each in hidden] + [each.document_id for each in hidden]
        self.documents = [each.document_id for each in hidden]
        self.records = [each.record_id for each in hidden]
        chunks = self.everybody.client.list_chunks(collection=self.collection, page_size=200).chunks
        self.numbers = [each.chunk_number for each in chunks if each.document_id in set(self.documents)]
        self.chunks = [each.chunk_id for each in chunks if each.document_id in set(self.documents)]
        assert len(self.numbers) == 24

    def close(self) -> None:
        self.client.close()
        self.everybody.client.close()


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    folder: Path = tmp_path_factory.mktemp("canaries")
    keys = {
        "all": make_key(folder / "keys.yaml", "all", Right.ADMIN),
        "alpha": make_key(folder / "keys.yaml", "alpha", Right.ADMIN, scopes=("global", _ALPHA)),
    }
    server = ServerProcess(folder / "data", GROUNDWIRE_KEYS=str(folder / "keys.yaml"))
    made = Canaries(server, keys)
    yield made
    made.close()
    server.stop()


def random_call(canaries: Canaries, rng: random.Random) -> tuple[Callable[[], Any], str]:
    """Return a call as alpha makes it, with words and ids of beta in it as often as not, and the ids that it names."""
    client, name = canaries.client, canaries.collection
    words = " ".join(rng.choices([*_OWN, *_CANARIES], k=rng.randint(1, 4)))
    scope: dict[str, Any] = rng.choice(
        [{}, {"entity": "alpha"}, {"entity": "beta"}, {"scopes": [_BETA]}, {"include_global": True}]
    )
    where = rng.choice(
        [None, {"scope": _BETA}, {"tags": _CANARIES[0]}, {"record_type": "memory"}, {"entity": {"$ne": "x"}}]
    )
    mode: Any = rng.choice([0, SEARCH_MODE_VECTOR, SEARCH_MODE_LEXICAL])
    ranking: Any = rng.choice([0, RANKING_MEMORY])
    options = RetrievalOptions(
        **scope,
        mode=mode,
        top_k=rng.randint(1, 50),
        ranking=ranking,
        explain=rng.random() < 0.5,
        include_report=True,
        exact=rng.random() < 0.3,
        self_query=rng.random() < 0.3,
    )
    condition = None if where is None else to_filter_message(parse_filter(where))
    if condition is not None:
        options.filter.CopyFrom(condition)
    document = document_pb2.DocumentReference(document_id=rng.choice(canaries.documents))
    source = document_pb2.DocumentReference(source_uri=f"record:{rng.choice(canaries.records)}")
    reference = rng.choice([document, source])
    chunk = rng.choice(
        [
            chunk_pb2.ChunkReference(chunk_id=rng.choice(canaries.chunks)),
            chunk_pb2.ChunkReference(chunk_number=rng.choice(canaries.numbers)),
        ]
    )
    span = library_pb.SpanReference(reference=reference, span=span_pb2.Span(start=0, end=3))
    conversation = rng.choice(["", "conv-alpha", "conv-beta"])
    record_id = rng.choice(canaries.records)
    calls: list[Callable[[], Any]] = [
        lambda: client.retrieve(collection=name, query=words, options=options),
        lambda: client.retrieve_context(collection=name, query=words, options=options, conversation_id=conversation),
        lambda: client.parse_query(collection=name, question=f"{words} tagged {_CANARIES[0]}"),
        lambda: client.expand(collection=name, chunks=[chunk], mode=retrieve_pb.EXPAND_MODE_NEIGHBOURS),
        lambda: client.get_document(collection=name, reference=reference, include_text=True),
        lambda: client.get_chunk(collection=name, reference=chunk, include_embedding=True),
        lambda: client.batch_get_chunks(collection=name, references=[chunk]),
        lambda: client.read_spans(collection=name, spans=[span]),
        lambda: client.list_documents(collection=name, page_size=rng.randint(1, 9), filter=condition),
        lambda: client.list_chunks(collection=name, page_size=rng.randint(1, 9), filter=condition),
        lambda: client.list_records(collection=name, page_size=rng.randint(1, 9), filter=condition),
        lambda: client.get_record(collection=name, record_id=record_id),
        lambda: client.ask(collection=name, question=words, options=options, include_hits=True),
    ]
    return rng.choice(calls), f"{reference} {chunk} {record_id}"


def told(call: Callable[[], Any]) -> tuple[str, bool]:
    """Return all that a call tells, and whether it worked."""
    try:
        return str(call()), True
    except GroundwireError as error:
        return "", False if error.reason in {
            "PERMISSION_DENIED",
            "INVALID_FILTER",
        } or "NOT_FOUND" in error.reason else pytest.fail(str(error))


@pytest.mark.requirement("S0-11")
@pytest.mark.requirement("C09")
def test_no_word_and_no_id_of_another_entity_is_ever_told(canaries: Canaries) -> None:
    rng, worked = random.Random(1), 0
    for _ in range(CALLS):
        call, named = random_call(canaries, rng)
        text, is_answered = told(call)
        worked += is_answered
        leaks = [each for each in (_HIDDEN, *canaries.ids) if each in text and each not in named]
        assert not leaks, (leaks, text)
    assert worked > CALLS / 4  # or else nothing could have shown
    # The same words are there for who may see them.
    assert _CANARIES[0] in " ".join(canaries.everybody.found(_CANARIES[0], {"scope": _BETA}))


def test_a_credential_with_scopes_makes_no_call_that_tells_of_all(canaries: Canaries) -> None:
    import grpc  # noqa: PLC0415 - this test alone

    with grpc.insecure_channel(canaries.address) as channel:
        paths = methods_of(channel, canaries.metadata)
        others = [path for path in paths if not is_within_scopes(path)]
        assert {path.rpartition("/")[2] for path in others} >= {
            "ListStats",
            "ListQueryLogs",
            "DeleteCollection",
            "GetCollection",
        }
        codes = {path: call(channel, path, b"", canaries.metadata, most=1)[0].name for path in others}
    assert set(codes.values()) == {"PERMISSION_DENIED"}, codes
    assert {path.rpartition("/")[2] for path in paths} <= {*METHODS}

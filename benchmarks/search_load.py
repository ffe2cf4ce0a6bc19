"""Clients of a server, in a process of their own: closed loops over connections of their own.

The functions run in that process; `benchmarks.search` hands them over.
"""

import asyncio
import time
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.search_raw import Query, Run
from benchmarks.synthetic import Corpus
from groundwire.api.common.v1 import document_pb2, hit_pb2, metadata_value_pb2, retrieval_options_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2, ingest_service_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message

COLLECTION = "bench"
RETRIEVE = "/groundwire.api.retrieve.v1.RetrieveService/Retrieve"
_WRITERS = 4
_MOST_TOKENS = 512
"""Of a passage; more than the default of a collection."""


def requests_of(queries: Sequence[Query], limit: int, *, by_vector: bool) -> list[bytes]:
    """Return the requests: by their vectors alone, or by their words, whose vector the server makes.

    Questions that ask for reasons would raise neighbours of good chunks, so those by vector are all declared factual:
    what they return is the nearest chunks.
    """
    made = []
    for query in queries:
        options = retrieval_options_pb2.RetrievalOptions(top_k=limit)
        if by_vector:
            options.mode = search_mode_pb2.SEARCH_MODE_VECTOR
            options.query_types.append(search_mode_pb2.QUERY_TYPE_FACTUAL)
        if query.where:
            options.filter.CopyFrom(to_filter_message(parse_filter(dict(query.where))))
        request = pb.RetrieveRequest(collection=COLLECTION, query=query.text, options=options)
        if by_vector:
            request.query_vector.extend(query.vector.tolist())
        made.append(request.SerializeToString())
    return made


def retrieve_all(address: str, requests: Sequence[bytes], clients: int) -> Run:
    """Send requests by so many clients, each one after the other, and return what became of them."""
    return asyncio.run(_retrieve_all(address, requests, clients))


def one_response(address: str, request: bytes) -> bytes:
    """Send a request and return the response as it came."""
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RETRIEVE)
        response: bytes = call(request)
    return response


async def _retrieve_all(address: str, requests: Sequence[bytes], clients: int) -> Run:
    channels = [open_channel(address) for _ in range(clients)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    waiting, ms, found = iter(enumerate(requests)), [0.0] * len(requests), [list[int]() for _ in requests]

    async def ask(channel: grpc.aio.Channel) -> None:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, pb.RetrieveResponse] = channel.unary_unary(
            RETRIEVE, response_deserializer=pb.RetrieveResponse.FromString
        )
        for number, request in waiting:
            started = time.perf_counter()
            response = await call(request)
            ms[number] = (time.perf_counter() - started) * 1000
            found[number] = [_number_of(hit) for hit in response.results]

    started = time.perf_counter()
    await asyncio.gather(*map(ask, channels))
    seconds = time.perf_counter() - started
    await asyncio.gather(*(channel.close() for channel in channels))
    return Run(seconds, ms, found)


def open_channel(address: str) -> grpc.aio.Channel:
    """Open a connection that is not shared with other channels of the process."""
    return grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


async def health_ms(channel: grpc.aio.Channel) -> float:
    """Return how long a health check took."""
    started = time.perf_counter()
    stub = health_pb2_grpc.HealthStub(channel)
    await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))
    return (time.perf_counter() - started) * 1000


def fill_server(address: str, corpus: Corpus) -> float:
    """Store a corpus with its vectors through PutChunks; return the seconds it took."""
    return asyncio.run(_fill_server(address, corpus))


async def _fill_server(address: str, corpus: Corpus) -> float:
    fields = corpus.fields
    async with AsyncGroundwireClient(address) as client:
        chunking = collection_pb2.ChunkingPolicy(maximum_size=_MOST_TOKENS)
        settings = collection_pb2.CollectionSettings(chunking=chunking)
        made = await client.create_collection(collection=COLLECTION, settings=settings)
        digest, waiting = made.collection.embedding.probe_digest, iter(corpus.documents)
        started = time.perf_counter()

        async def write() -> None:
            for rows in waiting:
                await client.put_chunks(*_document(corpus, rows, fields[rows.start], digest))

        await asyncio.gather(*(write() for _ in range(_WRITERS)))
        return time.perf_counter() - started


def _document(
    corpus: Corpus, rows: range, fields: dict[str, str | int], digest: str
) -> tuple[ingest_service_pb2.PutChunksHeader, list[ingest_service_pb2.ReadyChunk]]:
    own = {
        name: metadata_value_pb2.MetadataValue(int64_value=value)
        if isinstance(value, int)
        else metadata_value_pb2.MetadataValue(string_value=value)
        for name, value in fields.items()
        if name not in {"category", "project"}
    }
    header = ingest_service_pb2.PutChunksHeader(
        collection=COLLECTION,
        source_uri=f"document-{rows.start:08}.txt",
        fields=document_pb2.DocumentFields(
            category=str(fields["category"]), project=str(fields["project"]), metadata=own
        ),
        embedding_probe_digest=digest,
    )
    return header, [
        ingest_service_pb2.ReadyChunk(
            content=corpus.texts[row], sequence_num=row - rows.start, embedding=corpus.vectors[row].tolist()
        )
        for row in rows
    ]


def _number_of(hit: hit_pb2.Hit) -> int:
    return int(hit.chunk.source_uri[9:17]) + hit.chunk.sequence_num

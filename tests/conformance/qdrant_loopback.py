"""A server that speaks Qdrant's gRPC on the loopback and answers from the client library's local mode.

It is no Qdrant: indexes, quantization and replicas are recorded, not done. But every request and every answer goes
over the wire in the messages of the real one, which is what an adapter can get wrong.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc as transport
from qdrant_client import QdrantClient, models
from qdrant_client import grpc as pb
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc


class Backend:
    """The local mode, what was asked of it, and failures to come."""

    def __init__(self) -> None:
        self.local = QdrantClient(":memory:")
        self.lock = threading.Lock()
        self.requests: list[Any] = []
        self.headers: list[dict[str, str | bytes]] = []
        self.indexes: dict[str, dict[str, Any]] = {}
        self.failures: list[transport.StatusCode] = []

    def answer(self, request: Any, context: transport.ServicerContext, answer: Callable[[], Any]) -> Any:
        """Record a request and answer it, or fail as told."""
        with self.lock:
            self.requests.append(request)
            self.headers.append(dict(context.invocation_metadata()))
            if self.failures:
                context.abort(self.failures.pop(0), "told to fail\nwith more lines")
            try:
                return answer()
            except ValueError as error:
                code = transport.StatusCode.NOT_FOUND if "not found" in str(error) else transport.StatusCode.INTERNAL
                context.abort(code, str(error))

    def asked(self, kind: type[Any]) -> list[Any]:
        """Return the requests of a kind, in order."""
        return [request for request in self.requests if isinstance(request, kind)]


class Collections(pb.CollectionsServicer):
    """The calls about collections that the adapter makes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            names = [each.name for each in self._backend.local.get_collections().collections]
            return pb.ListCollectionsResponse(collections=[pb.CollectionDescription(name=name) for name in names])

        return self._backend.answer(request, context, answer)

    def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            info = self._backend.local.get_collection(request.collection_name)
            result: Any = RestToGrpc.convert_collection_info(info)
            for field, kind in self._backend.indexes.get(request.collection_name, {}).items():
                result.payload_schema[field].data_type = kind
            return pb.GetCollectionInfoResponse(result=result)

        return self._backend.answer(request, context, answer)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            vectors = GrpcToRest.convert_vectors_config(request.vectors_config)
            self._backend.local.create_collection(request.collection_name, vectors_config=vectors)
            return pb.CollectionOperationResponse(result=True)

        return self._backend.answer(request, context, answer)

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            self._backend.indexes.pop(request.collection_name, None)
            return pb.CollectionOperationResponse(result=self._backend.local.delete_collection(request.collection_name))

        return self._backend.answer(request, context, answer)


class Points(pb.PointsServicer):
    """The calls about points that the adapter makes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        types = {pb.FieldType.FieldTypeKeyword: pb.PayloadSchemaType.Keyword}

        def answer() -> Any:
            kind = types.get(request.field_type, pb.PayloadSchemaType.Integer)
            self._backend.indexes.setdefault(request.collection_name, {})[request.field_name] = kind
            return _done()

        return self._backend.answer(request, context, answer)

    def Upsert(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            points = [GrpcToRest.convert_point_struct(point) for point in request.points]
            self._backend.local.upsert(request.collection_name, points)
            return _done()

        return self._backend.answer(request, context, answer)

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            self._backend.local.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
            return _done()

        return self._backend.answer(request, context, answer)

    def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            ids = [GrpcToRest.convert_point_id(each) for each in request.ids]
            found = self._backend.local.retrieve(request.collection_name, ids, with_payload=True, with_vectors=True)
            return pb.GetResponse(result=[RestToGrpc.convert_record(record) for record in found])

        return self._backend.answer(request, context, answer)

    def Scroll(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            offset = GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None
            records, following = self._backend.local.scroll(
                request.collection_name, limit=request.limit, offset=offset, with_payload=False
            )
            result = [pb.RetrievedPoint(id=pb.PointId(num=int(str(record.id)))) for record in records]
            next_offset = None if following is None else pb.PointId(num=int(str(following)))
            return pb.ScrollResponse(result=result, next_page_offset=next_offset)

        return self._backend.answer(request, context, answer)

    def Count(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            count = self._backend.local.count(request.collection_name, exact=request.exact).count
            return pb.CountResponse(result=pb.CountResult(count=count))

        return self._backend.answer(request, context, answer)

    def Query(self, request: Any, context: Any) -> Any:  # noqa: N802 - named by the protocol
        def answer() -> Any:
            condition = GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None
            found = self._backend.local.query_points(
                request.collection_name,
                query=list(request.query.nearest.dense.data),
                query_filter=condition,
                search_params=models.SearchParams(exact=request.params.exact),
                limit=request.limit,
                with_payload=False,
            )
            return pb.QueryResponse(result=[_scored(point) for point in found.points])

        return self._backend.answer(request, context, answer)


def _done() -> Any:
    return pb.PointsOperationResponse(result=pb.UpdateResult(status=pb.UpdateStatus.Completed))


def _scored(point: Any) -> Any:
    return pb.ScoredPoint(id=pb.PointId(num=point.id), score=point.score, version=0)


@contextmanager
def qdrant_loopback() -> Iterator[tuple[str, Backend]]:
    """Run the server for a while; yield its URL and what it stands on."""
    backend = Backend()
    server = transport.server(ThreadPoolExecutor(8))
    pb.add_CollectionsServicer_to_server(Collections(backend), server)  # type: ignore[no-untyped-call]  # generated
    pb.add_PointsServicer_to_server(Points(backend), server)  # type: ignore[no-untyped-call]  # the same
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"qdrant://127.0.0.1:{port}", backend
    finally:
        server.stop(None).wait()
        backend.local.close()

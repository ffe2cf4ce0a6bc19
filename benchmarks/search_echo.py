"""The least that a gRPC server in Python can do: takes requests of Retrieve and gives one ready response to all."""

import asyncio
import threading

import grpc

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb

_SERVICE = "groundwire.api.retrieve.v1.RetrieveService"


def start_echo(response: bytes) -> str:
    """Serve in a thread of this process until it ends; return the address."""
    started: list[str] = []
    is_started = threading.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_handler(pb.RetrieveResponse.FromString(response)),))
        started.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        is_started.set()
        await server.wait_for_termination()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    is_started.wait()
    return started[0]


def _handler(response: pb.RetrieveResponse) -> grpc.GenericRpcHandler:
    async def echo(_request: pb.RetrieveRequest, _context: object) -> pb.RetrieveResponse:
        return response

    method = grpc.unary_unary_rpc_method_handler(
        echo,
        request_deserializer=pb.RetrieveRequest.FromString,
        response_serializer=pb.RetrieveResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(_SERVICE, {"Retrieve": method})

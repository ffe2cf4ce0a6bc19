"""A server process for the tests of draining: prints its port, and what happens, one word a line."""

import asyncio
import sys

from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.rpc.logging_setup import configure_logging
from groundwire.rpc.server import GrpcServer, ServerOptions, Service, serve
from tests.integration.rpc.fake_ingest import NAME, fake_ingest


async def main(drain_s: float) -> None:
    servicer = fake_ingest()
    service = Service(NAME, servicer, pb_grpc.add_IngestServiceServicer_to_server)
    options = ServerOptions(listen="127.0.0.1:0", drain_s=drain_s)
    asyncio.get_running_loop().call_later(1.0, servicer.release.set)
    await serve(
        GrpcServer(options, [service]),
        on_listening=lambda port: print(port, flush=True),  # noqa: T201 - the parent reads it
        closers=[lambda: print("catalog", flush=True), lambda: print("vectors", flush=True)],  # noqa: T201 - the same
    )


if __name__ == "__main__":
    configure_logging("json")
    asyncio.run(main(float(sys.argv[1])))

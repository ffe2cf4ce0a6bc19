"""A server process for the tests of draining: prints its port, and what happens, one word a line.

Its slow call ends with SIGUSR1.
"""

import asyncio
import signal
import sys

from groundwire.rpc.logs import configure_logging
from groundwire.rpc.server import GrpcServer, ServerOptions, serve
from tests.integration.rpc.fake_ingest import fake_ingest, fake_services


async def main(drain_s: float) -> None:
    servicer = fake_ingest()
    options = ServerOptions(listen="127.0.0.1:0", drain_s=drain_s)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, servicer.release.set)
    await serve(
        GrpcServer(options, fake_services(servicer)),
        on_listening=lambda port: print(port, flush=True),  # noqa: T201 - the parent reads it
    )
    print("stopped", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    configure_logging("json")
    asyncio.run(main(float(sys.argv[1])))

"""The typed Python client, synchronous and asynchronous; importing it loads gRPC."""

from groundwire.client.async_client import AsyncGroundwireClient
from groundwire.client.sync_client import GroundwireClient

__all__ = ["AsyncGroundwireClient", "GroundwireClient"]

"""What the URL of a Qdrant server may say, and how it is put to the server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from groundwire.vectorstores.servers import (
    Parse,
    StoreServer,
    name_prefix,
    one_of,
    parse_server_url,
    truth,
    whole_number,
)

_SCHEMES: Final = ("qdrant", "qdrants")
_GRPC_PORT: Final = 6334
_MIN_EF: Final = 384
"""Candidates an index search keeps. Graphs differ from build to build: with 128 the recall@10 of 60,000 to 100,000
points was 0.954 to 0.994, with 256 it was 0.986 to 0.999; a search takes 1 to 3 ms."""
_OVERSAMPLING: Final = 2.0

OPTIONS: Final[Mapping[str, Parse]] = {
    "prefix": name_prefix,
    "timeout_s": whole_number(1, 3600),
    "shard_number": whole_number(1, 1024),
    "replication_factor": whole_number(1, 64),
    "write_consistency_factor": whole_number(1, 64),
    "consistency": one_of("all", "majority", "quorum"),
    "quantization": one_of("none", "scalar", "binary", "product"),
    "on_disk": truth,
    "on_disk_payload": truth,
    "hnsw_m": whole_number(2, 128),
    "hnsw_ef_construct": whole_number(4, 4096),
    "hnsw_ef": whole_number(1, 65_536),
}
"""Options of the URL and what they may be; docs/reference/vector-stores.md describes each."""


@dataclass(frozen=True, slots=True)
class QdrantOptions(StoreServer):
    """A Qdrant server."""

    def open_client(self) -> Any:
        """Return the library's client; it connects at its first call, over gRPC, and to nothing else."""
        from qdrant_client import QdrantClient  # noqa: PLC0415 - only the engine asked for

        return QdrantClient(
            host=self.url.host,
            grpc_port=self.url.port,
            prefer_grpc=True,
            https=self.url.is_encrypted,
            timeout=self.timeout_s,
            # As a header: given as a key, the library warns on every plain connection.
            headers={"api-key": self.api_key} if self.api_key else None,
            check_compatibility=False,
        )

    def collection_config(self, dimensions: int) -> dict[str, Any]:
        """Return the arguments of `create_collection` besides the name."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        given = self.url.options
        vectors = models.VectorParams(size=dimensions, distance=models.Distance.COSINE, on_disk=given.get("on_disk"))
        hnsw = models.HnswConfigDiff(m=given.get("hnsw_m"), ef_construct=given.get("hnsw_ef_construct"))
        passed_on = ("shard_number", "replication_factor", "write_consistency_factor", "on_disk_payload")
        return {
            "vectors_config": vectors,
            "hnsw_config": hnsw,
            "quantization_config": self._quantization(),
            **{name: given[name] for name in passed_on if name in given},
        }

    def search_params(self, limit: int, *, is_exact: bool) -> Any:
        """Return how to search: with enough candidates, or every point with its own vector."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        quantization = None
        if self.url.options.get("quantization", "none") != "none":
            quantization = models.QuantizationSearchParams(ignore=is_exact, rescore=True, oversampling=_OVERSAMPLING)
        ef = max(int(self.url.options.get("hnsw_ef", _MIN_EF)), limit)
        return models.SearchParams(hnsw_ef=ef, exact=is_exact, quantization=quantization)

    def read_consistency(self) -> Any:
        """Return how many replicas a read asks; None is one."""
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        consistency = self.url.options.get("consistency")
        return None if consistency is None else models.ReadConsistencyType(consistency)

    def _quantization(self) -> Any:
        from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

        match self.url.options.get("quantization"):
            case "scalar":
                scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
                return models.ScalarQuantization(scalar=scalar)
            case "binary":
                return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
            case "product":
                product = models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
                return models.ProductQuantization(product=product)
            case _:
                return None


def parse_options(url: str, api_key: str | None) -> QdrantOptions:
    """Return the options of `qdrant://HOST:PORT?…`; `qdrants://` is the same with TLS.

    Raises:
        InvalidRequestError: naming everything wrong with the URL.
    """
    parsed = parse_server_url(url, default_port=_GRPC_PORT, encrypted_schemes=_SCHEMES[1:], options=OPTIONS)
    return QdrantOptions(parsed, api_key)

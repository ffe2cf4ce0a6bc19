"""Any store against the specifications.

    GROUNDWIRE_TEST_VECTORS=qdrant://host:6334 pytest tests/conformance/test_given_store.py

`GROUNDWIRE_TEST_VECTORS_API_KEY` is the key of a server. On servers the names of collections begin with `gwtest-`; they
are dropped at the end.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.filters import BUILT_IN_FIELDS, Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.factory import open_vector_store
from groundwire.vectorstores.qdrant_server import QdrantAddress
from groundwire.vectorstores.stored_fields import TERMS_FIELD
from tests.conformance.engine_limits import (
    is_unsupported_by_chroma,
    is_unsupported_by_qdrant_edge,
    is_unsupported_by_qdrant_server,
    orders_under_negation,
)
from tests.conformance.server_vector_store import ServerVectorStoreContract
from tests.conformance.vector_store import DIMENSIONS, NAME, VectorStoreContract

URL = os.environ.get("GROUNDWIRE_TEST_VECTORS", "")
KEY = os.environ.get("GROUNDWIRE_TEST_VECTORS_API_KEY")
if not URL:
    pytest.skip("GROUNDWIRE_TEST_VECTORS names no store", allow_module_level=True)


@pytest.fixture(scope="module")
def url() -> str:
    """Return the URL, with a prefix of our own where servers are shared."""
    if "://" not in URL or "prefix=" in URL:
        return URL
    return f"{URL}{'&' if '?' in URL else '?'}prefix=gwtest-{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="module")
def engine(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorStore]:
    store = open_vector_store(url, data_dir=tmp_path_factory.mktemp("given"), api_key=KEY)
    yield store
    store.close()


@pytest.fixture
def open_again(url: str) -> Iterator[Callable[[], VectorStore]]:
    if "://" not in url:
        pytest.skip("an embedded engine has one owner")
    opened: list[VectorStore] = []

    def open_one() -> VectorStore:
        opened.append(open_vector_store(url, data_dir=Path(), api_key=KEY))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


class TestGivenStore(VectorStoreContract, ServerVectorStoreContract):
    def is_unsupported(self, clause: Filter) -> bool:
        scheme = URL.partition(":")[0]
        match scheme.partition("+")[0]:
            case "chroma":
                return is_unsupported_by_chroma(clause)
            case "qdrant-edge":
                return is_unsupported_by_qdrant_edge(clause)
            case "qdrant" | "qdrants":
                return is_unsupported_by_qdrant_server(clause)
            case _:
                return False

    def is_unsupported_filter(self, condition: Filter) -> bool:
        is_chroma = URL.startswith("chroma")
        return super().is_unsupported_filter(condition) or (is_chroma and orders_under_negation(condition))


@pytest.mark.skipif(not URL.startswith("qdrant"), reason="no Qdrant server is given")
def test_the_server_has_an_index_for_every_filter_field(engine: VectorStore, url: str) -> None:
    engine.create_collection(NAME, DIMENSIONS, Budget())
    options = QdrantAddress.parse(url, KEY)
    client = options.open_client()
    info = client.get_collection(options.prefix + NAME)
    client.close()
    engine.drop_collection(NAME, Budget())
    assert set(info.payload_schema) == {*BUILT_IN_FIELDS, TERMS_FIELD}
    assert info.config.params.vectors.distance.value == "Cosine"

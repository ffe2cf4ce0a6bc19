"""Clients read the certificates of the system, which takes a while, where a connection is encrypted, and only there."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from groundwire.answer.generators.chat_endpoint import ChatEndpoint
from groundwire.embedders.openai_compatible import EndpointModel, OpenAiCompatibleEmbedder
from groundwire.kernel.errors import UnavailableError
from groundwire.retrieve.self_query.extractors import EndpointExtractor
from groundwire.vectorstores.factory import open_vector_store

NOBODY = "127.0.0.1:9"


def _open_chat(scheme: str) -> None:
    limits = {"context_tokens": 4096, "reply_tokens": 512}
    ChatEndpoint(f"{scheme}://{NOBODY}/v1", "tiny", "", name="tiny", connect_s=1, idle_s=1, **limits)


def _open_extractor(scheme: str) -> None:
    EndpointExtractor(f"{scheme}://{NOBODY}/v1", "tiny", None, 1)


def _open_embedder(scheme: str) -> None:
    with suppress(UnavailableError):
        OpenAiCompatibleEmbedder(EndpointModel(f"{scheme}://{NOBODY}/v1", "tiny"), patience_s=0)


def _open_chroma(scheme: str) -> None:
    pytest.importorskip("chromadb")
    with suppress(UnavailableError):
        open_vector_store(f"chroma+{scheme}://{NOBODY}", data_dir=Path())


def _open_qdrant(scheme: str) -> None:
    pytest.importorskip("qdrant_client")
    with suppress(UnavailableError):
        open_vector_store(f"{scheme.replace('http', 'qdrant')}://{NOBODY}", data_dir=Path())


@pytest.mark.parametrize("connect", [_open_chat, _open_extractor, _open_embedder, _open_chroma, _open_qdrant])
def test_a_plain_connection_reads_no_certificates_and_an_encrypted_one_does(
    connect: Callable[[str], None], certificates_read: list[str]
) -> None:
    connect("http")
    assert certificates_read == []
    connect("https")
    assert certificates_read

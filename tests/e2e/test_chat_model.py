"""A whole server with a chat model behind it, from the command line, from Python and over a channel."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import InvalidRequestError
from tests.e2e.server import ServerProcess, groundwire
from tests.scripted_model import Body, ScriptedModel, scripted_model
from tests.stubs import Stubs

pytestmark = pytest.mark.asyncio(loop_scope="module")

_TRUE = "Spring tides come twice a month."
_FALSE = "Spring tides were invented by Napoleon in 1805."
_TEXT = f"# Tides\n\nThe moon pulls at the sea. {_TRUE} Neap tides are smaller than spring tides."
_QUESTION = "How often do spring tides come?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "tides.md").write_text(_TEXT, encoding="utf-8")
    generator = f"openai+{model.url}#tiny"
    arguments = ("--embedder", "hashing:256", "--vectors", "memory:", "--generator", generator)
    settings = {"GROUNDWIRE_ANSWER_GENERATOR_API_KEY": "s3cret", "GROUNDWIRE_ANSWER_MIN_SUPPORT": "0.05"}
    settings["RAG_SUMMARY_EVERY_N_TURNS"] = "2"
    server = await asyncio.to_thread(ServerProcess, folder / "data", arguments, **settings)
    ingested = await asyncio.to_thread(
        groundwire, "ingest", str(folder / "tides.md"), "-c", "sea", address=server.address
    )
    assert ingested.returncode == 0, ingested.stderr
    yield server.address
    assert await asyncio.to_thread(server.stop) == 0
    assert "s3cret" not in (folder / "data.log").read_text(encoding="utf-8")


async def _run(address: str, *arguments: str) -> tuple[str, str]:
    """Return what a command prints, and what it says on the error stream."""
    done = await asyncio.to_thread(groundwire, *arguments, address=address)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


async def test_the_command_line_shows_what_was_left_out_or_is_not_supported(address: str, model: ScriptedModel) -> None:
    model.says(f"{_TRUE} [1] {_FALSE} [1]")
    strict, said = await _run(address, "ask", _QUESTION, "-c", "sea")
    assert strict.splitlines()[0] == f"{_TRUE} [1]"
    assert said == "left out, as no source supports them: 1 of tiny\n"
    annotated, said = await _run(address, "ask", _QUESTION, "-c", "sea", "--grounding", "annotate")
    assert annotated.splitlines()[0] == f"{_TRUE} [1] {_FALSE}"
    assert said == f"no source supports: {_FALSE}\n"
    printed, said = await _run(address, "ask", _QUESTION, "-c", "sea", "--stream", "--json", "--grounding", "annotate")
    shown = json.loads(printed)
    assert (shown["generator"], shown["unsupported"], shown["grounded"], said) == ("tiny", [_FALSE], False, "")
    assert shown["generation"] == {"model": "tiny", "failure": None, "dropped_sentences": 0}
    assert model.headers["authorization"] == "Bearer s3cret"


async def test_the_command_line_says_that_a_model_failed(address: str, model: ScriptedModel) -> None:
    model.statuses = [401]
    answer, said = await _run(address, "ask", _QUESTION, "-c", "sea")
    assert answer.startswith(_TRUE)
    assert said == "tiny failed (rejected): the answer is quoted\n"


@pytest.mark.requirement("S4-43")
async def test_the_client_names_the_generator_and_what_is_not_supported(address: str, model: ScriptedModel) -> None:
    model.says(f"{_FALSE} {_TRUE}")
    async with AsyncGroundwireClient(address) as client:
        assert (await client.server_info()).generators == ["tiny", "extractive"]
        sea = client.collection("sea")
        strict = await sea.ask(_QUESTION)
        assert (strict.text, strict.unsupported, strict.generator) == (f"{_TRUE} [1]", (), "tiny")
        annotated = [event async for event in sea.ask_stream(_QUESTION, grounding="annotate")][-1]
        assert getattr(annotated, "unsupported", None) == (_FALSE,)
        with pytest.raises(InvalidRequestError, match="grounding: must be one of strict, annotate"):
            await sea.ask(_QUESTION, grounding="loose")


async def test_a_policy_that_does_not_exist_is_refused(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        request = pb.AskRequest(collection="sea", question=_QUESTION)
        request.grounding = 7  # type: ignore[assignment] # what a caller of another version may send
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Stubs(channel).Ask(request)
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "grounding: 7 is not a grounding policy",
    )


async def test_cancelling_a_stream_ends_the_request_to_the_model_at_once(address: str, model: ScriptedModel) -> None:
    model.says(f"{_TRUE} [1] And the")
    model.ending = "hang"
    model.left.clear()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = Stubs(channel)
        session_id = (await stub.CreateSession(pb.CreateSessionRequest(collection="sea"))).session.session_id
        ask = pb.AskRequest(question=_QUESTION, session_id=session_id, message_id=str(uuid.uuid4()))
        call = stub.AskStream(pb.AskStreamRequest(ask=ask), timeout=60)
        async for message in call:
            if message.event.HasField("citation"):
                break
        assert not model.left.is_set()
        call.cancel()
        await asyncio.wait_for(model.left.wait(), 10)  # left alone, the server would wait for 30 s
    async with asyncio.timeout(10):
        while "assistant" not in (shown := (await _run(address, "sessions", "messages", session_id))[0]):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    user, asked, assistant, answered = shown.splitlines()
    assert (user.endswith("Z"), asked) == (True, _QUESTION)
    assert (assistant.endswith("Z · abandoned"), answered) == (True, f"{_TRUE} [1]")
    model.ending = "stop"


async def test_config_show_blanks_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "GROUNDWIRE_ANSWER_GENERATOR_API_KEY").write_text("s3cret", encoding="utf-8")
    monkeypatch.setenv("GROUNDWIRE_SECRETS", str(tmp_path))
    shown = await asyncio.to_thread(groundwire, "config", "show")
    assert "GROUNDWIRE_ANSWER_GENERATOR_API_KEY=***" in shown.stdout
    assert "s3cret" not in shown.stdout


async def test_a_summary_is_written_by_the_model_or_quoted_and_says_which(address: str, model: ScriptedModel) -> None:
    said = ("I live in Bonn.", _QUESTION, "My boat needs two metres of water.", _QUESTION)
    summaries = iter(["I live in Bonn.", "My boat needs three metres of water."])

    def write(body: Body) -> str:
        is_summary = "You write down" in body["messages"][0]["content"]
        return next(summaries) if is_summary else f"{_TRUE} [1]"

    model.write = write
    async with AsyncGroundwireClient(address) as client:
        session = (await client.create_session(collection="sea", user_id="ada", new_conversation=True)).session
        for text in said:
            asked = pb.AskRequest(question=text, session_id=session.session_id, message_id=str(uuid.uuid4()))
            await client.ask.send(asked)
        for _ in range(600):
            if not (await client.get_session(session_id=session.session_id)).session.unrecorded_exchange_count:
                break
            await asyncio.sleep(0.1)
        records = (await client.list_records(collection="sea", page_size=100)).records
    written = {
        each.summary.turn_range: (each.summary.writer, each.text) for each in records if each.HasField("summary")
    }
    assert written["1-2"] == ("tiny", "User: I live in Bonn.")
    writer, text = written["3-4"]
    assert (writer, "three" in text, text.splitlines()[0]) == ("extractive", False, f"User: {said[2]}")


async def test_a_summary_is_waited_for_as_long_as_the_setting_says(tmp_path: Path) -> None:
    settings = {"GROUNDWIRE_ANSWER_SUMMARY_TIMEOUT_S": "2.0", "RAG_SUMMARY_EVERY_N_TURNS": "1"}
    async with scripted_model(ending="hang") as model:
        arguments = ("--embedder", "hashing:64", "--vectors", "memory:", "--generator", f"openai+{model.url}#tiny")
        server = await asyncio.to_thread(ServerProcess, tmp_path / "data", arguments, **settings)
        try:
            async with AsyncGroundwireClient(server.address) as client:
                await client.create_collection(collection="sea")
                session = (await client.create_session(collection="sea", user_id="ada", new_conversation=True)).session
                said = pb.AskRequest(
                    question="I live in Bonn.", session_id=session.session_id, message_id=str(uuid.uuid4())
                )
                await client.ask.send(said)
                async with asyncio.timeout(15):  # by default the model has 20 s
                    while (await client.get_session(session_id=session.session_id)).session.unrecorded_exchange_count:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.05)
                records = (await client.list_records(collection="sea", page_size=100)).records
        finally:
            await asyncio.to_thread(server.stop)
    assert [each.summary.writer for each in records if each.HasField("summary")] == ["extractive"]
    assert "You write down" in model.requests[-1]["messages"][0]["content"]

"""The events of an answer add up to the answer, come in order, and stop when the caller leaves."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import hit_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.kernel.errors import InternalError
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, ScriptedGenerator, make_ask

_QUESTION = "What do red foxes eat and when does the red fox hunt?"


def _kinds(events: Sequence[pb.AnswerEvent]) -> list[str | None]:
    return [event.WhichOneof("event") for event in events]


@pytest.mark.parametrize("question", [_QUESTION, "zebra quantum salary kubernetes"])
async def test_the_events_add_up_to_the_final_answer(rig: Rig, question: str) -> None:
    events = await rig.stream(question)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert _kinds(events)[0] == "retrieved"
    assert _kinds(events)[-1] == "final"
    answer = events[-1].final.answer
    content = ""
    for event in events:
        if event.HasField("text_delta"):
            assert event.text_delta.start == len(content)
            content += event.text_delta.text
    assert content == answer.content
    assert [event.citation.citation for event in events if event.HasField("citation")] == list(answer.citations)
    assert list(events[0].retrieved.hits) == list(answer.hits)
    assert events[0].retrieved.search_text == answer.search_text


async def test_hits_are_in_the_first_event_and_in_the_answer_only_when_asked_for(rig: Rig) -> None:
    plain = await rig.stream(_QUESTION, include_hits=False)
    asked = await rig.stream(_QUESTION, include_hits=True)
    assert len(plain[0].retrieved.hits) == len(asked[0].retrieved.hits) > 0
    assert [each.chunk.content for each in plain[0].retrieved.hits if each.chunk.content.startswith("Red foxes")]
    assert list(plain[0].retrieved.documents) == list(asked[0].retrieved.documents)
    with_hits, without = asked[-1].final.answer, plain[-1].final.answer
    assert list(with_hits.hits) == list(asked[0].retrieved.hits)
    assert {each.document_id for each in with_hits.documents} == {each.chunk.document_id for each in with_hits.hits}
    assert (list(without.hits), list(without.documents)) == ([], [])
    assert (without.content, list(without.citations)) == (with_hits.content, list(with_hits.citations))
    alone = await rig.ask(_QUESTION, include_hits=False)
    assert (list(alone.hits), list(alone.documents)) == ([], [])


@pytest.mark.parametrize("view", [hit_pb2.HIT_VIEW_IDS, hit_pb2.HIT_VIEW_FULL])
async def test_hits_of_an_answer_have_the_view_of_the_options(rig: Rig, view: hit_pb2.HitView.ValueType) -> None:
    options = RetrievalOptions(view=view)
    answer = await rig.ask(_QUESTION, options=options)
    assert answer.citations
    assert answer.hits
    is_full = view == hit_pb2.HIT_VIEW_FULL
    assert {bool(each.chunk.content_hash) for each in answer.hits} == {is_full}
    assert {bool(each.chunk.content) for each in answer.hits} == {is_full}
    assert bool(answer.documents) is is_full


async def test_a_citation_follows_the_text_it_backs(rig: Rig) -> None:
    content = ""
    for event in await rig.stream(_QUESTION):
        content += event.text_delta.text
        if event.HasField("citation"):
            span = event.citation.citation.answer_spans[0]
            assert content[span.start : span.end] == event.citation.citation.quote


async def test_stream_and_unary_agree(rig: Rig) -> None:
    streamed = (await rig.stream(_QUESTION))[-1].final.answer
    asked = await rig.ask(_QUESTION)
    assert (streamed.content, list(streamed.citations), streamed.confidence) == (
        asked.content,
        list(asked.citations),
        asked.confidence,
    )


class _Endless:
    """Hands in the same statement for ever and counts."""

    name = "endless"

    def __init__(self) -> None:
        self.batches = 0
        self.closed = asyncio.Event()

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement], None]:
        assert question
        passage = passages[0]
        try:
            while True:
                self.batches += 1
                yield [Statement(passage.content, (Source(passage, passage.span, passage.content),))]
                await asyncio.sleep(0)
        finally:
            self.closed.set()


async def test_leaving_stops_the_generator(make_rig: MakeRig) -> None:
    generator = _Endless()
    rig = make_rig(generator=generator)
    async with aclosing(aiter(rig.stub.AskStream(pb.AskStreamRequest(ask=make_ask(_QUESTION))))) as messages:
        async for message in messages:
            if message.event.HasField("citation"):
                break
    await asyncio.wait_for(generator.closed.wait(), 5)
    made = generator.batches
    await asyncio.sleep(0.05)
    assert generator.batches == made


async def test_the_search_is_reported_before_the_text_is_made(make_rig: MakeRig) -> None:
    def fail(_passages: Sequence[Passage]) -> Sequence[Sequence[Statement]]:
        raise RuntimeError("broken")

    rig = make_rig(generator=ScriptedGenerator(fail))
    seen = []

    async def listen() -> None:
        async for message in rig.stub.AskStream(pb.AskStreamRequest(ask=make_ask(_QUESTION))):
            seen.append(message.event.WhichOneof("event"))  # noqa: PERF401 - keeps what came before the error

    with pytest.raises(InternalError):
        await listen()
    assert seen == ["retrieved"]

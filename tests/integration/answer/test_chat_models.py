"""Answers of chat models over real HTTP: what they write is bound to sources, and what they break is mended."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from groundwire.answer.generators import chat_generator
from groundwire.answer.settings import AnswerSettings, ChatModel
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.kernel.errors import OverloadedError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import has_controls
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, make_ask
from tests.scripted_model import ScriptedModel, scripted_model

_QUESTION = "What do red foxes eat?"
_TRUE = "Red foxes eat small mice [1]."
_ALSO_TRUE = "The red fox hunts at night [1]."
_FALSE = "Red foxes eat two kilograms of gold every day [1]."
_QUOTED = "Red foxes eat small mice. [1]"
"""What the answer is when it is quoted instead."""
_ANNOTATE = answer_pb2.GROUNDING_POLICY_ANNOTATE


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as running:
        yield running


MakeChatRig = Callable[..., Rig]


@pytest.fixture
def chat_rig(make_rig: MakeRig, model: ScriptedModel) -> MakeChatRig:
    def make(**settings: Any) -> Rig:
        answering = AnswerSettings(min_support=0.1, **settings)
        return make_rig(settings=answering, chat_model=ChatModel(model.url, "tiny"))

    return make


async def test_true_sentences_leave_with_exact_citations_and_others_are_dropped(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_TRUE} {_FALSE} {_ALSO_TRUE}")
    rig = chat_rig()
    answer = await rig.ask(_QUESTION)
    assert answer.content == "Red foxes eat small mice. [1] The red fox hunts at night. [2]"
    assert [each.quote for each in answer.citations] == ["Red foxes eat small mice.", "The red fox hunts at night."]
    assert (answer.grounded, answer.generator) == (True, "tiny")
    assert answer.finish_reason == answer_pb2.FINISH_REASON_COMPLETE
    assert answer.generation == answer_pb2.GenerationReport(model="tiny", dropped_sentence_count=1)
    assert not answer.degraded_stages
    checked = await rig.stub.VerifyCitations(pb.VerifyCitationsRequest(citations=answer.citations))
    assert checked.all_verified


async def test_numbers_of_the_model_cite_nothing_by_themselves(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says("Red foxes eat small mice [9][2]. Elephants are made of cheese [1][77].")
    answer = await chat_rig().ask(_QUESTION)
    assert (answer.content, answer.generator) == (_QUOTED, "tiny")
    assert answer.generation.dropped_sentence_count == 1
    assert [each.quote for each in answer.citations] == ["Red foxes eat small mice."]
    retrieved = {hit.chunk.chunk_id for hit in answer.hits}
    assert {each.chunk_id for each in answer.citations} <= retrieved


async def test_numbers_say_where_to_look_first(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    rig = chat_rig()
    for number in range(5):
        rig.library.put(f"fox-{number}.txt", [f"Red foxes eat small mice. In valley {number} they hunt by day."])
    where = to_filter_message(parse_filter({"source": {"$like": "fox-%"}}))

    async def cited(numbers: str) -> tuple[list[str], list[str]]:
        model.says(f"Red foxes eat small mice {numbers}.")
        answer = await rig.ask(_QUESTION, options=RetrievalOptions(filter=where, top_k=5))
        return [each.chunk_id for each in answer.citations], [hit.chunk.chunk_id for hit in answer.hits]

    for number in range(1, 6):
        found, hits = await cited(f"[{number}]")
        assert (found, len(hits)) == ([hits[number - 1]], 5)
    # A sentence that any source may support has the first that do, and not as many as there are.
    for numbers in ("[0]", "[6]", ""):
        found, hits = await cited(numbers)
        assert found == hits[:3]


async def test_annotate_lets_all_pass_and_names_what_no_source_supports(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_FALSE} {_TRUE}")
    rig = chat_rig()
    answer = await rig.ask(_QUESTION, grounding=_ANNOTATE)
    false = "Red foxes eat two kilograms of gold every day."
    assert answer.content == f"{false} {_QUOTED}"
    assert [answer.content[span.start : span.end] for span in answer.unsupported_spans] == [false]
    assert [list(claim.markers) for claim in answer.claims] == [[], [1]]
    assert not answer.grounded
    assert answer.refusal_reason == answer_pb2.REFUSAL_REASON_UNSPECIFIED
    strict = await rig.ask(_QUESTION, grounding=answer_pb2.GROUNDING_POLICY_STRICT)
    assert (strict.content, list(strict.unsupported_spans), strict.grounded) == (_QUOTED, [], True)
    assert strict.confidence > answer.confidence


async def test_halves_of_characters_are_joined_and_lone_ones_replaced(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    # The first piece has seven code units, so that it ends within the fox.
    model.says("Foxes \ud83e\udd8a are \ud83e fine.")
    answer = await chat_rig().ask(_QUESTION, grounding=_ANNOTATE)
    assert (answer.generator, answer.content) == ("tiny", "Foxes \U0001f98a are \ufffd fine.")


def _in_lines(event: bytes) -> list[bytes]:
    """Return an event whose JSON is written in several lines, with fields that no answer is made of."""
    data = event.removeprefix(b"data: ").strip()
    lines = json.dumps(json.loads(data), indent=1).encode().splitlines() if data.startswith(b"{") else [data]
    fields = [b"event: message", b"id: 1", *(b"data:" + line for line in lines), b"retry: 10"]
    return [event if event.startswith(b":") else b"\n".join(fields) + b"\n\n"]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda event: [event.replace(b"\n", b"\r\n")], id="CRLF"),
        pytest.param(lambda event: [event.replace(b"\n", b"\r")], id="CR"),
        pytest.param(lambda event: [bytes([each]) for each in event.replace(b"\n", b"\r\n")], id="CRLF in bytes"),
        pytest.param(_in_lines, id="in lines"),
        *(
            pytest.param(
                lambda event, field=field: [] if event.startswith(b":") else [field + b"\n" + event], id=field.decode()
            )
            for field in (b"event: message", b"id: 1", b"retry: 10")
        ),
        pytest.param(
            lambda event: [bytes([each]) for each in _in_lines(event)[0].replace(b"\n", b"\r\n")], id="all of it"
        ),
    ],
)
async def test_events_are_read_however_the_standard_allows_to_write_them(
    model: ScriptedModel, chat_rig: MakeChatRig, written: Callable[[bytes], list[bytes]]
) -> None:
    model.written = written
    model.says(f"{_TRUE} {_ALSO_TRUE}")
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == "Red foxes eat small mice. [1] The red fox hunts at night. [2]"
    assert (answer.generator, answer.generation) == ("tiny", answer_pb2.GenerationReport(model="tiny"))
    assert answer.finish_reason == answer_pb2.FINISH_REASON_COMPLETE


async def test_control_characters_of_a_model_are_left_out(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says("Foxes\x00 are\x1b[31m\tfine\x85.\n\nOwls \x07wake.")
    answer = await chat_rig().ask(_QUESTION, grounding=_ANNOTATE)
    assert answer.generator == "tiny"
    assert not has_controls(answer.content)
    assert answer.content.split() == ["Foxes", "are[31m", "fine.", "Owls", "wake."]


async def test_under_annotate_an_answer_may_have_no_citation_at_all(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(_FALSE)
    answer = await chat_rig().ask(_QUESTION, grounding=_ANNOTATE)
    assert (answer.generator, len(answer.unsupported_spans), list(answer.citations)) == ("tiny", 1, [])
    assert (answer.confidence, answer.refusal_reason) == (0.0, answer_pb2.REFUSAL_REASON_UNSPECIFIED)


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ({"ending": "cut"}, "INTERRUPTED"),
        ({"ending": "end"}, "INTERRUPTED"),
        ({"ending": "cut event"}, "INTERRUPTED"),
        ({"ending": "content_filter"}, "INTERRUPTED"),
        ({"page": b"<html>\n<p>Sign in</p>\n</html>"}, "INVALID_REPLY"),
        ({"page": b'{"choices": [{"message": {"content": "Foxes."}}]}'}, "INVALID_REPLY"),
        ({"ending": "bad json"}, "INVALID_REPLY"),
        ({"ending": "error"}, "INVALID_REPLY"),
        ({"ending": "stop"}, "INVALID_REPLY"),
        ({"hangs_first": True}, "TIMEOUT"),
        ({"ending": "hang"}, "TIMEOUT"),
        ({"statuses": [500, 500]}, "UNAVAILABLE"),
        ({"statuses": [429, 429]}, "UNAVAILABLE"),
        ({"statuses": [401]}, "REJECTED"),
        ({"statuses": [302]}, "REJECTED"),
        ({"write": lambda _: _FALSE}, "UNSUPPORTED"),
    ],
    # The same in every worker: a function has another address in each of them.
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else value,
)
async def test_a_model_that_fails_leaves_the_answer_to_quotations_and_says_so(
    model: ScriptedModel, chat_rig: MakeChatRig, script: dict[str, Any], failure: str
) -> None:
    for name, value in script.items():
        setattr(model, name, value)
    async with asyncio.timeout(20):  # by default a model may be silent for longer
        answer = await chat_rig(generator_timeout_s=0.3 if failure == "TIMEOUT" else 30).ask(_QUESTION)
    assert (answer.content, answer.generator, answer.grounded) == (_QUOTED, "extractive", True)
    assert answer_pb2.GenerationFailure.Name(answer.generation.failure) == f"GENERATION_FAILURE_{failure}"
    assert answer.generation.model == "tiny"
    assert list(answer.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_GENERATION]
    assert answer.finish_reason == answer_pb2.FINISH_REASON_COMPLETE


async def test_a_model_that_is_not_there_leaves_the_answer_to_quotations(make_rig: MakeRig) -> None:
    async with scripted_model() as gone:
        url = gone.url
    answer = await make_rig(chat_model=ChatModel(url, "tiny")).ask(_QUESTION)
    assert answer.content == _QUOTED
    assert answer.generation.failure == answer_pb2.GENERATION_FAILURE_UNAVAILABLE


async def test_a_connection_to_a_model_is_waited_for_as_long_as_the_setting_says(make_rig: MakeRig) -> None:
    with ExitStack() as stack:
        deaf, *queued = [stack.enter_context(socket.socket()) for _ in range(4)]
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        # They wait in its queue: there is no room for another connection, which is not refused either.
        for each in queued:
            each.settimeout(0)
            each.connect_ex(deaf.getsockname())
        settings = AnswerSettings(min_support=0.1, generator_connect_s=0.1, generator_timeout_s=2.5)
        chat_model = ChatModel(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", "tiny")
        answer = await make_rig(settings=settings, chat_model=chat_model).ask(_QUESTION)
    assert answer.content == _QUOTED
    # By default the time for the whole answer would be over first.
    assert answer.generation.failure == answer_pb2.GENERATION_FAILURE_UNAVAILABLE


async def test_a_model_that_hangs_leaves_time_for_quotations_within_the_deadline_of_the_call(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.hangs_first = True
    response = await chat_rig().stub.Ask(make_ask(_QUESTION), timeout=4)
    assert response.answer.content == _QUOTED


async def test_what_was_sent_before_a_model_stopped_stays_and_nothing_is_added(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_TRUE} The red fox hunts at n")
    model.ending = "cut"
    answer = await chat_rig().ask(_QUESTION)
    assert (answer.content, answer.generator) == (_QUOTED, "tiny")
    assert answer.finish_reason == answer_pb2.FINISH_REASON_INTERRUPTED
    assert answer.generation.failure == answer_pb2.GENERATION_FAILURE_INTERRUPTED
    assert len(model.requests) == 1, "a reply that had begun was asked for again"


async def test_a_reply_that_ran_out_of_tokens_loses_its_unfinished_sentence(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_TRUE} The red fox hunts at night")
    model.ending = "length"
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == _QUOTED
    assert answer.finish_reason == answer_pb2.FINISH_REASON_INTERRUPTED


@pytest.mark.parametrize("status", [503, 429])
async def test_what_fails_before_the_first_word_is_tried_once_more(
    model: ScriptedModel, chat_rig: MakeChatRig, status: int
) -> None:
    model.statuses = [status]
    model.says(_ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == "The red fox hunts at night. [1]"
    assert len(model.requests) == 2


async def test_a_question_for_which_the_context_is_too_small_is_answered_by_quotations(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.tokenizer = "llama.cpp"
    answer = await chat_rig(generator_context_tokens=700, generator_reply_tokens=100).ask(_QUESTION)
    assert (answer.content, answer.generator) == (_QUOTED, "extractive")
    assert answer.generation.failure == answer_pb2.GENERATION_FAILURE_REJECTED
    assert model.requests == []


async def test_a_model_may_say_that_the_sources_do_not_answer(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says("No answer.")
    answer = await chat_rig().ask(_QUESTION)
    assert answer.refusal_reason == answer_pb2.REFUSAL_REASON_WEAK_SUPPORT
    assert (answer.generator, answer.generation.failure) == ("tiny", 0)


async def test_that_the_sources_do_not_answer_ends_no_answer_that_has_begun(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(_TRUE, "NO ANSWER", _ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == f"{_QUOTED}\nThe red fox hunts at night. [2]"
    assert answer.generation.dropped_sentence_count == 1


@pytest.mark.parametrize(("policy", "has_it"), [(answer_pb2.GROUNDING_POLICY_STRICT, False), (_ANNOTATE, True)])
async def test_what_a_model_says_about_its_answer_needs_no_source_and_has_none(
    model: ScriptedModel, chat_rig: MakeChatRig, policy: answer_pb2.GroundingPolicy.ValueType, has_it: bool
) -> None:
    model.says("Here is what I found: red foxes eat small mice [1].", _ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION, grounding=policy)
    assert answer.content.endswith("The red fox hunts at night. [1]")
    assert answer.content.startswith("Here is what I found: red foxes eat small mice.") is has_it
    assert (answer.grounded, list(answer.unsupported_spans)) == (True, [])


async def test_a_reply_in_which_nothing_is_supported_is_not_read_for_ever(
    model: ScriptedModel, chat_rig: MakeChatRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_generator, "_MAX_REPLY_CHARS", 400)
    model.says(*(f"Red foxes eat {number} kilograms of gold." for number in range(20)))
    model.ending = "hang"
    answer = await chat_rig().ask(_QUESTION)
    assert (answer.content, answer.generation.failure) == (_QUOTED, answer_pb2.GENERATION_FAILURE_INTERRUPTED)
    await asyncio.wait_for(model.left.wait(), 10)


async def test_a_long_reply_is_cut_at_the_limit_and_not_read_on(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says(*(f"Red foxes eat small mice number {number}." for number in range(100)))
    model.ending = "hang"
    answer = await chat_rig().ask(_QUESTION, max_answer_chars=100, grounding=_ANNOTATE)
    assert answer.finish_reason == answer_pb2.FINISH_REASON_LENGTH
    assert 50 < len(answer.content) <= 100
    await asyncio.wait_for(model.left.wait(), 10)


@pytest.mark.parametrize("policy", [answer_pb2.GROUNDING_POLICY_STRICT, _ANNOTATE])
async def test_the_events_of_a_model_add_up_to_the_answer_of_ask(
    model: ScriptedModel, chat_rig: MakeChatRig, policy: answer_pb2.GroundingPolicy.ValueType
) -> None:
    model.says(f"{_TRUE} {_FALSE}", _ALSO_TRUE)
    rig = chat_rig()
    events = await rig.stream(_QUESTION, grounding=policy)
    answer = events[-1].final.answer
    assert "".join(event.text_delta.text for event in events) == answer.content
    assert [event.citation.citation for event in events if event.HasField("citation")] == list(answer.citations)
    deltas = [event.text_delta.text for event in events if event.HasField("text_delta")]
    assert len(deltas) == len(answer.claims) == (3 if policy == _ANNOTATE else 2)
    asked = await rig.ask(_QUESTION, grounding=policy)
    for each in (answer, asked):
        for changing in ("message_id", "answer_time", "timings"):
            each.ClearField(changing)
    assert answer == asked


async def test_sentences_leave_one_by_one_while_the_model_writes_on(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_TRUE} The red fox")
    model.ending = "hang"
    rig = chat_rig(heartbeat_s=0.05)
    seen: list[str | None] = []
    request = pb.AskStreamRequest(ask=make_ask(_QUESTION))
    async with aclosing(aiter(rig.stub.AskStream(request))) as messages:
        async for message in messages:
            seen.append(message.event.WhichOneof("event"))
            assert not model.left.is_set(), "the model was left before the caller left"
            # On a busy machine some come before the citation, too.
            if seen[-1] == "heartbeat" and seen.count("heartbeat") > 2 and "citation" in seen:
                assert message.event.heartbeat.generation_time.ToTimedelta().total_seconds() > 0.1
                break
    assert [each for each in seen if each != "heartbeat"] == ["retrieved", "text_delta", "citation"]
    await asyncio.wait_for(model.left.wait(), 10)


async def test_the_first_event_does_not_wait_for_the_model(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.hangs_first = True
    request = pb.AskStreamRequest(ask=make_ask(_QUESTION))
    async with aclosing(aiter(chat_rig().stub.AskStream(request))) as messages:
        first = await asyncio.wait_for(anext(messages), 10)
    assert first.event.HasField("retrieved")
    assert model.requests == []


async def test_more_answers_than_the_model_may_write_are_refused_and_hold_nothing(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.hangs_first = True
    rig = chat_rig(max_generations=2)
    calls = [asyncio.ensure_future(rig.ask(_QUESTION)) for _ in range(8)]
    done, writing = await asyncio.wait(calls, return_when=asyncio.FIRST_EXCEPTION)
    while len(done) < 6:
        more, writing = await asyncio.wait(writing, return_when=asyncio.FIRST_EXCEPTION)
        done |= more
    refusals = [call.exception() for call in done]
    assert {type(each) for each in refusals} == {OverloadedError}
    assert [each.metadata for each in refusals if isinstance(each, OverloadedError)] == [
        {"limit": "2", "work": "generation"}
    ] * 6
    for call in writing:
        call.cancel()
    await asyncio.gather(*writing, return_exceptions=True)
    model.hangs_first = False
    model.says(_TRUE)
    assert (await rig.ask(_QUESTION)).content == _QUOTED


async def test_an_answer_of_a_model_is_kept_whole_in_its_session(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says(f"{_FALSE} {_TRUE}")
    rig = chat_rig()
    session, again = await rig.session(), "8f14e45f-ceea-467f-a0e6-4d5a3c6b7d10"
    first = await rig.ask(_QUESTION, session_id=session, message_id=again, grounding=_ANNOTATE)
    assert first.unsupported_spans
    assert first.HasField("generation")
    assert await rig.ask(_QUESTION, session_id=session, message_id=again, grounding=_ANNOTATE) == first
    assert len(model.requests) == 1


async def test_a_model_learns_what_the_conversation_is_about(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says(_TRUE)
    rig = chat_rig()
    session = await rig.session()
    await rig.ask(_QUESTION, session_id=session)
    await rig.ask("Do the small mice hunt at night?", session_id=session)
    first, second = (request["messages"][-1]["content"] for request in model.requests)
    assert "conversation" not in first
    assert "Do the small mice hunt at night? (The conversation is about: " in second
    assert "fox" in second.partition("The conversation is about: ")[2].partition(")")[0]


async def test_a_key_is_sent_and_shown_nowhere(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says(_TRUE)
    rig = chat_rig(generator_api_key=SecretStr("s3cret"))
    answer = await rig.ask(_QUESTION)
    assert model.headers["authorization"] == "Bearer s3cret"
    assert model.headers["path"] == "/v1/chat/completions"
    assert "s3cret" not in str(answer)
    assert model.requests[0]["model"] == "tiny"


@pytest.mark.parametrize("tokenizer", ["none", "llama.cpp", "vllm"])
async def test_the_prompt_fits_into_the_context_in_tokens_of_the_model(
    model: ScriptedModel, make_rig: MakeRig, tokenizer: Any
) -> None:
    model.tokenizer = tokenizer
    model.says(_TRUE)
    settings = AnswerSettings(min_support=0.1, generator_context_tokens=2600, generator_reply_tokens=100)
    rig = make_rig(settings=settings, chat_model=ChatModel(model.url, "tiny"))
    rig.library.put("long.txt", [f"Red foxes eat mice. {'They do so in winter. ' * 40}", f"Foxes. {'Bread. ' * 400}"])
    answer = await rig.ask(_QUESTION)
    assert len(answer.hits) > 2
    shown = "\n".join(message["content"] for message in model.requests[0]["messages"])
    per_token = 3 if tokenizer == "none" else 1
    assert len(shown) / per_token <= 2600 - 100
    assert bool(model.counted) is (tokenizer != "none")
    assert "Red foxes eat small mice. The red fox hunts at night." in shown
    assert "They do so in winter." in shown
    assert ("Bread. Bread." in shown) is (tokenizer == "none"), "as many passages as fit are shown"
    assert answer.content == _QUOTED


async def test_documents_stand_as_data_within_a_boundary_that_is_new_each_time(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(_TRUE)
    rig = chat_rig()
    await rig.ask(_QUESTION)
    await rig.ask(_QUESTION)
    boundaries = []
    for request in model.requests:
        system, user = (message["content"] for message in request["messages"])
        assert [message["role"] for message in request["messages"]] == ["system", "user"]
        boundary, _, rest = user.partition("\n")
        assert boundary in system
        assert "mice" not in system
        blocks = rest.split(f"\n{boundary}\n")
        assert [block.partition(" ")[0] for block in blocks[:-1]] == ["[1]", "[2]", "[3]"][: len(blocks) - 1]
        assert "Red foxes eat small mice." in blocks[0]
        assert blocks[-1] == f"\nQuestion: {_QUESTION}"
        boundaries.append(boundary)
    assert len(set(boundaries)) == 2


@pytest.mark.parametrize(("repeats", "is_stopped"), [(3, False), (4, True)])
async def test_a_few_sentences_may_be_repeated_and_are_shown_once(
    model: ScriptedModel, chat_rig: MakeChatRig, repeats: int, is_stopped: bool
) -> None:
    model.says(_TRUE, *[_TRUE] * repeats, _ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == (_QUOTED if is_stopped else f"{_QUOTED}\nThe red fox hunts at night. [2]")
    reason = "INTERRUPTED" if is_stopped else "COMPLETE"
    assert answer.finish_reason == answer_pb2.FinishReason.Value(f"FINISH_REASON_{reason}")


async def test_sentences_that_come_in_one_piece_are_shown_once_too(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    delta = {"content": f"{_TRUE} {_TRUE} {_ALSO_TRUE} {_TRUE}"}
    model.page = f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\ndata: [DONE]\n\n".encode()
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == f"{_QUOTED} The red fox hunts at night. [2]"


async def test_a_model_that_repeats_itself_is_stopped(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says(_TRUE, *[_ALSO_TRUE] * 20)
    model.ending = "hang"
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == f"{_QUOTED}\nThe red fox hunts at night. [2]"
    assert answer.finish_reason == answer_pb2.FINISH_REASON_INTERRUPTED
    await asyncio.wait_for(model.left.wait(), 10)


@pytest.mark.parametrize("loop", ["Red foxes eat small mice and " * 9, "Foxes eat " + "small mice " * 2000])
async def test_a_model_that_goes_round_within_a_sentence_is_stopped(
    model: ScriptedModel, chat_rig: MakeChatRig, loop: str
) -> None:
    model.says(f"{_ALSO_TRUE} {loop.strip()}.", _TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert (answer.content, answer.generator) == ("The red fox hunts at night. [1]", "tiny")
    assert answer.finish_reason == answer_pb2.FINISH_REASON_INTERRUPTED
    assert answer.generation.failure == answer_pb2.GENERATION_FAILURE_INTERRUPTED


async def test_a_long_sentence_and_a_short_one_of_few_words_are_no_loops(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    long = f"Red foxes eat {' and '.join(f'mice of size {number}' for number in range(10))}."
    short = f"They call {'hoo ' * 24}hoo."
    model.says(long, short, _TRUE)
    answer = await chat_rig().ask(_QUESTION, grounding=_ANNOTATE)
    assert (answer.content, answer.generation.failure) == (f"{long}\n{short}\n{_QUOTED}", 0)


async def test_a_courtesy_takes_no_source_from_what_it_introduces(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.says("I hope this is clear, and the red fox hunts at night.")
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == "I hope this is clear, and the red fox hunts at night. [1]"


async def test_what_sources_disagree_about_is_said_with_its_source(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    rig = chat_rig()
    for number in (20, 25):
        rig.library.put(f"{number}.txt", [f"The limit of the queue is {number} entries."])
    for number in (20, 25):
        model.says(f"The limit of the queue is {number} entries.")
        answer = await rig.ask("What is the limit of the queue?")
        assert answer.generator == "tiny"
        assert [each.source_uri for each in answer.citations] == [f"{number}.txt"]


async def test_a_boundary_that_a_model_copies_is_not_shown(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    model.write = lambda body: f"{body['messages'][1]['content'].splitlines()[0]}\n{_TRUE}"
    answer = await chat_rig().ask(_QUESTION, grounding=_ANNOTATE)
    assert answer.content == _QUOTED


async def test_sentences_that_shuffle_the_words_of_their_sources_are_dropped(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says("Mice hunt small red foxes [1].", "Small mice hunt at night [1].", _ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == "The red fox hunts at night. [1]"
    assert answer.generation.dropped_sentence_count == 2


async def test_confidence_is_the_support_that_the_sources_give(model: ScriptedModel, chat_rig: MakeChatRig) -> None:
    rig = chat_rig()
    model.says(_TRUE)
    literal = await rig.ask(_QUESTION)
    model.says("The red fox eats small mice at night [1].")
    loose = await rig.ask(_QUESTION)
    assert literal.confidence == literal.citations[0].support_score > 0.9
    assert 0.5 < loose.citations[0].support_score < 0.9
    assert loose.confidence < literal.confidence


async def test_a_further_source_supports_a_sentence_as_far_as_it_resembles_it(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    rig = chat_rig()
    rig.library.put("forest.txt", ["At night small mice are what most red foxes of the forest eat."])
    model.says("Red foxes eat small mice.")
    answer = await rig.ask(_QUESTION)
    first, second = answer.citations
    assert (first.source_uri, second.source_uri) == ("foxes.txt", "forest.txt")
    assert first.support_score > 0.9
    assert second.support_score < 0.5


async def test_a_sentence_has_few_sources_however_many_say_parts_of_it(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    rig = chat_rig()
    for number in range(2):
        rig.library.put(f"{number}.txt", [f"Red foxes eat small mice. The red fox hunts in winter {number} at night."])
    model.says("The red fox eats small mice at night.")
    answer = await rig.ask(_QUESTION)
    assert len(answer.citations) == 3


async def test_a_stream_that_broke_while_the_model_wrote_goes_on_by_the_numbers_of_its_events(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says(f"{_TRUE} And")
    model.ending = "hang"
    rig = chat_rig(heartbeat_s=0.05)
    ask = make_ask(_QUESTION, session_id=await rig.session())
    numbers: list[tuple[str | None, int]] = []
    async with aclosing(aiter(rig.stub.AskStream(pb.AskStreamRequest(ask=ask)))) as messages:
        async for message in messages:
            numbers.append((message.event.WhichOneof("event"), message.event.sequence))
            if numbers[-1][0] == "heartbeat" and ("citation", 3) in numbers:
                break
    await asyncio.wait_for(model.left.wait(), 10)
    assert {number for kind, number in numbers if kind == "heartbeat"} == {0}
    kept = [each for each in numbers if each[0] != "heartbeat"]
    assert kept == [("retrieved", 1), ("text_delta", 2), ("citation", 3)]
    resumed = pb.AskStreamRequest(ask=ask, after_sequence=3)
    (last,) = [message.event async for message in rig.stub.AskStream(resumed)]
    assert (last.sequence, last.final.answer.content) == (4, _QUOTED)
    assert last.final.answer.finish_reason == answer_pb2.FINISH_REASON_ABANDONED
    assert len(model.requests) == 1


async def test_a_sentence_leaves_only_if_each_of_its_claims_is_supported(
    model: ScriptedModel, chat_rig: MakeChatRig
) -> None:
    model.says("Red foxes eat small mice, and the moon is made of green cheese [1].", _ALSO_TRUE)
    answer = await chat_rig().ask(_QUESTION)
    assert answer.content == "The red fox hunts at night. [1]"
    assert answer.generation.dropped_sentence_count == 1

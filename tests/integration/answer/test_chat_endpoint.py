"""What a chat endpoint is sent, and what is read of its answers, over real HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from groundwire.answer.answers import GenerationFailure
from groundwire.answer.generators import chat_endpoint
from groundwire.answer.generators.chat_endpoint import ChatEndpoint
from groundwire.answer.ports import GenerationFailedError
from groundwire.kernel.budget import Budget
from tests.scripted_model import ScriptedModel, scripted_model

_MESSAGES = [{"role": "user", "content": "What do foxes eat?"}]
_CONTEXT, _REPLY = 4096, 512


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as running:
        yield running


def _endpoint(url: str, name: str = "tiny", idle_s: float = 30) -> ChatEndpoint:
    limits = {"context_tokens": _CONTEXT, "reply_tokens": _REPLY}
    return ChatEndpoint(url, name, "", name="tiny", connect_s=5, idle_s=idle_s, **limits)


async def _reply(endpoint: ChatEndpoint) -> str:
    async with asyncio.timeout(10):
        return "".join([piece.text async for piece in endpoint.complete(_MESSAGES, Budget(60))])


async def _failure(endpoint: ChatEndpoint) -> GenerationFailure:
    with pytest.raises(GenerationFailedError) as caught:
        await _reply(endpoint)
    return caught.value.failure


@pytest.mark.parametrize(("name", "slash"), [("tiny", ""), ("", "/")])
async def test_a_model_is_asked_for_its_likeliest_words_and_for_no_more_than_the_limit(
    model: ScriptedModel, name: str, slash: str
) -> None:
    model.says("Mice.")
    assert await _reply(_endpoint(model.url + slash, name)) == "Mice."
    asked = {"messages": _MESSAGES, "max_tokens": _REPLY, "temperature": 0, "stream": True}
    assert model.requests == [asked | ({"model": name} if name else {})]
    assert model.headers["path"] == "/v1/chat/completions"
    assert "authorization" not in model.headers


def test_a_prompt_leaves_room_for_the_reply_and_for_the_template_of_the_model() -> None:
    template = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
    room = _CONTEXT - _REPLY - chat_endpoint.estimated_tokens(template)
    assert room - 100 < _endpoint("http://127.0.0.1:1/v1").prompt_tokens < room


def _event(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


_MICE = _event(delta={"content": "Mice."})
_DONE = b"data: [DONE]\n\n"
_STOP = _event(delta={}, finish_reason="stop")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"\xef\xbb\xbf" + _MICE + _DONE, id="byte order mark"),
        pytest.param(
            b'data: {"choices": [], "prompt_filter_results": []}\n\n' + _MICE + _STOP, id="no choice at first"
        ),
        pytest.param(_event(delta={"role": "assistant", "content": None}) + _MICE + _DONE, id="no content at first"),
        pytest.param(_MICE + _event(finish_reason="stop"), id="no delta at last"),
        pytest.param(_MICE + _event(delta=None, finish_reason="stop"), id="a delta that is null"),
        pytest.param(_MICE + _DONE, id="no reason to finish"),
        pytest.param(_MICE + _STOP + b": nothing that a client waits for", id="no mark of the end"),
        pytest.param(_MICE + b"data: [DONE]", id="no line after the last"),
        pytest.param(_MICE + _STOP + _MICE, id="more after the end"),
    ],
)
async def test_a_reply_is_read_however_servers_begin_and_end_it(model: ScriptedModel, page: bytes) -> None:
    model.page = page
    assert await _reply(_endpoint(model.url)) == "Mice."


async def test_half_of_a_character_at_the_end_is_replaced(model: ScriptedModel) -> None:
    model.page = _event(delta={"content": "Mice \ud83e"}) + _STOP
    assert await _reply(_endpoint(model.url)) == "Mice \ufffd"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(_event(delta={"content": 5}), id="a number as text"),
        pytest.param(_event(delta=["Mice."]), id="a list as delta"),
        pytest.param(b'data: {"choices": {"delta": {}}}\n\n', id="a choice alone"),
        pytest.param(b'data: {"choices": 1}\n\n', id="a number of choices"),
        pytest.param(b"data: " + b"[" * 100_000 + b"\n\n", id="deep"),
        pytest.param(b"data: " + b"x" * 300_000, id="a line without end"),
        pytest.param((b":" + b"x" * 9_999 + b"\n") * 450, id="comments without end"),
    ],
)
async def test_what_is_no_reply_or_too_long_for_one_is_not_read_as_one(model: ScriptedModel, page: bytes) -> None:
    model.page = page
    assert await _failure(_endpoint(model.url)) is GenerationFailure.INVALID_REPLY
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "script",
    [{"statuses": [status]} for status in (408, 425, 429, 500, 503)] + [{"ending": "cut"}],
    ids=lambda script: "-".join(map(str, script.values())),
)
async def test_what_may_pass_is_tried_once_more_after_a_pause(model: ScriptedModel, script: dict[str, Any]) -> None:
    for name, value in script.items():
        setattr(model, name, value)
    model.says("Mice." if "statuses" in script else "")
    began = time.monotonic()
    if "statuses" in script:
        assert await _reply(_endpoint(model.url)) == "Mice."
    else:
        assert await _failure(_endpoint(model.url)) is GenerationFailure.INTERRUPTED
    assert len(model.requests) == 2
    assert time.monotonic() - began > 0.15


async def test_nothing_is_tried_again_for_which_there_is_no_time(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_endpoint, "_RETRY_AFTER_S", 61.0)
    model.statuses = [503]
    assert await _failure(_endpoint(model.url)) is GenerationFailure.UNAVAILABLE
    assert len(model.requests) == 1


@pytest.mark.parametrize("script", [{"hangs_first": True}, {"ending": "hang"}], ids=str)
async def test_a_model_that_is_silent_for_too_long_is_left(model: ScriptedModel, script: dict[str, Any]) -> None:
    for name, value in script.items():
        setattr(model, name, value)
    model.says("Mice.")
    assert await _failure(_endpoint(model.url, idle_s=0.1)) is GenerationFailure.TIMEOUT
    await asyncio.wait_for(model.left.wait(), 10)


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (200, b"no JSON"),
        (200, b"[" * 100_000),
        (200, b"{}"),
        (200, b"[]"),
        (200, b"5"),
        (200, b'{"tokens": 5}'),
        (200, b'{"count": "5"}'),
        (200, b'{"count": true}'),
        (200, b'{"count": -1}'),
    ],
    ids=lambda answer: f"{answer[0]} {answer[1][:15].decode()}",
)
async def test_tokens_that_are_not_counted_are_estimated_from_their_bytes(
    model: ScriptedModel, answer: tuple[int, bytes]
) -> None:
    model.counts = [answer] * 2
    endpoint = _endpoint(model.url)
    assert [await endpoint.count_tokens(text, Budget(60)) for text in ("狐狸吃老鼠", "mice")] == [5, 2]
    assert model.counts == []


@pytest.mark.parametrize(("status", "times"), [(400, 1), (404, 1), (429, 2), (503, 2)])
async def test_only_an_endpoint_that_counts_no_tokens_is_not_asked_again(
    model: ScriptedModel, status: int, times: int
) -> None:
    model.counts = [(status, b"{}")] * 2
    endpoint = _endpoint(model.url)
    for _ in range(2):
        await endpoint.count_tokens("mice", Budget(60))
    assert 2 - len(model.counts) == times


@pytest.mark.parametrize(("patience_s", "limit_s"), [(0.05, 60.0), (60.0, 0.05)])
async def test_a_count_is_waited_for_only_shortly(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, patience_s: float, limit_s: float
) -> None:
    monkeypatch.setattr(chat_endpoint, "_COUNT_S", patience_s)
    model.counts = [None]
    assert await asyncio.wait_for(_endpoint(model.url).count_tokens("mice", Budget(limit_s)), 10) == 2

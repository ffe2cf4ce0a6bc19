"""Several times as many questions as a chat model may write answers, and as there are workers, while it hangs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from groundwire.answer.settings import AnswerSettings, ChatModel
from tests.limits.slow_parts import WORKERS, running
from tests.limits.test_saturation import ask, codes, failures, others_work, outcome, search
from tests.scripted_model import scripted_model

pytestmark = pytest.mark.limits

GENERATIONS = 2 * WORKERS
CALLS = 3 * GENERATIONS


async def test_a_hung_chat_model_costs_its_callers_time_and_others_nothing(tmp_path: Path) -> None:
    async with scripted_model(hangs_first=True) as model:
        settings = AnswerSettings(min_support=0.0, max_generations=GENERATIONS)
        async with running(tmp_path, answer=settings, chat_model=ChatModel(model.url, "hung")) as limits:
            await limits.fill()
            calls = {asyncio.ensure_future(outcome(ask(limits, 100))) for _ in range(CALLS)}
            await model.until_open(GENERATIONS)
            refused: set[asyncio.Future[Any]] = set()
            while len(refused) < CALLS - GENERATIONS:
                refused |= (await asyncio.wait(calls - refused, return_when=asyncio.FIRST_COMPLETED))[0]
            errors = [call.result() for call in refused]
            assert codes(errors) == {"RESOURCE_EXHAUSTED": CALLS - GENERATIONS}
            assert failures(errors) == {f"RESOURCE_EXHAUSTED: the model is already writing {GENERATIONS} answers"}
            # Twice as many answers are being written as there are workers, and each kind of call finds one.
            await others_work(limits)
            assert (await limits.retrieve.Retrieve(search(7), timeout=30)).results
            assert model.open == GENERATIONS

            model.hangs_first = False
            model.says("The w7 rises and falls twice a day. [1]")
            model.let_go()
            found = [await call for call in calls - refused]
            assert codes(found) == {"OK": GENERATIONS}
            assert {response.answer.generator for _, _, response in found} == {"hung"}
            assert (await outcome(ask(limits, 60)))[0] == "OK"

"""How much of what a capable chat model writes leaves the server, and whether it abstains where the sources do.

    python benchmarks/chat_answers.py [--data DIR]

`chat_replies.json` has replies in free words, as a large model writes them, to questions over four corpora: they were
written by hand from the chunks that the questions find. An endpoint on loopback gives them in place of a model, without
the numbers of sources. Prints each reply of which a sentence was dropped, and the shares of replies and sentences that
left whole under the strict policy. Corpora and `--data` are as in `natural_questions.py`.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.natural_questions import ingest
from benchmarks.served import served_client
from groundwire.client import GroundwireClient
from groundwire.kernel.sentences import split_sentences
from tests.scripted_model import Body, scripted_model

_MODEL = "capable"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where to keep the collections")
    asyncio.run(_run(parser.parse_args().data))


async def _run(data: Path | None) -> None:
    text = (Path(__file__).parent / "chat_replies.json").read_text(encoding="utf-8")
    replies: dict[str, dict[str, str]] = json.loads(text)
    by_question = {question: reply for own in replies.values() for question, reply in own.items()}

    def write(body: Body) -> str:
        return by_question[body["messages"][-1]["content"].rpartition("Question: ")[2]]

    async with scripted_model(write=write) as model:
        await asyncio.to_thread(_measure, replies, f"openai+{model.url}#{_MODEL}", data)


def _measure(replies: dict[str, dict[str, str]], generator: str, data: Path | None) -> None:
    with served_client(["--generator", generator], data) as client:
        for corpus in replies:
            ingest(client, corpus)
        _ask(client, replies)


def _ask(client: GroundwireClient, replies: dict[str, dict[str, str]]) -> None:
    whole = count = dropped = sentences = 0
    for corpus, own in replies.items():
        for question, reply in own.items():
            answer = client.ask(collection=corpus, question=question).answer
            count += 1
            sentences += len(split_sentences(reply))
            dropped += answer.generation.dropped_sentence_count
            if answer.generator == _MODEL and not answer.generation.dropped_sentence_count:
                whole += 1
            else:
                print(f"{corpus}: {question}\n   written: {reply}\n   left:    {answer.content}")
    print(f"{whole} of {count} replies whole, {sentences - dropped} of {sentences} sentences")


if __name__ == "__main__":
    main()

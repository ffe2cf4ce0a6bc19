"""What a newcomer asks a handbook, answered with the default model; each question is of a kind of its own."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.api.answer.v1 import answer_pb2
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess

HANDBOOK = {
    "operating.md": """# Operating

## Exit codes

| Exit code | Meaning |
|-----------|---------|
| 0 | everything went well |
| 1 | something failed, and the error stream says what |
| 2 | the *request* or the command line is wrong |

## Backup

Stop the server and copy the data folder, or run the [backup](backup.md) command while it serves.
A backup holds every document that was acknowledged before it began.

## Deleting a collection

Delete a collection with its documents like this:

```console
$ tool collections delete NAME --force
```

It cannot be undone. See above.

## TLS

Give the server a certificate, and it encrypts what it sends. Old links go on as they were.

A certificate is read again when its file changes.

## Metrics

The endpoint shows how many calls are under way, and how long they took.

## Checking quotes

The tool has a command called verify. It compares quotes with the texts that are stored.

## Sessions

A session **expires** after thirty minutes without a question. It is removed a day later.
Sessions that expired are swept every ten minutes.
""",
    "searching.md": """# Searching

In this chapter we will look at searching.

## What a span is

A *span* is a half-open range of a text, in code points.

## Filters

A filter has these operators:

- `$eq`, the value is equal
- `$gt`, the value is greater
- `$in`, the value is one of a list

Conditions combine with `$and`:

```json
{"$and": [{"year": 2024}, {"language": "en"}]}
```

## Rules of filters

Let's recap what we discussed about filters:

- Fields are written as they are stored.
- Values have the type of their field.

## Two indexes

Reindex builds the index anew from its vectors, while reembed makes new vectors with another model.

## Limits

A question has at most 500 characters because longer ones are rarely questions.
The limit was introduced in March 2023 by Grace Hopper.
""",
    "syncing.md": """# Keep a folder in sync

Run one command whenever the folder changes:

```console
$ tool ingest notes -c synced --delete-missing
```

The folder is compared with the collection by the names of its files.
What is in sync costs nothing, and a folder that is gone changes nothing.
""",
    "upgrading.md": """# Upgrade a server

1. Read the changelog.
2. Stop the server.
3. Install the new version.

A server that was upgraded checks its data when it starts.
""",
    "rfc-12.txt": """RFC: 12
Title: How tides are written
Author: Ada Lovelace
Status: Final
Created: 4 May 2019

Tides are written as pairs of a time and a height.
""",
    "rfc-0020.rst": """RFC: 20
Title: Winds
Author: Grace Hopper
Status: Draft

Abstract
~~~~~~~~

This document proposes a scale of winds with twelve degrees.

Reading a scale
~~~~~~~~~~~~~~~

Read a scale with its name::

    scale = read_scale("winds")
    scale.degrees

The degrees are whole numbers.
""",
    "remarks.md": "# Remarks\n\n"
    + "\n\n".join(f"## Remark {n}\n\nRFC 20 proposes too much, says remark {n}." for n in range(1, 13)),
    "formats.md": """# Formats

| Format | Names | Canonical text | Structure of the text |
|--------|-------|----------------|-----------------------|
| text | files that end with .txt, and what is text without a name | the bytes as they are decoded | none at all |
| markdown | files that end with .md or .markdown | the bytes as they are decoded | headings and blocks of code |
| html | files that end with .html, .htm or .xhtml | extracted from the page | headings, lists and rows of tables |
| pdf | files that end with .pdf | extracted page by page in the order of the file | pages, and headings of bookmarks |
| docx | files that end with .docx | extracted from the document | headings, lists, rows of tables and notes |
| csv | files that end with .csv or .tsv | extracted row by row, a line for each of the columns | each row is a record |
""",
    "modules.md": """# Modules

The tool consists of these modules:

- `reader`, which opens files
- `cutter`, which cuts texts
- `finder`, which searches

## Score

The score of a chunk is 0.7 times its similarity plus 0.3 times its importance.

## What happens when a disk is full

The call fails with DISK_FULL, and nothing of the document is kept.
""",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroundwireClient]:
    folder: Path = tmp_path_factory.mktemp("handbook")
    server = ServerProcess(folder / "data", ())
    try:
        with GroundwireClient(server.address) as connected:
            connected.create_collection(collection="handbook")
            for name, text in HANDBOOK.items():
                connected.ingest_document(collection="handbook", source_uri=name, text=text)
            yield connected
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("question", "answer", "quote"),
    [
        pytest.param(
            "What does exit code 2 mean?",
            "Exit code 2: the request or the command line is wrong [1] [2]",
            "| 2 | the *request* or the command line is wrong |",
            id="table row",
        ),
        pytest.param(
            "How do I back up the data?",
            "Stop the server and copy the data folder, or run the backup command while it serves. [1]",
            "Stop the server and copy the data folder, or run the [backup](backup.md) command while it serves.",
            id="how to",
        ),
        pytest.param(
            "Show me the command to delete a collection",
            "Delete a collection with its documents like this:\n$ tool collections delete NAME --force [1]",
            "Delete a collection with its documents like this:\n\n"
            "```console\n$ tool collections delete NAME --force\n```",
            id="code",
        ),
        pytest.param(
            "When does a session expire?",
            "A session expires after thirty minutes without a question. [1]",
            "A session **expires** after thirty minutes without a question.",
            id="when",
        ),
        pytest.param(
            "How often are expired sessions swept?",
            "Sessions that expired are swept every ten minutes. [1]",
            "Sessions that expired are swept every ten minutes.",
            id="how often",
        ),
        pytest.param(
            "What is a span?",
            "A span is a half-open range of a text, in code points. [1]",
            "A *span* is a half-open range of a text, in code points.",
            id="definition",
        ),
        pytest.param(
            "Which operators does a filter have?",
            "A filter has these operators:\n- $eq, the value is equal\n- $gt, the value is greater\n"
            "- $in, the value is one of a list [1]",
            "A filter has these operators:\n\n- `$eq`, the value is equal\n- `$gt`, the value is greater\n"
            "- `$in`, the value is one of a list",
            id="list",
        ),
        pytest.param(
            "Give me an example of a filter with several conditions",
            'Conditions combine with $and:\n{"$and": [{"year": 2024}, {"language": "en"}]} [1]',
            'Conditions combine with `$and`:\n\n```json\n{"$and": [{"year": 2024}, {"language": "en"}]}\n```',
            id="example",
        ),
        pytest.param(
            "What is the difference between reindex and reembed?",
            "Reindex builds the index anew from its vectors, while reembed makes new vectors with another model. [1]",
            "Reindex builds the index anew from its vectors, while reembed makes new vectors with another model.",
            id="comparison",
        ),
        pytest.param(
            "How many characters may a question have?",
            "A question has at most 500 characters because longer ones are rarely questions. [1]",
            "A question has at most 500 characters because longer ones are rarely questions.",
            id="how many",
        ),
        pytest.param(
            "Who introduced the limit?",
            "The limit was introduced in March 2023 by Grace Hopper. [1]",
            "The limit was introduced in March 2023 by Grace Hopper.",
            id="who",
        ),
        pytest.param(
            "Which modules does the tool consist of?",
            "The tool consists of these modules:\n- reader, which opens files\n- cutter, which cuts texts\n"
            "- finder, which searches [1]",
            "The tool consists of these modules:\n\n- `reader`, which opens files\n- `cutter`, which cuts texts\n"
            "- `finder`, which searches",
            id="list of modules",
        ),
        pytest.param(
            "How is the score of a chunk computed?",
            "The score of a chunk is 0.7 times its similarity plus 0.3 times its importance. [1]",
            "The score of a chunk is 0.7 times its similarity plus 0.3 times its importance.",
            id="formula",
        ),
        pytest.param(
            "What are the rules of filters?",
            "Let's recap what we discussed about filters:\n- Fields are written as they are stored.\n"
            "- Values have the type of their field. [1]",
            "Let's recap what we discussed about filters:\n\n- Fields are written as they are stored.\n"
            "- Values have the type of their field.",
            id="rules",
        ),
        pytest.param(
            "How do I keep a folder in sync?",
            "Run one command whenever the folder changes:\n$ tool ingest notes -c synced --delete-missing [1]",
            "Run one command whenever the folder changes:\n\n"
            "```console\n$ tool ingest notes -c synced --delete-missing\n```",
            id="how to, in code",
        ),
        pytest.param(
            "How do I upgrade a server?",
            "1. Read the changelog.\n2. Stop the server.\n3. Install the new version. [1]",
            "1. Read the changelog.\n2. Stop the server.\n3. Install the new version.",
            id="steps",
        ),
        pytest.param(
            "Who is the author of RFC 12?", "Author: Ada Lovelace [1]", "Author: Ada Lovelace", id="field, who"
        ),
        pytest.param("When was RFC 12 created?", "Created: 4 May 2019 [1]", "Created: 4 May 2019", id="field, when"),
        pytest.param("What is the status of RFC 12?", "Status: Final [1]", "Status: Final", id="field, of two words"),
        pytest.param(
            "What does the verify command do?",
            "The tool has a command called verify. It compares quotes with the texts that are stored. [1]",
            "The tool has a command called verify. It compares quotes with the texts that are stored.",
            id="a short sentence and the one that leans on it",
        ),
        pytest.param("Who wrote RFC 12?", "Author: Ada Lovelace [1]", "Author: Ada Lovelace", id="field, who wrote"),
        pytest.param(
            "What does RFC 20 propose?",
            "This document proposes a scale of winds with twelve degrees. [1]",
            "This document proposes a scale of winds with twelve degrees.",
            id="a document by its number",
        ),
        pytest.param(
            "Show me the code to read a scale of RFC 20",
            'Read a scale with its name:\nscale = read_scale("winds")\nscale.degrees [1]',
            'Read a scale with its name::\n\n    scale = read_scale("winds")\n    scale.degrees',
            id="code below two colons",
        ),
        pytest.param(
            "What happens when a disk is full?",
            "The call fails with DISK_FULL, and nothing of the document is kept. [1]",
            "The call fails with DISK_FULL, and nothing of the document is kept.",
            id="what happens when",
        ),
        pytest.param(
            "How do I turn on TLS?",
            "Give the server a certificate, and it encrypts what it sends. [1]",
            "Give the server a certificate, and it encrypts what it sends.",
            id="a section called what is asked, how to",
        ),
        pytest.param(
            "What metrics does the server export?",
            "The endpoint shows how many calls are under way, and how long they took. [1]",
            "The endpoint shows how many calls are under way, and how long they took.",
            id="a section called what is asked, which",
        ),
    ],
)
def test_a_question_is_answered_by_what_a_person_would_have_picked(
    client: GroundwireClient, question: str, answer: str, quote: str
) -> None:
    given = client.ask(collection="handbook", question=question).answer
    assert given.content.startswith(answer)
    assert given.citations[0].quote == quote
    assert not any(claim.opposing for claim in given.claims), "nothing in the handbook contradicts the rest"
    assert client.verify_citations(citations=given.citations).all_verified


@pytest.mark.parametrize(
    "question", ["What is a span?", "How do I restore a backup?", "What happens when a disk is full?"]
)
def test_one_good_sentence_is_the_whole_answer(client: GroundwireClient, question: str) -> None:
    answer = client.ask(collection="handbook", question=question).answer
    assert answer.grounded
    assert len(answer.citations) == 1


def test_a_table_that_chunks_cut_apart_answers_with_its_first_column(client: GroundwireClient) -> None:
    answer = client.ask(collection="handbook", question="Which formats are there?").answer
    assert answer.content.startswith("Format: text, markdown, html, pdf, docx, csv. [1] [2]")
    first, second = answer.citations[:2]
    assert first.chunk_id != second.chunk_id
    assert first.quote.startswith("| Format | Names |")
    assert second.quote.splitlines()[-1].startswith("| csv |")
    assert client.verify_citations(citations=answer.citations).all_verified


@pytest.mark.parametrize(
    "question", ["Who won the world cup in 2018?", "How do I bake bread?", "What is the capital of Norway?"]
)
def test_a_foreign_question_is_refused(client: GroundwireClient, question: str) -> None:
    answer = client.ask(collection="handbook", question=question).answer
    assert not answer.grounded
    assert any(name in answer.content for name in HANDBOOK)


def test_an_example_is_given_of_what_was_asked_before(client: GroundwireClient) -> None:
    session = client.create_session(collection="handbook").session.session_id
    asked = [
        client.ask(session_id=session, question=question, message_id=str(uuid.uuid4())).answer
        for question in ("How do conditions of a filter combine?", "Can you give an example?")
    ]
    assert asked[1].content == ('Conditions combine with $and:\n{"$and": [{"year": 2024}, {"language": "en"}]} [1]')


def test_a_question_is_understood_by_what_was_asked_before(client: GroundwireClient) -> None:
    question = "And what does the comparison go by?"
    assert not client.ask(collection="handbook", question=question).answer.grounded
    session = client.create_session(collection="handbook").session.session_id
    client.ask(session_id=session, question="How do I keep a folder in sync?", message_id=str(uuid.uuid4()))
    answer = client.ask(session_id=session, question=question, message_id=str(uuid.uuid4())).answer
    assert "compared with the collection by the names of its files. [1]" in answer.content


def test_what_somebody_said_of_themselves_is_noted_and_answers_what_they_ask(client: GroundwireClient) -> None:
    session = client.create_session(collection="handbook", new_conversation=True, user_id="ann").session.session_id

    def ask(question: str) -> answer_pb2.Answer:
        deadline = time.monotonic() + 60
        while client.get_session(session_id=session).session.unrecorded_exchange_count:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return client.ask(session_id=session, question=question, message_id=str(uuid.uuid4())).answer

    told = ask("My cat is called Tom.")
    assert (told.content, told.refusal_reason) == ("Noted.", answer_pb2.REFUSAL_REASON_NO_QUESTION)
    for wish in ("what do I need for my visa", "Show me my invoices.", "I like Rome. List my flights there."):
        assert ask(wish).refusal_reason == answer_pb2.REFUSAL_REASON_WEAK_SUPPORT
    assert not ask("What are my invoices?").grounded
    for other in (
        "I live in Oslo.",
        "I work with clocks.",
        "My flight leaves on Friday.",
        "Hello!",
        "Thank you so much",
    ):
        assert ask(other).content == "Noted."
    assert ask("What is my cat called?").content == "My cat is called Tom. [1]"
    assert ask("Where do I live?").content == "I live in Oslo. [1]"
    assert not ask("Where does my sister live?").grounded


def test_a_document_is_summarised_from_section_to_section(client: GroundwireClient) -> None:
    answer = client.ask(collection="handbook", question="Summarise operating.md").answer
    assert {citation.source_uri for citation in answer.citations} == {"operating.md"}
    assert len(answer.citations) > 1
    starts = [citation.span.start for citation in answer.citations]
    assert starts == sorted(starts)
    assert len({citation.section_heading for citation in answer.citations}) == len(answer.citations)
    assert client.verify_citations(citations=answer.citations).all_verified


def test_what_this_document_is_about_needs_one_document(client: GroundwireClient) -> None:
    question = "What is this document about?"
    assert not client.ask(collection="handbook", question=question).answer.grounded
    chosen = client.collection("handbook").ask(question, filter={"source_uri": "modules.md"})
    assert chosen.text.startswith("The score of a chunk is 0.7 times")
    assert {citation.source for citation in chosen.citations} == {"modules.md"}


def test_the_head_of_a_document_that_a_question_names_is_read_however_much_the_rest_is_like_the_question(
    client: GroundwireClient,
) -> None:
    client.create_collection(collection="long")
    head = "RFC: 7\nTitle: A Register of Winds\nAuthor: Ada Lovelace\nStatus: Final\nCreated: 4 May 2019\n"
    rest = "\n\n".join(
        f"## RFC 7, case {n}\n\nThe editors of RFC 7 asked when the wind of case {n} was seen and who wrote that down."
        for n in range(1, 40)
    )
    client.ingest_document(collection="long", source_uri="rfc-0007.md", text=f"{head}\n{rest}\n")
    answer = client.ask(collection="long", question="When was RFC 7 created?").answer
    assert answer.content == "Created: 4 May 2019 [1]"
    assert client.ask(collection="long", question="Who wrote RFC 7?").answer.content == "Author: Ada Lovelace [1]"


def test_what_is_said_of_a_setting_is_not_said_of_another(client: GroundwireClient) -> None:
    client.create_collection(collection="settings")
    rest = "<p>If a line is busy, a caller hears a tone and tries again some minutes later, as most do.</p>" * 3
    page = (
        "<h1>Settings</h1><dl>"
        "<dt>max_lines (integer)<dd><p>The number of lines that may be open at once.</p>"
        f"<p>The default is twelve lines.</p>{rest}"
        "<dt>reserved_lines (integer)<dd><p>The number of lines kept for operators, less than max_lines.</p>"
        f"<p>The default is two lines.</p>{rest}</dl>"
    )
    client.ingest_document(collection="settings", source_uri="settings.html", content=page.encode())
    for name, default in (("max_lines", "twelve"), ("reserved_lines", "two")):
        answer = client.ask(collection="settings", question=f"What is the default of {name}?").answer
        assert answer.content.startswith(f"{name} (integer): The default is {default} lines.")
        assert [citation.quote for citation in answer.citations[:2]] == [
            f"The default is {default} lines.",
            f"{name} (integer)",
        ]
        assert client.verify_citations(citations=answer.citations).all_verified


def test_the_newer_of_two_documents_that_disagree_is_quoted(client: GroundwireClient) -> None:
    client.create_collection(collection="policies")
    for name, date, days in (("old.md", "2021-04-01", 20), ("new.md", "2024-04-01", 25), ("undated.md", "", 30)):
        head = f"---\ndate_created: {date}\n---\n" if date else ""
        text = f"{head}# Leave {name}\n\nEvery employee has {days} days of leave each year.\n"
        client.ingest_document(collection="policies", source_uri=name, text=text)
    answer = client.ask(collection="policies", question="How many days of leave does an employee have?").answer
    assert "25 days" in answer.content
    assert "20 days" not in answer.content


@pytest.mark.parametrize(
    ("question", "part"),
    [
        pytest.param("backup", "Stop the server and copy the data folder", id="one word"),
        pytest.param("WHEN DOES A SESSION EXPIRE?", "after thirty minutes", id="capitals"),
        pytest.param("When does a sesion expire?", "after thirty minutes", id="typos"),
        pytest.param(
            "What does exit code 2 mean and when does a session expire?", "after thirty minutes", id="two, second"
        ),
        pytest.param("What does exit code 2 mean and when does a session expire?", "Exit code 2", id="two, first"),
        pytest.param("what is `tool collections delete NAME --force` for", "tool collections delete", id="code"),
        pytest.param("Wann läuft eine session ab?", "", id="another language"),
        pytest.param("Session " * 62, "", id="one word again and again"),
    ],
)
def test_odd_questions_are_answered_or_refused(client: GroundwireClient, question: str, part: str) -> None:
    answer = client.ask(collection="handbook", question=question).answer
    assert part in answer.content
    assert client.verify_citations(citations=answer.citations).all_verified

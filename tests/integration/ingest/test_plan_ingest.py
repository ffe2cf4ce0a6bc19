"""Plans: they tell exactly what the ingest then does, and leave no trace."""

import random
import time
from collections import Counter
from typing import Any

import pytest

from groundwire.api.common.v1 import document_format_pb2, document_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.collections import Collections
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    DuplicateDocumentError,
    InvalidRequestError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.ingest.harness import Harness
from tests.stubs import by_id

WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read

BEFORE = "## One\n\n{0}\n\n## Two\n\n{1}\n"


def paragraph(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(20, 200))).capitalize() + "."


def edited(chance: random.Random, sections: list[list[str]]) -> list[list[str]]:
    """Return sections, each a heading and paragraphs, after a few edits of the kinds that people make."""
    sections = [list(section) for section in sections]
    for _ in range(chance.randint(0, 3)):
        section = chance.choice(sections)
        edit = chance.randrange(7)
        if edit == 0:
            section.insert(chance.randint(1, len(section)), paragraph(chance))
        elif edit == 1 and len(section) > 1:
            del section[chance.randrange(1, len(section))]
        elif edit == 2 and len(section) > 1:
            section[chance.randrange(1, len(section))] = paragraph(chance)
        elif edit == 3:
            section[0] = f"## {chance.choice(WORDS)} {chance.randrange(100)}"
        elif edit == 4:
            chance.shuffle(sections)
        elif edit == 5:
            section.append(chance.choice([*section[1:], "A sentence that comes again."]))
        else:
            sections.append([f"## {chance.choice(WORDS)}", paragraph(chance)])
    return sections


def text_of(sections: list[list[str]]) -> str:
    return "# Book\n\n" + "\n\n".join("\n\n".join(section) for section in sections) + "\n"


def plan(harness: Harness, collection: str, source: str, text: str, **fields: Any) -> pb.PlanIngestResponse:
    request = pb.PlanIngestRequest(collection=collection, source_uri=source, text=text, **fields)
    return harness.calls.plan_ingest(request)


def contents(harness: Harness, collection: str, document_id: str) -> Counter[str]:
    if not document_id:
        return Counter()
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(document_id), page_size=1000)
    return Counter(chunk.content_hash for chunk in harness.library.list_chunks(request).chunks)


@pytest.mark.requirement("C06")
@pytest.mark.parametrize("seed", range(8))
def test_the_plan_equals_the_effect(harness: Harness, collection: str, seed: int) -> None:
    chance = random.Random(seed)
    sections = [[f"## {word}", *(paragraph(chance) for _ in range(chance.randint(1, 5)))] for word in WORDS[:5]]
    for _ in range(6):
        text = text_of(sections)
        before = harness.live_numbers(collection), len(harness.embedder.texts)
        planned = plan(harness, collection, "book.md", text)
        old = contents(harness, collection, planned.current.document_id)
        assert (harness.live_numbers(collection), len(harness.embedder.texts)) == before
        done = harness.ingest(collection, "book.md", text)
        new = contents(harness, collection, done.document.document_id)
        assert planned.outcome == done.outcome
        # A text that comes back is new to the collection again, although its vector may still be known.
        assert planned.embedded_count == done.counts.embedded_count >= len(harness.embedder.texts) - before[1]
        assert planned.added_count == (new - old).total()
        assert planned.kept_count == (new & old).total()
        assert planned.removed_count == (old - new).total()
        assert planned.warnings == done.warnings or planned.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
        listed = [chunk.content_hash for chunk in planned.chunks if chunk.change != pb.PLANNED_CHANGE_REMOVED]
        assert Counter(listed) == new
        for chunk in planned.chunks:
            if chunk.change != pb.PLANNED_CHANGE_REMOVED:
                assert text[chunk.span.start : chunk.span.end].encode()
        sections = edited(chance, sections)


def test_tokens_are_those_that_the_model_reads(harness: Harness, collection: str) -> None:
    text = "# Tides\n\n" + "\n\n".join(f"Sentence {number} of the only section." for number in range(40))
    planned = plan(harness, collection, "a.md", text)
    harness.ingest(collection, "a.md", text)
    count = harness.embedder.tokenizer.count
    assert planned.embedded_token_count == sum(count(each) for each in harness.embedder.texts) > 0
    longer = text + "\n\n# Moon\n\nA sentence of a new section."
    planned = plan(harness, collection, "a.md", longer)
    harness.embedder.texts.clear()
    harness.ingest(collection, "a.md", longer)
    assert planned.embedded_token_count == sum(count(each) for each in harness.embedder.texts) > 0


def test_a_plan_leaves_nothing(harness: Harness, collection: str) -> None:
    collections = Collections(harness.catalog)
    before = collections.position(DEFAULT_TENANT, collection)
    for _ in range(2):
        planned = plan(harness, collection, "a.md", "# One\n\nText of a new document.\n")
        assert planned.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
        assert (planned.added_count, planned.kept_count, planned.removed_count) == (1, 0, 0)
        assert not planned.HasField("current")
    assert harness.sources(collection) == []
    assert harness.points(collection) == []
    assert collections.position(DEFAULT_TENANT, collection) == before


def test_other_fields_and_other_rules_are_planned(harness: Harness, collection: str) -> None:
    text = "# One\n\n" + "\n\n".join(f"Paragraph {number} {' '.join(WORDS * 5)}." for number in range(20))
    harness.ingest(collection, "a.md", text)
    same = plan(harness, collection, "a.md", text)
    assert (same.outcome, same.embedded_count) == (ingest_result_pb2.INGEST_OUTCOME_UNCHANGED, 0)
    assert same.kept_count == same.current.chunk_count == len(same.chunks)
    titled = plan(harness, collection, "a.md", text, fields=document_pb2.DocumentFields(title="New"))
    assert (titled.outcome, titled.embedded_count) == (ingest_result_pb2.INGEST_OUTCOME_REPLACED, 0)
    assert (titled.added_count, titled.removed_count) == (0, 0)
    request = pb.PlanIngestRequest(collection=collection, source_uri="a.md", text=text)
    request.chunking.target_size = 120
    smaller = harness.calls.plan_ingest(request)
    assert smaller.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert smaller.added_count > same.kept_count


def test_the_same_bytes_elsewhere_are_planned_as_an_alias(harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "a.md", "# One\n\nThe same text.\n").document
    kept = plan(harness, collection, "b.md", "# One\n\nThe same text.\n")
    assert (kept.outcome, kept.embedded_count) == (ingest_result_pb2.INGEST_OUTCOME_CREATED, 0)
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    planned = plan(harness, collection, "b.md", "# One\n\nThe same text.\n", duplicate_policy=reuse)
    assert (planned.outcome, planned.current) == (ingest_result_pb2.INGEST_OUTCOME_REUSED, document)
    title = document_pb2.DocumentFields(title="Mine")
    named = plan(harness, collection, "b.md", "# One\n\nThe same text.\n", duplicate_policy=reuse, fields=title)
    assert [(each.kind, "fields" in each.message) for each in named.warnings] == [
        (ingest_result_pb2.INGEST_WARNING_KIND_FIELD_IGNORED, True)
    ]
    with pytest.raises(DuplicateDocumentError):
        plan(
            harness,
            collection,
            "b.md",
            "# One\n\nThe same text.\n",
            duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REJECT,
        )
    assert (
        harness.ingest(collection, "b.md", "# One\n\nOther text.\n").outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    )


def test_what_an_ingest_refuses_its_plan_refuses(harness: Harness, collection: str) -> None:
    with pytest.raises(EmptyDocumentError):
        plan(harness, collection, "a.md", "  \n")
    with pytest.raises(CollectionNotFoundError):
        plan(harness, "no-such", "a.md", "Text.")
    bad = [
        (pb.PlanIngestRequest(collection=collection, source_uri="a.md"), "body"),
        (pb.PlanIngestRequest(collection=collection, source_uri="../a.md", text="Text."), "source_uri"),
        (pb.PlanIngestRequest(collection=collection, source_uri="a.md", text="\ufeffText."), "text"),
        (pb.PlanIngestRequest(collection=collection, source_uri="a.md", text="T.", format=99), "format"),  # type: ignore[arg-type]  # a client of another version
    ]
    for request, field in bad:
        with pytest.raises(InvalidRequestError) as caught:
            harness.calls.plan_ingest(request)
        assert caught.value.violations[0].field == field


def test_a_plan_names_a_thousand_chunks_and_counts_all(harness: Harness, collection: str) -> None:
    text = "\n\n".join(f"## Part {number}\n\n{' '.join(WORDS * 12)} {number}." for number in range(1100))
    planned = plan(
        harness, collection, "a.md", "# Book\n\n" + text, format=document_format_pb2.DOCUMENT_FORMAT_MARKDOWN
    )
    assert planned.added_count > 1000
    assert len(planned.chunks) == 1000


@pytest.mark.parametrize(
    ("after", "embedded"),
    [
        ("## One\n\n{0}\n\n## Three\n\n{1}\n", 1),
        ("## Two\n\n{1}\n\n## One\n\n{0}\n", 0),
        ("## One\n\n{0}\n\n## Two\n\n{1}\n\n## One\n\n{0}\n", 0),
        ("## One\n\n{0}\n\n## Two\n\n{2}\n", 1),
        ("## One\n\n{0}\n", 0),
    ],
    ids=["another heading", "moved sections", "a section twice", "another paragraph", "a section less"],
)
def test_only_what_changed_is_embedded(harness: Harness, collection: str, after: str, embedded: int) -> None:
    chance = random.Random(collection)  # the collections of this module share a cache of vectors
    bodies = [" ".join(chance.choices(WORDS, k=300)) + "." for _ in range(4)]
    start = "# A\n\n{3}\n\n"
    harness.ingest(collection, "a.md", (start + BEFORE).format(*bodies))
    done = harness.ingest(collection, "a.md", (start + after).format(*bodies))
    assert done.counts.embedded_count == embedded
    assert done.counts.embedded_count + done.counts.reused_embedding_count == done.counts.chunk_count
    assert len(harness.embedder.texts) == len(set(harness.embedder.texts)) == 3 + embedded


def test_neither_plan_nor_ingest_tells_what_other_collections_hold(harness: Harness, collection: str) -> None:
    text = "# Secret\n\nThe merger is announced on Friday.\n"
    harness.create(f"{collection}-other")
    harness.ingest(f"{collection}-other", "secret.md", text)
    began = time.time()
    harness.embedder.texts.clear()
    guessed = plan(harness, collection, "guess.md", text)
    wrong = plan(harness, collection, "guess.md", text.replace("Friday", "Sunday"))
    assert (guessed.embedded_count, guessed.embedded_token_count) == (1, wrong.embedded_token_count)
    done = harness.ingest(collection, "guess.md", text)
    assert harness.embedder.texts == []  # its vector was known all the same
    assert (done.counts.embedded_count, done.counts.reused_embedding_count) == (1, 0)
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(done.document.document_id))
    (chunk,) = harness.library.list_chunks(request).chunks
    assert chunk.embed_time.ToMilliseconds() / 1000 >= began - 0.01


def test_ids_that_are_taken_elsewhere_are_refused_without_saying_where(harness: Harness, collection: str) -> None:
    harness.create(f"{collection}-other")
    id_ = f"id-{collection}"
    harness.ingest(f"{collection}-other", "a.md", "# One\n\nText.\n", document_id=id_)
    with pytest.raises(AlreadyExistsError) as caught:
        harness.ingest(collection, "b.md", "# Two\n\nOther text.\n", document_id=id_)
    assert caught.value.message == f"the id {id_!r} is taken"

"""Chunks: exact slices, whole coverage, sizes, chapters, overlap."""

import random
import textwrap
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.embedders.hashing import HashingEmbedder
from groundwire.ingest.chunking.cuts import is_cluster_boundary
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.ingest.parsing.parsed_document import ParsedDocument, ParseRules
from groundwire.ingest.parsing.parser_worker import parse_document
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.parsing.text_encoding import canonical_text
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import PROFILES, ChunkingPolicy, ChunkUnit, ProfileName
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.embedder import Tokenizer

SMALL = ChunkingPolicy(ChunkUnit.TOKENS, target=12, minimum=6, maximum=24, overlap_ratio=0.15, min_chars=3)
CHARS = ChunkingPolicy(ChunkUnit.CHARS, target=40, minimum=10, maximum=80, overlap_ratio=0.1, min_chars=3)
BITS = ["word", "tide", " ", " ", "\n", "\r\n", "\n\n", "# Moon\n", "## Sea\n", "\n### Foam\n", "```\n", "- "]
BITS += [
    "e\u0301",
    "é",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "漢字。",
    "\u200b",
    "\t",
    ". ",
    "    code\n",
    "\u0301",
    "---\n",
    "x" * 60,
]


LENGTHS = (11, 27, 18, 34, 9, 22, 15, 30) * 5
ITEMS = range(14)


@lru_cache
def tokenizer() -> Tokenizer:
    return HashingEmbedder(8).tokenizer


def parse(
    text: str,
    policy: ChunkingPolicy = SMALL,
    document_format: DocumentFormat = DocumentFormat.MARKDOWN,
    title: str | None = None,
) -> list[Chunk]:
    return list(parse_whole(text, policy, document_format, title).chunks)


def parse_whole(
    text: str, policy: ChunkingPolicy, document_format: DocumentFormat, title: str | None = None
) -> ParsedDocument:
    rules = ParseRules(document_format, policy, title, "file.md", "content")
    return parse_document(text.encode(), rules, ReadingLimits(), tokenizer())


def contents(text: str, chunks: list[Chunk]) -> list[str]:
    return [text[chunk.span.start : chunk.span.end] for chunk in chunks]


def prose(words: int, seed: int = 1) -> str:
    chance = random.Random(seed)
    return " ".join(
        "".join(chance.choices("abcdefgh", k=chance.randint(2, 9))) + ("." if chance.random() < 0.1 else "")
        for _ in range(words)
    )


@pytest.mark.requirement("S4-21")
@pytest.mark.requirement("S1-53")
@pytest.mark.requirement("S1-73")
@given(
    st.lists(st.sampled_from(BITS), min_size=1, max_size=120).map("".join).filter(str.strip),
    st.sampled_from([SMALL, CHARS]),
    st.sampled_from([DocumentFormat.MARKDOWN, DocumentFormat.TEXT]),
)
def test_chunks_are_exact_slices_and_miss_nothing(
    text: str, policy: ChunkingPolicy, document_format: DocumentFormat
) -> None:
    try:
        chunks = parse(text, policy, document_format)
    except EmptyDocumentError:
        assert text.startswith("---")
        return
    data = text.encode()
    covered: set[int] = set()
    for chunk in chunks:
        span = chunk.span
        content = text[span.start : span.end]
        assert content == data[span.start_byte : span.end_byte].decode()
        assert content.strip()
        assert content == content.rstrip()
        assert chunk.token_count == tokenizer().count(content)
        covered.update(range(span.start, span.end))
        assert is_cluster_boundary(text, span.start) or span.start == 0
        size = chunk.token_count if policy.unit is ChunkUnit.TOKENS else len(content)
        assert size <= policy.maximum
    missed = "".join(text[index] for index in range(len(text)) if index not in covered)
    assert not missed.strip() or missed.lstrip().startswith("---")  # front matter
    for before, after in pairwise(chunks):
        assert before.span.start < after.span.start
        assert before.span.end < after.span.end
        assert before.overlap_next_chars == after.overlap_prev_chars == max(0, before.span.end - after.span.start)
        assert after.overlap_prev_chars < (before.span.end - before.span.start) / 2 + 1
    assert chunks[0].overlap_prev_chars == chunks[-1].overlap_next_chars == 0


@pytest.mark.requirement("S4-24")
@pytest.mark.requirement("C05")
def test_all_chunks_of_long_prose_are_in_range() -> None:
    policy = PROFILES[ProfileName.BOOK].chunking
    text = "\n\n".join(prose(90, seed) for seed in range(60))
    chunks = parse(text, policy, DocumentFormat.TEXT)
    assert len(chunks) > 5
    assert all(policy.minimum <= chunk.token_count <= policy.maximum for chunk in chunks)
    assert not any(chunk.undersized for chunk in chunks)


@pytest.mark.requirement("S1-112")
@pytest.mark.requirement("S1-52")
@pytest.mark.parametrize("line_words", [10, 400])
def test_neighbours_share_ten_to_twenty_percent(line_words: int) -> None:
    text = "\n".join(prose(line_words, seed) for seed in range(4000 // line_words))
    chunks = parse(text, PROFILES[ProfileName.DOCUMENTS].chunking, DocumentFormat.TEXT)
    assert len(chunks) > 5
    for chunk in chunks[1:]:
        share = chunk.overlap_prev_chars / (chunk.span.end - chunk.span.start)
        assert 0.10 <= share <= 0.20
        text_before = text[: chunk.span.start]
        assert text_before[-1].isspace()  # begins with a whole word


@pytest.mark.parametrize("word", ["tide", "Moon", "`tide`", "(tide)"])
@pytest.mark.parametrize("separator", ["\n", " \n  "])
def test_a_sentence_over_several_lines_stays_whole(word: str, separator: str) -> None:
    sentences = ["Each of them holds" + f" {word}" * length + "." for length in LENGTHS]
    text = separator.join(line for sentence in sentences for line in textwrap.wrap(sentence, 80))
    chunks = contents(text, parse(text, PROFILES[ProfileName.GENERAL].chunking, DocumentFormat.TEXT))
    assert len(chunks) > 5
    assert [each for each in chunks if not (each.lstrip().startswith("Each of") and each.endswith("."))] == []


def test_what_is_repeated_begins_with_a_sentence() -> None:
    chance = random.Random(1)
    sentences = [f"Each of them holds{' tide' * chance.randint(8, 16)}." for _ in range(300)]
    text = "\n".join(line for sentence in sentences for line in textwrap.wrap(sentence, 40))
    chunks = parse(text, PROFILES[ProfileName.DOCUMENTS].chunking, DocumentFormat.TEXT)
    assert [chunk.overlap_prev_chars > 0 for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert len(chunks) > 3
    assert {content[:7] for content in contents(text, chunks)} == {"Each of"}


def test_a_text_without_spaces_is_cut_behind_sentences() -> None:
    text = "".join("月亮使海水上升" * length + "。" for length in (9, 12, 8, 14, 10, 11) * 20)
    chunks = contents(text, parse(text, PROFILES[ProfileName.GENERAL].chunking, DocumentFormat.TEXT))
    assert len(chunks) > 3
    assert [chunk for chunk in chunks if not chunk.endswith("。")] == []


def test_lines_that_are_items_may_be_parted() -> None:
    lines = [f"Item {number} of the list, which ends without a full stop and is as long as others" for number in ITEMS]
    text = "\n- ".join(["The list:", *lines])
    chunks = contents(text, parse(text, PROFILES[ProfileName.GENERAL].chunking))
    assert len(chunks) > 1
    assert [chunk[:6] for chunk in chunks] == ["The li", *["- Item"] * (len(chunks) - 1)]


def test_a_chunk_does_not_reach_over_a_chapter() -> None:
    text = "# One\n\nShort.\n\n# Two\n\nAlso short.\n"
    chunks = parse(text)
    assert contents(text, chunks) == ["# One\n\nShort.", "# Two\n\nAlso short."]
    assert [chunk.chapter for chunk in chunks] == ["One", "Two"]
    assert all(chunk.undersized for chunk in chunks[:1])


@pytest.mark.requirement("C05")
def test_small_sections_of_a_chapter_are_joined() -> None:
    text = "# One\n\n## A\n\nFirst words.\n\n## B\n\nTwo.\n"
    (chunk,) = parse(text)
    assert (chunk.section, chunk.hierarchy_path, chunk.undersized) == ("A", ("One", "A"), False)


def test_the_title_of_the_front_matter_stands_above_headings_unless_the_text_has_one() -> None:
    titled, lower = "---\ntitle: Owls\n---\n\n", f"### Use\n\n{prose(7)}\n"
    (chunk,) = parse(titled + lower)
    assert (chunk.hierarchy_path, chunk.chapter, chunk.section_title) == (("Owls", "Use"), "Use", "Use")
    assert chunk.embedding_text.startswith("Owls\nUse\n\n### Use")
    (chunk,) = parse(f"{titled}# Birds\n\n{lower}")
    assert chunk.hierarchy_path == ("Birds", "Use")
    (chunk,) = parse(lower)
    assert chunk.hierarchy_path == ("Use",)
    (chunk,) = parse(f"{titled}{prose(7)}\n")
    assert (chunk.hierarchy_path, chunk.section_title, chunk.level) == (("Owls",), "Owls", 1)


def test_sections_that_are_long_enough_stay_apart() -> None:
    text = f"# One\n\n## A\n\n{prose(7)}\n\n## B\n\n{prose(7, 2)}\n"
    chunks = parse(text)
    assert [chunk.section for chunk in chunks] == ["A", "B"]
    assert contents(text, chunks)[1].startswith("## B\n\n")


def test_sections_do_not_overlap() -> None:
    text = f"# One\n\n## A\n\n{prose(40)}\n\n## B\n\n{prose(40, 2)}\n"
    chunks = parse(text)
    first_of_b = next(chunk for chunk in chunks if chunk.section == "B")
    assert first_of_b.overlap_prev_chars == 0
    assert any(chunk.overlap_prev_chars for chunk in chunks)


def test_a_document_of_headings_only_is_ingested() -> None:
    text = "# One\n\n## Two\n\n### Three\n"
    (chunk,) = parse(text)
    assert contents(text, [chunk]) == ["# One\n\n## Two\n\n### Three"]
    assert chunk.chapter == "One"


@pytest.mark.requirement("C26")
def test_the_chapter_falls_back_to_first_heading_title_and_file_name() -> None:
    assert parse("Preamble.\n\n## First\n\nText.\n")[0].chapter == "First"
    assert parse("No heading.", title="Given")[0].chapter == "Given"
    assert parse("No heading.")[0].chapter == "file.md"


def test_front_matter_is_not_chunked() -> None:
    text = "---\ntitle: Tides\n---\n# One\n\nText.\n"
    (chunk,) = parse(text)
    assert contents(text, [chunk]) == ["# One\n\nText."]


def test_front_matter_alone_is_no_document() -> None:
    with pytest.raises(EmptyDocumentError):
        parse("---\ntitle: Tides\n---\n\n")


def test_indentation_at_the_start_of_a_chunk_stays() -> None:
    text = "\n\n    indented = code\n"
    assert contents(text, parse(text)) == ["    indented = code"]


def test_a_huge_line_is_cut_in_linear_time() -> None:
    text = "a" * 200_000 + "e\u0301" * 50_000
    chunks = parse(text, PROFILES[ProfileName.DOCUMENTS].chunking, DocumentFormat.TEXT)
    assert max(chunk.span.end - chunk.span.start for chunk in chunks) <= 1024 * 8
    assert all(is_cluster_boundary(text, chunk.span.start) for chunk in chunks)


@pytest.mark.parametrize("max_chars", [1, 7, 400])
@pytest.mark.parametrize("document_format", [DocumentFormat.MARKDOWN, DocumentFormat.TEXT])
@given(text=st.lists(st.sampled_from(BITS), max_size=60).map("".join))
def test_pieces_join_to_the_text(max_chars: int, document_format: DocumentFormat, text: str) -> None:
    pieces = Splitter(tokenizer(), document_format).split(text, max_chars)
    assert "".join(pieces) == text


def test_blocks_of_a_long_text_join_to_it() -> None:
    text = canonical_text(("\n".join(prose(200, seed) for seed in range(40)) + "x" * 30_000).encode())
    pieces = Splitter(tokenizer(), DocumentFormat.TEXT).split(text, 100)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 100

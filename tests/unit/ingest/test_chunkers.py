"""The chunkers: what all of them promise, and what each one is for."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwire.ingest.chunking.cuts import is_cluster_boundary
from groundwire.ingest.ingesting import ChunkingOverrides
from groundwire.ingest.parsing import parser_worker
from groundwire.ingest.parsing.html_reader import read_html
from groundwire.ingest.parsing.parsed_document import ParsedDocument, parsed_from_message, parsed_to_message
from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk
from groundwire.kernel.collection import (
    MAX_CHUNK_SIZES,
    PROFILES,
    ChunkerKind,
    ChunkingPolicy,
    ChunkUnit,
    ProfileName,
)
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentLimitError, EmptyDocumentError
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.spans import PageSpan
from tests.growth import LINEAR, growth
from tests.unit.ingest.test_chunking import BITS, parse_whole, prose, tokenizer

TOKENS = ChunkingPolicy(ChunkUnit.TOKENS, target=12, minimum=6, maximum=24, overlap_ratio=0.15, min_chars=3)
CHARS = ChunkingPolicy(ChunkUnit.CHARS, target=40, minimum=10, maximum=80, overlap_ratio=0.1, min_chars=3)
TEXTS = st.lists(st.sampled_from([*BITS, "One. ", "Two? ", "e.g. ", "3.5 ", "| a | b |\n"]), min_size=1, max_size=120)
POLICIES = [
    *(replace(policy, chunker=kind) for policy in (TOKENS, CHARS) for kind in ChunkerKind),
    replace(TOKENS, chunker=ChunkerKind.FIXED, overlap_ratio=0.4999),
    replace(TOKENS, chunker=ChunkerKind.FIXED, target=1, minimum=1, overlap_ratio=0.0),
    replace(CHARS, chunker=ChunkerKind.FIXED, target=80, overlap_ratio=0.0),
]


def parse(
    text: str, policy: ChunkingPolicy, document_format: DocumentFormat = DocumentFormat.MARKDOWN
) -> ParsedDocument:
    return parse_whole(text, policy, document_format)


def contents(parsed: ParsedDocument) -> list[str]:
    return [parsed.text[chunk.span.start : chunk.span.end] for chunk in parsed.chunks if not chunk.upper]


def fixed(unit: ChunkUnit, target: int, overlap: int) -> ChunkingPolicy:
    return ChunkingPolicy(unit, target, min(100, target), target, overlap / target, 1, ChunkerKind.FIXED)


@pytest.mark.requirement("S1-54")
@pytest.mark.requirement("S1-53")
@pytest.mark.requirement("S4-21")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.chunker}-{policy.unit}-{policy.target}")
@given(text=TEXTS.map("".join).filter(str.strip), is_markdown=st.booleans())
@settings(max_examples=60)
def test_every_chunker_cuts_exactly_completely_and_within_the_maximum(
    policy: ChunkingPolicy, text: str, is_markdown: bool
) -> None:
    document_format = DocumentFormat.MARKDOWN if is_markdown else DocumentFormat.TEXT
    try:
        parsed = parse(text, policy, document_format)
    except EmptyDocumentError:
        assert text.startswith("---")
        return
    assert parsed == parse(text, policy, document_format)
    data, covered = text.encode(), bytearray(len(text))
    leaves = [chunk for chunk in parsed.chunks if not chunk.upper]
    assert list(parsed.chunks[: len(leaves)]) == leaves
    for chunk in parsed.chunks:
        span = chunk.span
        content = text[span.start : span.end]
        assert content == data[span.start_byte : span.end_byte].decode()
        assert content.strip()
        assert chunk.token_count == tokenizer().count(content)
        if chunk.upper:
            continue
        assert is_cluster_boundary(text, span.start)
        covered[span.start : span.end] = b"x" * len(content)
        size = chunk.token_count if policy.unit is ChunkUnit.TOKENS else len(content)
        assert size <= policy.maximum or _is_one_cluster(content)
    missed = "".join(char for char, mark in zip(text, covered, strict=True) if not mark)
    assert not missed.strip() or missed.lstrip().startswith("---")  # front matter
    for before, after in pairwise(leaves):
        assert before.span.start < after.span.start
        assert before.span.end < after.span.end
        assert before.overlap_next_chars == after.overlap_prev_chars == max(0, before.span.end - after.span.start)
    assert leaves[0].overlap_prev_chars == leaves[-1].overlap_next_chars == 0


def _is_one_cluster(content: str) -> bool:
    return not any(is_cluster_boundary(content, index) for index in range(1, len(content)))


@pytest.mark.requirement("S1-54")
@pytest.mark.requirement("T09")
def test_fixed_windows_have_the_figures_of_the_source_design() -> None:
    text = "abcdefghi " * 100
    parsed = parse(text, fixed(ChunkUnit.CHARS, 400, 80), DocumentFormat.TEXT)
    figures = [
        (
            chunk.span.start,
            chunk.span.end,
            chunk.span.start + chunk.overlap_prev_chars,
            chunk.span.end - chunk.overlap_next_chars,
        )
        for chunk in parsed.chunks
    ]
    assert figures == [(0, 400, 0, 320), (320, 720, 400, 640), (640, 1000, 720, 1000)]
    # The unique ranges leave gaps; merged, the whole ranges are the text.
    rebuilt = ""
    for chunk in parsed.chunks:
        rebuilt += text[max(chunk.span.start, len(rebuilt)) : chunk.span.end]
    assert rebuilt == text


@pytest.mark.requirement("S1-52")
@pytest.mark.parametrize(("target", "overlap"), [(800, 400), (1024, 20), (512, 77), (512, 0)])
def test_fixed_windows_of_tokens_are_exact(target: int, overlap: int) -> None:
    text = " ".join(f"word{number}" for number in range(5000))
    ratio = min(overlap / target, 0.4999)  # half of 800 is reached by rounding: the ratio stays below 0.5
    policy = replace(fixed(ChunkUnit.TOKENS, target, 0), overlap_ratio=ratio)
    words = [content.split() for content in contents(parse(text, policy, DocumentFormat.TEXT))]
    assert [len(each) for each in words[:-1]] == [target] * (len(words) - 1)
    for before, after in pairwise(words):
        assert before[len(before) - overlap :] == after[:overlap]
    assert len(words[-1]) <= target
    assert sum(len(each) for each in words) - overlap * (len(words) - 1) == 5000


def test_a_last_window_under_the_minimum_is_joined_or_flagged() -> None:
    text = "x" * 430
    joined = replace(fixed(ChunkUnit.CHARS, 400, 0), minimum=100, maximum=500)
    assert [(chunk.span.end, chunk.undersized) for chunk in parse(text, joined, DocumentFormat.TEXT).chunks] == [
        (430, False)
    ]
    flagged = replace(joined, maximum=400)
    assert [(chunk.span.end, chunk.undersized) for chunk in parse(text, flagged, DocumentFormat.TEXT).chunks] == [
        (400, False),
        (430, True),
    ]


SENTENCES = replace(PROFILES[ProfileName.DOCUMENTS].chunking, chunker=ChunkerKind.SENTENCE)


@pytest.mark.requirement("S1-45")
def test_a_sentence_is_a_chunk_with_its_number() -> None:
    text = " ".join(f"This is sentence {number}." for number in range(8))
    parsed = parse(text, SENTENCES, DocumentFormat.TEXT)
    assert contents(parsed) == [f"This is sentence {number}." for number in range(8)]
    assert [chunk.sentence_index for chunk in parsed.chunks] == list(range(8))
    assert {(chunk.sentence_index, chunk.window_size) for chunk in parsed.chunks} == {
        (number, 2) for number in range(8)
    }


def test_abbreviations_decimals_headings_lists_tables_and_code_are_not_torn() -> None:
    text = (
        "# Tides\n\nDr. Smith measured 3.5 m, e.g. at noon. He was right!\n\n"
        "1. First item.\n2. Second item\n\n| a | b |\n|---|---|\n| 1. | 2 |\n\n```py\nx = 1. Y = 2.\n```\n\n"
        "> Quoted. Twice.\n"
    )
    assert contents(parse(text, SENTENCES)) == [
        "# Tides\n\nDr. Smith measured 3.5 m, e.g. at noon.",
        "He was right!",
        "1. First item.",
        "2. Second item",
        "| a | b |\n|---|---|\n| 1. | 2 |",
        "```py\nx = 1. Y = 2.\n```",
        "> Quoted.",
        "Twice.",
    ]


def test_short_sentences_stay_alone_and_long_ones_are_cut() -> None:
    policy = replace(SENTENCES, maximum=600, target=512)
    text = f"Yes. A{prose(2000).replace('.', ',')}. No."
    parsed = parse(text, policy, DocumentFormat.TEXT)
    found = contents(parsed)
    assert (found[0], found[-1]) == ("Yes.", "No.")
    assert [chunk.undersized for chunk in (parsed.chunks[0], parsed.chunks[-1])] == [True, True]
    assert [chunk.sentence_index for chunk in parsed.chunks] == [0, *[1] * (len(found) - 2), 2]
    assert len(found) - 2 <= 6
    assert all(chunk.token_count <= 600 for chunk in parsed.chunks)


def test_a_chapter_without_text_does_not_reach_into_the_next() -> None:
    assert contents(parse("# One\n\n# Two\n\nText here.\n", SENTENCES)) == ["# One", "# Two\n\nText here."]


HIERARCHY = replace(TOKENS, chunker=ChunkerKind.HIERARCHY)
BOOK = f"# One\n\nIntro of one.\n\n## First\n\n{prose(30)}\n\n## Second\n\nText of the second.\n\n# Two\n\nOnly text.\n"


@pytest.mark.requirement("S1-46")
def test_levels_have_chunks_of_their_own() -> None:
    chunks = parse(BOOK, HIERARCHY).chunks
    uppers = [chunk for chunk in chunks if chunk.upper]
    assert [(chunk.level, chunk.hierarchy_path, chunk.parent and chunks[chunk.parent].level) for chunk in uppers] == [
        (0, ("file.md",), None),
        (1, ("file.md", "One"), 0),
        (2, ("file.md", "One", "First"), 1),
        (2, ("file.md", "One", "Second"), 1),
        (1, ("file.md", "Two"), 0),
    ]
    assert [chunk.grandparent for chunk in uppers] == [None, None, uppers[0].sequence_num, uppers[0].sequence_num, None]
    assert uppers[0].content == BOOK.strip()
    assert uppers[2].content.startswith("## First")
    assert uppers[3].content == "## Second\n\nText of the second."
    assert not any(chunk.indexed for chunk in uppers)


@pytest.mark.requirement("S1-46")
def test_paragraphs_know_their_parents_and_their_path() -> None:
    chunks = parse(BOOK, HIERARCHY).chunks
    leaves = [chunk for chunk in chunks if not chunk.upper]
    assert {chunk.level for chunk in leaves} == {3}
    assert all(chunk.indexed for chunk in leaves)
    assert [leaf.hierarchy_path for leaf in leaves] == [
        ("file.md", "One", "para_1"),
        *[("file.md", "One", "First", f"para_{number}") for number in range(1, len(leaves) - 2)],
        ("file.md", "One", "Second", "para_1"),
        ("file.md", "Two", "para_1"),
    ]
    for leaf in leaves:
        assert leaf.parent is not None
        parent = chunks[leaf.parent]
        assert parent.hierarchy_path == leaf.hierarchy_path[:-1]
        assert parent.span.start <= leaf.span.start < leaf.span.end <= parent.span.end
        assert leaf.grandparent == parent.parent
        assert leaf.section_title == parent.hierarchy_path[-1]
        assert "para_" not in leaf.embedding_text


def test_a_text_without_headings_has_only_the_document_above() -> None:
    chunks = parse("Some words.", HIERARCHY).chunks
    assert [(chunk.level, chunk.upper, chunk.parent, chunk.grandparent) for chunk in chunks] == [
        (3, False, 1, None),
        (0, True, None, None),
    ]


def test_an_upper_chunk_that_is_very_long_keeps_its_span_and_no_content() -> None:
    text = f"# One\n\n{prose(MAX_CHUNK_CHARS // 4)}\n\n# Two\n\nShort.\n"
    policy = replace(PROFILES[ProfileName.DOCUMENTS].chunking, chunker=ChunkerKind.HIERARCHY)
    document, one, two = (chunk for chunk in parse(text, policy).chunks if chunk.upper)
    assert (document.content, one.content, two.content) == ("", "", "# Two\n\nShort.")
    assert (document.span.start, document.span.end) == (0, len(text) - 1)
    assert one.embedding_text == "file.md\nOne\n\n"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.chunker}-{policy.unit}-{policy.target}")
def test_a_parsed_document_comes_through_the_messages_unchanged(policy: ChunkingPolicy) -> None:
    parsed = replace(parse(f"Before.\n\n{BOOK}", replace(policy, window_size=3)), pages=(PageSpan(1, 0, 9),))
    message, body = parsed_to_message(parsed)
    assert parsed_from_message(json.loads(json.dumps(message)), body) == parsed


@pytest.mark.requirement("C05")
@pytest.mark.parametrize(
    ("profile", "unit", "sizes", "overlap", "min_chars"),
    [
        (ProfileName.GENERAL, ChunkUnit.TOKENS, (20, 96, 192), (0.0, 0.0), 10),
        (ProfileName.DOCUMENTS, ChunkUnit.TOKENS, (100, 512, 1024), (0.10, 0.20), 10),
        (ProfileName.CONVERSATIONS, ChunkUnit.TOKENS, (1, 400, 800), (0.0, 0.0), 1),
        (ProfileName.MEMORY, ChunkUnit.TOKENS, (100, 400, 800), (0.0, 0.0), 1),
        (ProfileName.WEB, ChunkUnit.CHARS, (10, 1200, 2000), (0.05, 0.15), 10),
        (ProfileName.BOOK, ChunkUnit.TOKENS, (500, 750, 1000), (0.0, 0.0), 10),
    ],
)
def test_each_profile_keeps_its_limits_on_long_and_short_texts(
    profile: ProfileName, unit: ChunkUnit, sizes: tuple[int, int, int], overlap: tuple[float, float], min_chars: int
) -> None:
    policy = PROFILES[profile].chunking
    assert (policy.unit, policy.min_chars) == (unit, min_chars)
    assert (policy.minimum, policy.target, policy.maximum) == sizes
    long = parse("\n\n".join(prose(80, seed) for seed in range(80)), policy, DocumentFormat.TEXT)
    measured = [chunk.token_count if unit is ChunkUnit.TOKENS else len(content) for chunk, content in _pairs(long)]
    assert len(measured) > 5
    assert all(policy.minimum <= size <= policy.maximum for size in measured)
    shares = [chunk.overlap_prev_chars / len(content) for chunk, content in _pairs(long)[1:]]
    assert all(overlap[0] <= share <= overlap[1] for share in shares)
    (short,) = parse("Few.", policy, DocumentFormat.TEXT).chunks
    assert short.undersized == (policy.minimum > 2 or min_chars > 4)


def _pairs(parsed: ParsedDocument) -> list[tuple[Chunk, str]]:
    return list(zip(parsed.chunks, contents(parsed), strict=True))


BLANKS = ["\n", " ", "\t", "\u3000", "\u00a0"]


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
@pytest.mark.parametrize("unit", ChunkUnit)
@pytest.mark.parametrize("kind", ChunkerKind)
@pytest.mark.parametrize("profile", [ProfileName.DOCUMENTS, ProfileName.WEB])
def test_white_space_makes_no_chunk_longer_than_the_policy_allows(
    profile: ProfileName, kind: ChunkerKind, unit: ChunkUnit, blank: str
) -> None:
    policy = replace(PROFILES[profile].chunking, chunker=kind, unit=unit)
    text = f"# Title\n\nThe heron stands in the reeds.{blank * 40_000}At noon it flies{blank * 40_000}home.\n"
    parsed = parse(text, policy)
    longest = max(map(len, contents(parsed)))
    assert longest <= policy.maximum * (8 if unit is ChunkUnit.TOKENS else 1)
    words = ["#", "Title", "The", "heron", "stands", "in", "the", "reeds.", "At", "noon", "it", "flies", "home."]
    assert [word for content in contents(parsed) for word in content.split() if word in words][:3] == words[:3]
    assert set(words) <= {word for content in contents(parsed) for word in content.split()}


@pytest.mark.parametrize("kind", ChunkerKind)
@pytest.mark.parametrize("unit", ChunkUnit)
def test_the_largest_policy_still_bounds_every_chunk(kind: ChunkerKind, unit: ChunkUnit) -> None:
    most = MAX_CHUNK_SIZES[unit]
    policy = ChunkingPolicy(unit, most, 1, most, 0.4, 1, kind)
    ChunkingOverrides().over(policy, "chunking")
    text = "tide " * 30_000 + " " * 100_000 + "x" * 200_000 + "\u0301" * 70_000
    assert len(contents(parse(text, policy))) > 3
    assert max(map(len, contents(parse(text, policy)))) <= MAX_CHUNK_CHARS


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (ChunkingPolicy(ChunkUnit.TOKENS, 15, 1, 100, 0.0, 1), "target_size"),
        (ChunkingPolicy(ChunkUnit.CHARS, 63, 1, 100, 0.0, 1), "target_size"),
        (ChunkingPolicy(ChunkUnit.TOKENS, 512, 1, 8193, 0.0, 1), "maximum_size"),
        (ChunkingPolicy(ChunkUnit.CHARS, 512, 1, 65_537, 0.0, 1), "maximum_size"),
    ],
)
def test_sizes_beyond_the_bounds_are_refused(policy: ChunkingPolicy, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ChunkingOverrides().over(policy, "chunking")
    assert [violation.field for violation in caught.value.violations] == [f"chunking.{field}"]


def test_a_long_run_of_blanks_makes_no_window_that_only_repeats_the_one_before() -> None:
    text = "one two three four " * 8 + " " * 3000 + "five six"
    ends = [chunk.span.end for chunk in parse(text, fixed(ChunkUnit.TOKENS, 16, 6), DocumentFormat.TEXT).chunks]
    assert ends == sorted({*ends})


def test_a_document_of_too_many_chunks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_worker, "MAX_CHUNKS", 1000)
    policy = replace(PROFILES[ProfileName.DOCUMENTS].chunking, chunker=ChunkerKind.SENTENCE)
    with pytest.raises(DocumentLimitError) as caught:
        parse("Ah. " * 1001, policy, DocumentFormat.TEXT)
    assert caught.value.metadata == {"resource": "chunks", "limit": "1000"}


@pytest.mark.parametrize(
    ("kind", "bit"),
    [
        (ChunkerKind.SENTENCE, "<p>One. Two. Three.\n"),  # one block of HTML with many sentences
        (ChunkerKind.HIERARCHY, "## S\n\n"),  # many sections without text
        (ChunkerKind.HIERARCHY, "# C\n\nT.\n\n### P\n\nT.\n\n"),
    ],
)
def test_cutting_takes_linear_time(kind: ChunkerKind, bit: str) -> None:
    policy = replace(PROFILES[ProfileName.DOCUMENTS].chunking, chunker=kind)
    assert growth(lambda n: "Begin.\n\n" + bit * n, lambda text: parse(text, policy), 1_000) < LINEAR


def test_a_heading_of_a_whole_page_is_told_to_the_chunks_in_brief() -> None:
    page = read_html(f"<h1>{'Long ' * 5000}</h1><p>Text.</p>".encode(), "content")
    assert page.text.startswith("# Long Long")
    assert len(page.text) > 20_000
    assert page.outline.headings[0].text == ("Long " * 40).strip()

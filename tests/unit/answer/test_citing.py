"""Only sources that are exactly what is stored keep a statement alive."""

from dataclasses import replace

import pytest

from groundwire.answer.answers import cite
from groundwire.answer.evidence import Source, Statement, StoredSpan, agrees, with_agreeing_sources
from groundwire.kernel.spans import Span
from tests.unit.answer.builders import make_passage, make_statement

_CONTENT = "Ünïcode opens. The fact is here."
_PASSAGE = make_passage(_CONTENT, start=5, start_byte=7)
_SOURCE = make_statement(_PASSAGE, "The fact is here.").sources[0]
_STORED = StoredSpan(
    chunk_id=_PASSAGE.chunk_id,
    document_id=_PASSAGE.document_id,
    generation=1,
    chunk_span=_PASSAGE.span,
    span=_SOURCE.span,
    text="The fact is here.",
)


def _shifted(span: Span, **offsets: int) -> Span:
    return replace(span, **{name: getattr(span, name) + by for name, by in offsets.items()})


def test_a_true_source_agrees() -> None:
    assert agrees(_SOURCE, _STORED)


@pytest.mark.requirement("S4-13")
@pytest.mark.parametrize(
    ("source", "stored"),
    [
        (_SOURCE, None),
        (replace(_SOURCE, quote="The fact is there."), _STORED),
        (replace(_SOURCE, span=_shifted(_SOURCE.span, start_byte=1, end_byte=1)), _STORED),
        (replace(_SOURCE, span=_shifted(_SOURCE.span, end_byte=1)), _STORED),
        (replace(_SOURCE, span=_shifted(_SOURCE.span, start=-30)), _STORED),
        (_SOURCE, replace(_STORED, text="The fact was here.")),
        (_SOURCE, replace(_STORED, chunk_id="doc_9#chunk_000")),
        (_SOURCE, replace(_STORED, document_id="doc_9")),
        (_SOURCE, replace(_STORED, generation=2)),
    ],
)
def test_anything_that_differs_does_not(source: Source, stored: StoredSpan | None) -> None:
    assert not agrees(source, stored)


def test_a_statement_keeps_its_true_sources_alone() -> None:
    false = replace(_SOURCE, quote="Invented.")
    half, none = Statement("Half.", (false, _SOURCE)), Statement("None.", (false,))
    bare = Statement("Bare.", ())
    checked = with_agreeing_sources([half, none, bare], [[_STORED, _STORED], [_STORED], []])
    assert checked == [Statement("Half.", (_SOURCE,)), Statement("None.", ()), bare]


def test_a_kept_source_has_the_pages_of_its_own_span() -> None:
    statement = Statement("Fact.", (_SOURCE,))
    (kept,) = with_agreeing_sources([statement], [[replace(_STORED, page_numbers=(6,))]])
    assert cite(1, "docs", kept.sources[0], Span(0, 5, 0, 5)).page_numbers == [6]
    (kept,) = with_agreeing_sources([statement], [[_STORED]])
    of_chunk = replace(kept.sources[0], passage=replace(_PASSAGE, page_numbers=(5, 6)))
    assert cite(1, "docs", of_chunk, Span(0, 5, 0, 5)).page_numbers == [5, 6]


def test_a_citation_names_the_section_of_its_quote_wherever_the_chunk_stands_in_its_document() -> None:
    passage = make_passage("Before. \n\n## One\n\nA fact.\n\n## Two\n\nAnother fact.", start=1000)
    for quote, section in (("Before.", "Heading"), ("A fact.", "One"), ("Another fact.", "Two")):
        (source,) = make_statement(passage, quote).sources
        citation = cite(1, "docs", replace(source, assessed=0.7), Span(0, 5, 0, 5))
        assert citation.section_heading == section
        assert citation.support_score == pytest.approx(0.7)
        assert citation.relevance_score == pytest.approx(0.6)

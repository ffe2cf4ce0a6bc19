"""Citations written as text, in every style, with and without each part."""

import threading
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.answer import citation_styles
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.answer.v1 import citation_style_pb2 as style_pb
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.value_messages import to_timestamp
from tests.integration.answer.rig import Rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("formatting")
    rig = Rig(folder)
    fields = DocumentFields(title="Foxes", creators=("Doe, Jane",), date_created=datetime(2024, 1, 2, tzinfo=UTC))
    rig.library.put("foxes.txt", ["Red foxes eat small mice."], fields=fields, pages=[(5,)])
    yield rig
    rig.close()


async def _format(
    rig: Rig, style: "style_pb.CitationStyle.ValueType", *citations: citation_pb2.Citation, **fields: Any
) -> pb.FormatCitationsResponse:
    request = pb.FormatCitationsRequest(style=style, citations=citations, **fields)
    response: pb.FormatCitationsResponse = await rig.stub.FormatCitations(request)
    return response


def _reference(**fields: Any) -> style_pb.Reference:
    return style_pb.Reference(title="Q3 Financial Report", source="Corporate Finance Quarterly", **fields)


_WORK = "Q3 Financial Report. Corporate Finance Quarterly."
_TWO = ["Smith, John", "Doe, Anna Maria"]
_DOI, _URL = "10.1000/182", "https://example.org/q3"
_UNDATED = "Q3 Financial Report. (n.d.). Corporate Finance Quarterly."


@pytest.mark.requirement("S1-99", "S1-100", "S1-114", "T16")
@pytest.mark.parametrize(
    ("reference", "plain", "apa"),
    [
        (
            _reference(authors=_TWO, year=2024, pages="45-47"),
            "Smith, John, Doe, Anna Maria (2024). Q3 Financial Report. Corporate Finance Quarterly, pp. 45-47.",
            "Smith, J., & Doe, A. M. (2024). Q3 Financial Report. Corporate Finance Quarterly, pp. 45–47.",
        ),
        (
            _reference(authors=["Smith, J."], year=2024, pages="5"),
            "Smith, J. (2024). Q3 Financial Report. Corporate Finance Quarterly, pp. 5.",
            "Smith, J. (2024). Q3 Financial Report. Corporate Finance Quarterly, p. 5.",
        ),
        (
            _reference(),
            "Unknown (n.d.). Q3 Financial Report. Corporate Finance Quarterly.",
            "Q3 Financial Report. (n.d.). Corporate Finance Quarterly.",
        ),
        (
            _reference(authors=["World Health Organization"], year=2020, doi=_DOI, url=_URL),
            f"World Health Organization (2020). Q3 Financial Report. Corporate Finance Quarterly. https://doi.org/{_DOI}",
            f"World Health Organization. (2020). {_WORK} https://doi.org/{_DOI}",
        ),
        (
            _reference(authors=["Sartre, Jean-Paul"], year=1943, url=_URL),
            f"Sartre, Jean-Paul (1943). Q3 Financial Report. Corporate Finance Quarterly. {_URL}",
            f"Sartre, J.-P. (1943). Q3 Financial Report. Corporate Finance Quarterly. {_URL}",
        ),
        (
            style_pb.Reference(title="Who pays?", source=_URL, url=_URL, year=2021),
            f"Unknown (2021). Who pays? {_URL}",
            f"Who pays? (2021). {_URL}",
        ),
        (
            _reference(authors=[f"A{number}, B." for number in range(1, 22)], year=2000),
            f"{', '.join(f'A{number}, B.' for number in range(1, 22))} (2000). {_WORK}",
            f"{', '.join(f'A{number}, B.' for number in range(1, 20))}, . . . A21, B. (2000). {_WORK}",
        ),
        (
            _reference(authors=["", " , ", "- -", "Doe, -Jane - ", ", Jo"], doi="DOI: https://dx.doi.org/10.1000/182"),
            f"Doe, -Jane - , , Jo (n.d.). {_WORK} https://doi.org/{_DOI}",
            f"Doe, J., & Jo. (n.d.). {_WORK} https://doi.org/{_DOI}",
        ),
        (
            _reference(doi=f"http://doi.org/{_DOI}"),
            f"Unknown (n.d.). {_WORK} https://doi.org/{_DOI}",
            f"{_UNDATED} https://doi.org/{_DOI}",
        ),
        (
            _reference(doi=f"https://example.org/{_DOI}"),
            f"Unknown (n.d.). {_WORK} https://example.org/{_DOI}",
            f"{_UNDATED} https://example.org/{_DOI}",
        ),
        (
            _reference(authors=[f"A{number}, B." for number in range(1, 21)], doi=f" {_DOI} "),
            f"{', '.join(f'A{number}, B.' for number in range(1, 21))} (n.d.). {_WORK} https://doi.org/{_DOI}",
            f"{', '.join(f'A{each}, B.' for each in range(1, 20))}, & A20, B. (n.d.). {_WORK} https://doi.org/{_DOI}",
        ),
        (style_pb.Reference(title="Foxes", source="Foxes"), "Unknown (n.d.). Foxes.", "Foxes. (n.d.)."),
        (style_pb.Reference(source="Foxes"), "Unknown (n.d.). Foxes.", "Foxes. (n.d.)."),
        (
            style_pb.Reference(title="Foxes", pages="5, 9"),
            "Unknown (n.d.). Foxes. pp. 5, 9.",
            "Foxes. (n.d.). pp. 5, 9.",
        ),
        (style_pb.Reference(), "Unknown (n.d.).", "(n.d.)."),
        (style_pb.Reference(url=_URL, source=_URL), f"Unknown (n.d.). {_URL}", f"(n.d.). {_URL}"),
        (style_pb.Reference(title="Foxes", pages="5"), "Unknown (n.d.). Foxes. pp. 5.", "Foxes. (n.d.). p. 5."),
    ],
)
async def test_references_are_written_exactly_with_and_without_each_part(
    rig: Rig, reference: style_pb.Reference, plain: str, apa: str
) -> None:
    for style, expected in ((style_pb.CITATION_STYLE_APA_PLAIN, plain), (style_pb.CITATION_STYLE_APA, apa)):
        response = await _format(rig, style, citation_pb2.Citation(), references=[reference])
        assert response.text == expected
        (formatted,) = response.citations
        assert (formatted.text, formatted.reference) == (expected, reference)


async def _cited(rig: Rig) -> Sequence[citation_pb2.Citation]:
    answer = await rig.ask("What do red foxes eat?")
    assert answer.citations
    return answer.citations


@pytest.mark.requirement("S1-97", "S1-98", "C26")
async def test_citations_of_an_answer_are_listed_by_number_and_as_nodes(rig: Rig) -> None:
    citations = await _cited(rig)
    numbered = await _format(rig, style_pb.CITATION_STYLE_NUMBERED, *citations)
    assert numbered.text == "[1] Foxes, p. 5"
    nodes = await _format(rig, style_pb.CITATION_STYLE_SOURCE_NODES, *citations)
    assert nodes.text == numbered.text
    node = nodes.citations[0].source_node
    assert (node.node_id, node.text, node.score) == (
        citations[0].chunk_id,
        citations[0].quote,
        citations[0].relevance_score,
    )
    assert node.metadata["page"].int64_value == 5
    assert node.metadata["title"].string_value == "Foxes"
    assert node.metadata["end"].int64_value == citations[0].span.end
    apa = await _format(rig, style_pb.CITATION_STYLE_APA, *citations)
    assert apa.text == "Doe, J. (2024). Foxes. foxes.txt, p. 5."


@pytest.mark.requirement("S1-114")
@pytest.mark.requirement("S1-96")
async def test_inline_gives_the_answer_with_its_markers_and_each_quote(rig: Rig) -> None:
    answer = await rig.ask("What do red foxes eat?")
    response = await _format(rig, style_pb.CITATION_STYLE_INLINE, *answer.citations, content=answer.content)
    assert response.text == answer.content
    (formatted,) = response.citations
    assert (formatted.marker, formatted.page, formatted.reference.title) == (1, 5, "Foxes")
    assert formatted.quote == answer.citations[0].quote == "Red foxes eat small mice."
    assert formatted.text == "[1] “Red foxes eat small mice.” Foxes, p. 5"
    listed = await _format(rig, style_pb.CITATION_STYLE_INLINE, *answer.citations)
    assert listed.text == formatted.text


async def test_what_is_not_known_is_said_and_lines_are_numbered_and_ordered(rig: Rig) -> None:
    bare = citation_pb2.Citation(quote="a\nb", span=Span(end=3))
    dated = citation_pb2.Citation(
        title="Beta",
        source_uri="b.txt",
        page_numbers=[2, 3, 4],
        date_created=to_timestamp(datetime(2020, 1, 1, tzinfo=UTC)),
    )
    numbered = await _format(rig, style_pb.CITATION_STYLE_NUMBERED, bare, dated, content="Not a list.")
    assert numbered.text == "[1] unknown, p. unknown\n[2] Beta, p. 2-4"
    assert not numbered.citations[0].HasField("page")
    first = citation_pb2.Citation(title="alpha", source_uri="a.txt")
    apa = await _format(rig, style_pb.CITATION_STYLE_APA, dated, first, first)
    assert apa.text == "alpha. (n.d.). a.txt.\nBeta. (2020). b.txt, pp. 2–4."
    assert [each.marker for each in apa.citations] == [1, 2, 3]
    plain = await _format(rig, style_pb.CITATION_STYLE_APA_PLAIN, dated, first, first)
    assert plain.text == "Unknown (2020). Beta. b.txt, pp. 2-4.\nUnknown (n.d.). alpha. a.txt."
    assert (await _format(rig, style_pb.CITATION_STYLE_APA)).text == ""
    linked = [citation_pb2.Citation(title="alpha", doi=_DOI), citation_pb2.Citation(title="alpha", url=_URL)]
    links = (await _format(rig, style_pb.CITATION_STYLE_APA, *linked)).text.splitlines()
    assert links == [f"alpha. (n.d.). {link}" for link in (f"https://doi.org/{_DOI}", _URL)]
    (node,) = (await _format(rig, style_pb.CITATION_STYLE_SOURCE_NODES, bare)).citations
    assert {*node.source_node.metadata} == {"start", "end"}


async def test_a_request_may_be_as_long_as_the_bounds_say(rig: Rig) -> None:
    citations = [citation_pb2.Citation(title=f"{number}") for number in range(1000)]
    references = [_reference(authors=["a"] * 100)] * 1000
    response = await _format(rig, style_pb.CITATION_STYLE_NUMBERED, *citations, references=references)
    assert len(response.citations) == 1000


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"style": 0}, "style"),
        ({"style": 99}, "style"),
        ({"citations": [citation_pb2.Citation()] * 1001}, "citations"),
        ({"citations": [citation_pb2.Citation(quote="a" * 4_000_001)]}, "citations"),
        ({"citations": [citation_pb2.Citation()] * 2, "references": [_reference()]}, "references"),
        ({"content": "a" * 20_001}, "content"),
        ({"citations": [citation_pb2.Citation()], "references": [_reference(year=0)]}, "references[0].year"),
        (
            {"citations": [citation_pb2.Citation(), citation_pb2.Citation(date_created=Timestamp(seconds=10**15))]},
            "citations[1].date_created",
        ),
        ({"citations": [citation_pb2.Citation()], "references": [_reference(pages="a\x00")]}, "references[0].pages"),
        (
            {"citations": [citation_pb2.Citation()], "references": [_reference(authors=["a"] * 101)]},
            "references[0].authors",
        ),
    ],
)
async def test_what_breaks_a_rule_is_refused_by_name(rig: Rig, fields: dict[str, Any], field: str) -> None:
    request = pb.FormatCitationsRequest(**{"style": style_pb.CITATION_STYLE_INLINE, **fields})
    with pytest.raises(InvalidRequestError) as caught:
        await rig.stub.FormatCitations(request)
    assert [each.field for each in caught.value.violations] == [field]
    assert field != "style" or "must be one of CITATION_STYLE_INLINE, " in caught.value.message


async def test_long_requests_are_written_in_workers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def spied(*_: object) -> str:
        threads.add(threading.get_ident())
        return "line"

    monkeypatch.setattr(citation_styles, "apa", spied)
    response = await _format(rig, style_pb.CITATION_STYLE_APA, citation_pb2.Citation(quote="foxes"))
    assert response.text == "line"
    assert threading.get_ident() not in threads


def test_the_control_characters_of_references_are_those_of_unicode() -> None:
    for code in range(0x200):
        reference = style_pb.Reference(title=f"a{chr(code)}b")
        request = pb.FormatCitationsRequest(
            style=style_pb.CITATION_STYLE_APA, citations=[citation_pb2.Citation()], references=[reference]
        )
        if unicodedata.category(chr(code)) == "Cc":
            with pytest.raises(InvalidRequestError):
                citation_styles.format_citations(request)
        else:
            citation_styles.format_citations(request)

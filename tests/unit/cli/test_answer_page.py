"""Pages of answers: what becomes a link, and what stays text."""

import re
from pathlib import Path

import pytest

from groundwire.api.answer.v1 import answer_pb2, citation_pb2
from groundwire.cli.citations import Quotation, write_page


@pytest.mark.parametrize(
    ("url", "is_link"),
    [
        ("https://example.org/a?b=1&c", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("http://[broken", False),
        ("", False),
    ],
)
def test_only_addresses_of_the_web_become_links(tmp_path: Path, url: str, *, is_link: bool) -> None:
    citation = citation_pb2.Citation(marker=1, source_uri="a.md", quote="Quote.", url=url)
    answer = answer_pb2.Answer(content="Quote. [1]", citations=[citation])
    write_page(tmp_path / "page.html", "Why?", answer, [Quotation((citation,), (("Quote.", 1),))])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "a.md · characters" in page
    assert ('rel="noreferrer"' in page) is is_link
    assert (url.replace("&", "&amp;") in page) is is_link or not url


def test_what_documents_say_adds_no_markup_and_turns_no_direction(tmp_path: Path) -> None:
    url = 'https://example.org/" onclick="x\u202e\'<b>'
    citation = citation_pb2.Citation(marker=1, source_uri="a.md", quote="Quote.", url=url)
    answer = answer_pb2.Answer(content="Quote [9] <i>. [1]", citations=[citation])
    write_page(tmp_path / "page.html", "Why?", answer, [Quotation((citation,), (("Quote <b>.", 1),))])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]*)"( rel="noreferrer")?>', page)
    assert [each[0] for each in links] == [
        *("#quote-1", "https://example.org/&quot; onclick=&quot;x\\u202e&#x27;&lt;b&gt;"),
    ]
    assert "\u202e" not in page
    assert not re.search("<[bi]>", page)

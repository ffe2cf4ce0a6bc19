"""Pages of answers: which addresses become links."""

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

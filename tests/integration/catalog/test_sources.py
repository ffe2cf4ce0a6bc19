"""Pages and properties of sources, kept with each generation."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from groundwire.catalog.texts import Texts
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import DocumentNotFoundError
from groundwire.kernel.spans import PageSpan
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft

PAGES = (PageSpan(1, 0, 3), PageSpan(2, 4, 4), PageSpan(3, 4, 7))
SAID = DocumentFields(title="Said", creators=("B", "A"), date_created=datetime(2024, 5, 1, tzinfo=UTC))


@pytest.fixture
def sources(catalog: Catalog) -> Texts:
    return Texts(catalog.database)


def test_a_span_has_the_pages_that_it_touches_in_order(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, replace(make_draft("one", "two"), pages=PAGES))
    spans, name = catalog.texts.spans(TENANT, "docs"), document.document_id
    for (start, end), pages in {(0, 7): (1, 2, 3), (0, 3): (1,), (5, 7): (3,)}.items():
        assert spans.at(name, 1, start, end) is not None
        assert spans.pages_at(name, 1, start, end) == pages


def test_what_a_source_says_is_kept_apart_from_the_fields(catalog: Catalog, docs: Collection, sources: Texts) -> None:
    draft = make_draft("one", fields=DocumentFields(title="Mine"))
    document, _ = catalog.put(docs, replace(draft, properties=SAID))
    assert sources.properties(TENANT, document.document_id, 1) == SAID
    assert document.fields.title == "Mine"


def test_what_nobody_may_see_is_not_found(catalog: Catalog, docs: Collection, sources: Texts) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    for tenant, document_id, generation in (
        ("other", document.document_id, 1),
        (TENANT, "no", 1),
        (TENANT, document.document_id, 2),
    ):
        with pytest.raises(DocumentNotFoundError):
            catalog.texts.spans(tenant, "docs").at(document_id, generation, 0, 3)
        with pytest.raises(DocumentNotFoundError):
            sources.properties(tenant, document_id, generation)


def test_pages_go_with_their_document(catalog: Catalog, docs: Collection, sources: Texts) -> None:
    document, _ = catalog.put(docs, replace(make_draft("one", "two"), pages=PAGES))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM text_pages").scalar() == 0

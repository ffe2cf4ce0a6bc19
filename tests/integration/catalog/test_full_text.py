"""The full-text index: what it finds, in what order, and that user text means nothing but itself."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.catalog import lexical_search
from groundwire.catalog.index_words import IndexWords
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CallCancelledError, CollectionNotFoundError
from tests.catalogs import problems_of
from tests.growth import LINEAR, growth
from tests.integration.catalog.drafts import TENANT, Catalog, FullText, make_collection, make_draft

AWKWARD = (
    "C++",
    "it's",
    "OPS-306",
    "-x",
    '"',
    "*",
    "tide AND",
    "NEAR(",
    "",
    "title:tide",
    "ti*",
    "^tide",
    "{content scope}: tide",
    "tide OR moon",
    "NOT tide",
    '") OR scope : ("c1',
    "tide\x00moon",
    "++ --",
    "scope:c1",
)


def _found(catalog: Catalog, *terms: str, phrases: tuple[str, ...] = ()) -> list[int]:
    return [match.number for match in catalog.full_text.search(TENANT, "docs", terms, phrases, 100)]


@pytest.mark.requirement("S1-87")
def test_words_are_found_in_any_form_and_case(catalog: Catalog, docs: Collection) -> None:
    _, pending = catalog.put(docs, make_draft("Running waters", "An ÉLAN of tides", "nothing"))
    one, two, _ = pending.numbers
    assert _found(catalog, "run") == [one]
    assert _found(catalog, "water") == [one]
    assert _found(catalog, "elan") == [two]
    assert sorted(_found(catalog, "élan", "RUNS")) == [one, two]
    assert _found(catalog, "absent") == []
    _, german = catalog.put(docs, make_draft("Die Größe der Straße", source="german.md"))
    assert [_found(catalog, word) for word in ("größe", "GRO\u0308SSE", "strasse")] == [[german.numbers[0]]] * 3


@pytest.mark.parametrize("at_once", [1, 3, 400])
def test_all_words_of_a_chunk_go_with_it_however_many_are_read_at_once(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("groundwire.catalog.lexical_index._WORDS_PER_QUERY", at_once)
    # So many are merged into one segment, from which each goes alone.
    put = [catalog.put(docs, make_draft(f"word{number} zebra", source=f"{number}.md"))[0] for number in range(16)]
    for number in (3, 15, 0):
        catalog.documents.delete(TENANT, "docs", put[number].document_id)
        assert problems_of(catalog.database) == []
        assert _found(catalog, f"word{number}") == []
    assert len(_found(catalog, "zebra")) == 13


def test_chunks_of_two_collections_and_those_of_the_past_are_never_in_one_segment(
    catalog: Catalog, docs: Collection
) -> None:
    other = catalog.collections.create(make_collection("notes"))
    # Ten of each, which are left as they are: sixteen that are alike would be merged.
    documents = []
    for number in range(10):
        documents.append(catalog.put(docs, make_draft(f"zebra {number}", source=f"{number}.md"))[0])
        catalog.put(other, make_draft(f"zebra crossing {number}", source=f"{number}.md"))
    assert problems_of(catalog.database) == []
    assert (len(_found(catalog, "zebra")), _found(catalog, "crossing")) == (10, [])
    for number, each in enumerate(documents):
        draft = make_draft(f"giraffe {number}", source=f"{number}.md", document_id=each.document_id, expected=1)
        catalog.put(docs, draft)
        assert problems_of(catalog.database) == []
    assert (len(_found(catalog, "giraffe")), _found(catalog, "zebra")) == (10, [])
    assert len(catalog.full_text.search(TENANT, "notes", ["zebra"], [], 100)) == 10


def test_chunks_are_found_however_far_apart_their_numbers_are(catalog: Catalog, docs: Collection) -> None:
    numbers: list[int] = []
    for number in range(40):
        if number in {8, 30}:
            # One by one, because a process on PostgreSQL goes on with those of many that it has left.
            beyond = numbers[-1] + 65_530
            while catalog.database.take_chunk_numbers(1)[0] < beyond:
                pass
        numbers += catalog.put(docs, make_draft(f"zebra {number}", source=f"{number}.md"))[1].numbers
    assert len({each >> 16 for each in numbers}) >= 3
    assert problems_of(catalog.database) == []
    assert sorted(_found(catalog, "zebra")) == numbers
    assert [_found(catalog, str(each)) for each in (7, 8, 29, 39)] == [[numbers[each]] for each in (7, 8, 29, 39)]


def test_scores_are_positive_and_best_first_and_limited(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("tide", "tide tide moon", "moon and much else that dilutes it", "granite"))
    matches = catalog.full_text.search(TENANT, "docs", ["tide", "moon"], [], 10)
    scores = [match.score for match in matches]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0
    assert catalog.full_text.search(TENANT, "docs", ["tide", "moon"], [], 1) == matches[:1]


def test_a_word_in_the_heading_counts_more_than_in_the_text(catalog: Catalog, docs: Collection) -> None:
    _, pending = catalog.put(docs, make_draft("about heading things", "some other text"))
    # "Heading 0" and "Heading 1" are the headings, the first chunk also says the word.
    assert _found(catalog, "heading") == [pending.numbers[0], pending.numbers[1]]


def test_a_phrase_needs_its_words_side_by_side(catalog: Catalog, docs: Collection) -> None:
    _, pending = catalog.put(docs, make_draft("full moon tide", "moon at full tide"))
    assert _found(catalog, phrases=("full moon",)) == [pending.numbers[0]]
    assert _found(catalog, "moon", phrases=("full moon",))[0] == pending.numbers[0]
    assert _found(catalog, "full-moon") == [pending.numbers[0]]


@pytest.mark.requirement("T21")
@pytest.mark.parametrize("text", AWKWARD)
def test_no_user_text_is_an_operator_or_an_error(catalog: Catalog, docs: Collection, text: str) -> None:
    contents = ("tide", "moon", "x of c1", "ops 306", "give -x")
    _, pending = catalog.put(docs, make_draft(*contents))
    other = catalog.collections.create(make_collection("other"))
    catalog.put(other, make_draft("tide moon x c1 c2"))
    cut = IndexWords()
    (words,) = cut.sought([text])
    expected = {
        number
        for number, content in zip(pending.numbers, cut.indexed(contents), strict=True)
        if words and f" {' '.join(words)} " in f" {' '.join(content)} "
    }
    assert set(_found(catalog, text)) == expected
    assert set(_found(catalog, phrases=(text,))) == expected
    assert catalog.full_text.document_frequencies(TENANT, "docs", [text]) == {text: len(expected)}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=4))
def test_any_unicode_is_searched_as_words(catalog: Catalog, docs: Collection, terms: list[str]) -> None:
    catalog.full_text.search(TENANT, "docs", terms, terms, 5)
    assert set(catalog.full_text.document_frequencies(TENANT, "docs", terms)) == set(terms)


def test_terms_are_cut_as_the_index_cuts_them() -> None:
    words = IndexWords()
    assert words.of_each(["It's C++ élan, OPS-306! It's", "", "?!"]) == [
        ["it", "s", "c", "elan", "op", "306", "it", "s"],
        [],
        [],
    ]


def test_frequencies_count_live_chunks_of_the_collection(catalog: Catalog, docs: Collection) -> None:
    other = catalog.collections.create(make_collection("other"))
    document, _ = catalog.put(docs, make_draft("tide tide", "tides", "moon"))
    catalog.put(other, make_draft("tide"))
    catalog.begin(docs, make_draft("tide", source="pending"))
    frequencies = catalog.full_text.document_frequencies(TENANT, "docs", ["tide", "tide", "moon", "granite", "?"])
    assert frequencies == {"tide": 2, "moon": 1, "granite": 0, "?": 0}
    assert catalog.full_text.live_chunks(TENANT, "docs") == 3
    catalog.put(docs, make_draft("granite", document_id=document.document_id, expected=1))
    assert catalog.full_text.document_frequencies(TENANT, "docs", ["tide", "granite"]) == {"tide": 0, "granite": 1}
    assert catalog.full_text.live_chunks(TENANT, "docs") == 1


def test_a_search_sees_every_write_that_was_acknowledged_before_it(catalog: Catalog, docs: Collection) -> None:
    for number in range(30):
        _, pending = catalog.put(docs, make_draft(f"word{number} common", source=f"{number}.md"))
        assert _found(catalog, f"word{number}") == list(pending.numbers)
        assert len(_found(catalog, "common")) == number + 1


def test_collections_that_begin_alike_are_kept_apart(catalog: Catalog) -> None:
    made = [catalog.collections.create(make_collection(f"c{number}")) for number in range(12)]
    stored = {collection.name: list(catalog.put(collection, make_draft("tide"))[1].numbers) for collection in made}
    assert {collection.name: catalog.numbers_for(collection, "tide") for collection in made} == stored
    assert len({number for numbers in stored.values() for number in numbers}) == 12


def test_searching_an_unknown_collection_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(CollectionNotFoundError):
        catalog.full_text.search(TENANT, "unknown", ["x"], [], 1)
    with pytest.raises(CollectionNotFoundError):
        catalog.full_text.document_frequencies(TENANT, "unknown", ["x"])
    with pytest.raises(CollectionNotFoundError):
        catalog.full_text.live_chunks(TENANT, "unknown")


def test_the_index_equals_the_live_chunks_after_many_changes(catalog: Catalog, docs: Collection) -> None:
    chance = random.Random(3)
    live: dict[str, tuple[str, int]] = {}
    for step in range(60):
        source = chance.choice("abcdef")
        parts = ["".join(chance.choices(string.ascii_lowercase[:4], k=3)) for _ in range(chance.randrange(1, 5))]
        document_id, generation = live.get(source, (None, 0))
        match chance.randrange(4):
            case 0 if document_id is not None:
                catalog.documents.delete(TENANT, "docs", document_id)
                del live[source]
            case 1:
                draft = make_draft(*parts, source=source, document_id=document_id, expected=generation)
                catalog.documents.abandon(catalog.begin(docs, draft))
            case _:
                draft = make_draft(*parts, source=source, document_id=document_id, expected=generation)
                document, _ = catalog.put(docs, draft)
                live[source] = (document.document_id, document.generation)
        if step % 20 == 19:
            assert problems_of(catalog.database) == []


@pytest.mark.parametrize("damage", ["DELETE FROM lexical_postings WHERE word = 'tide'", "DELETE FROM lexical_segments"])
def test_a_repair_of_the_index_is_seen_at_once(catalog: Catalog, docs: Collection, damage: str) -> None:
    """What a search has remembered of the damaged index, counts and totals, ends with the repair."""
    _, pending = catalog.put(docs, make_draft("the tide comes", "the moon rises", "the sea falls"))
    position = catalog.views.open(TENANT, "docs").position
    whole = catalog.full_text.search(TENANT, "docs", ["tide"], [], 10)
    catalog.database.write(lambda connection: connection.exec_driver_sql(damage))
    views = SearchViews(catalog.database)
    searches = FullText(views)
    assert searches.document_frequencies(TENANT, "docs", ["tide"]) == {"tide": 0}
    assert searches.search(TENANT, "docs", ["tide"], [], 10) == []
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert searches.document_frequencies(TENANT, "docs", ["tide"]) == {"tide": 1}
    assert searches.search(TENANT, "docs", ["tide"], [], 10) == whole
    assert [match.number for match in whole] == [pending.numbers[0]]
    then = views.open(TENANT, "docs", position).lexical(["tide"], [], 10)
    assert then.scores.tolist() == [match.score for match in whole]


@pytest.mark.parametrize("damage", ["DELETE FROM lexical_postings", "DELETE FROM lexical_segments"])
def test_a_check_and_a_repair_whose_caller_has_left_stop(catalog: Catalog, docs: Collection, damage: str) -> None:
    catalog.put(docs, make_draft("the tide comes"))
    gone = Budget()
    gone.cancel()
    with pytest.raises(CallCancelledError):
        list(catalog.lexical_check.problems(gone))
    catalog.database.write(lambda connection: connection.exec_driver_sql(damage))
    with pytest.raises(CallCancelledError):
        catalog.lexical_check.rebuild(TENANT, "docs", gone)
    assert catalog.numbers_for(docs, "tide") == []


def test_a_new_catalog_has_the_words_of_this_version(catalog: Catalog) -> None:
    catalog.collections.create(make_collection())
    assert catalog.lexical_check.written_by_other_rules() == []


def test_the_time_for_a_phrase_grows_with_its_words_alone(catalog: Catalog, docs: Collection) -> None:
    chance, words = random.Random(1), [f"w{number}" for number in range(2000)]
    catalog.put(docs, make_draft(*(" ".join(chance.sample(words, len(words))) for _ in range(60)), " ".join(words)))
    counts: dict[str, int] = {}

    def count(phrase: str) -> None:
        anew = FullText(SearchViews(catalog.database))
        counts.update(anew.document_frequencies(TENANT, "docs", [phrase]))

    assert growth(lambda size: " ".join(words[:size]), count, 500) < LINEAR
    assert counts == {" ".join(words[:500]): 1, " ".join(words): 1}


def test_what_is_remembered_of_phrases_is_bounded_by_their_words(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_search, "_CACHED_WORDS", 100)
    catalog.put(docs, make_draft("the tide comes"))
    search = lexical_search.LexicalSearch()
    with catalog.database.read() as connection:
        reading = lexical_search.Reading(connection, 1, 1, None)
        for number in range(20):
            phrases = [f"tide {number} comes", " ".join([f"moon{number}"] * 30), "tide"]
            assert list(search.frequencies(reading, phrases).values()) == [0, 0, 1]
    held = [words for _, _, words in search._counts._held]
    assert len(held) > 2
    assert sum(map(len, held)) <= 100

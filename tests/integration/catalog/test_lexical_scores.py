"""Scores of the words: what they are, and that nothing but the chunks of the collection is behind them."""

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pysqlite3
import pytest

from groundwire.catalog import lexical_index
from groundwire.catalog.chunks import DuplicateChunks
from groundwire.catalog.deletions import Restorations
from groundwire.catalog.lexical_search import LexicalMatches
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CallCancelledError
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, WORDS, Catalog, make_collection, make_draft, random_words

QUERIES: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = (
    (("tide",), ()),
    (("tide", "moon", "harbour"), ()),
    (("élan", "heading", "tide", "moon", "granite", "yeast", "comet", "lantern"), ()),
    ((), ("moon tide",)),
    (("granite", "moon-tide"), ("heading 1", "tide tide")),
    (("absent", "compass"), ("granite yeast comet",)),
)
KEEPING = timedelta(hours=1)


def _texts(chance: random.Random, count: int) -> list[str]:
    return [random_words(chance, chance.randrange(1, 30)) for _ in range(count)]


def _scores(catalog: Catalog, collection: Collection, snapshot: int | None = None) -> list[list[tuple[int, float]]]:
    """Return (number, score) of every query, in the order of the results."""
    return _scores_in(catalog.views, collection, snapshot)


def _scores_in(
    views: SearchViews, collection: Collection, snapshot: int | None = None
) -> list[list[tuple[int, float]]]:
    view = views.open(collection.tenant, collection.name, snapshot)
    return [_pairs(view.lexical(terms, phrases, 1000)) for terms, phrases in QUERIES]


def _pairs(matches: LexicalMatches) -> list[tuple[int, float]]:
    return list(zip(matches.numbers.tolist(), matches.scores.tolist(), strict=True))


def _by_content(catalog: Catalog, collection: Collection) -> list[list[tuple[float, str]]]:
    """Return (score, content) of every query, which has no numbers and so may be compared between collections."""
    with catalog.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT chunk_number, content FROM chunks")
        contents = {number: content for number, content in rows}  # noqa: C416 - rows are no pairs to mypy
    found = _scores(catalog, collection)
    return [sorted((score, contents[number]) for number, score in pairs) for pairs in found]


def _fresh(catalog: Catalog, contents: dict[str, list[str]], name: str = "fresh") -> Collection:
    """Make a collection of documents that were never anything else."""
    made = catalog.collections.create(make_collection(name))
    for source, texts in contents.items():
        catalog.put(made, make_draft(*texts, source=source))
    return made


def test_scores_are_those_of_an_fts5_table_of_the_collection_alone(catalog: Catalog, docs: Collection) -> None:
    """FTS5 with the same weights and tokenizer is the oracle for matches, statistics and formula."""
    chance = random.Random(1)
    oracle = pysqlite3.connect(":memory:")
    oracle.execute("CREATE VIRTUAL TABLE t USING fts5 (c, h, tokenize = 'porter unicode61 remove_diacritics 2')")
    for source in range(25):
        texts = _texts(chance, chance.randrange(1, 5))
        catalog.put(catalog.collections.create(make_collection(f"other{source}")), make_draft(*texts))
        _, pending = catalog.put(docs, make_draft(*texts, source=f"{source}.md"))
        rows = [(pending.numbers[at], text, f"Heading {at}") for at, text in enumerate(texts)]
        oracle.executemany("INSERT INTO t (rowid, c, h) VALUES (?, ?, ?)", rows)
    compared = 0
    for (terms, phrases), found in zip(QUERIES, _scores(catalog, docs), strict=True):
        query = " OR ".join('"' + each.replace("-", " ") + '"' for each in (*terms, *phrases))
        expected = oracle.execute(
            "SELECT rowid, -bm25(t, 2.0, 4.0) FROM t WHERE t MATCH ? ORDER BY 2 DESC, 1", (query,)
        ).fetchall()
        assert dict(found) == pytest.approx(dict(expected), rel=1e-12)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        compared += len(found)
    assert compared > 200


def test_remembered_postings_change_no_score_and_go_with_a_change(catalog: Catalog, docs: Collection) -> None:
    chance, warm = random.Random(11), SearchViews(catalog.database, cache_bytes=1 << 20)
    cold = SearchViews(catalog.database, cache_bytes=0)
    for source in range(8):
        catalog.put(docs, make_draft(*_texts(chance, 6), source=f"{source}.md"))
        expected = _scores_in(cold, docs)
        # Partly known, as most queries are, then wholly.
        assert [_scores_in(warm, docs)[at] for at in (0, 3)] == [expected[at] for at in (0, 3)]
        hits = warm.caches.words.postings.hits
        assert _scores_in(warm, docs) == expected
        assert warm.caches.words.postings.hits - hits == sum(len({*terms, *phrases}) for terms, phrases in QUERIES)
    assert cold.caches.words.postings.weight == 0 < warm.caches.words.postings.weight <= 1 << 16
    # Another reader sees less, and what is remembered for all is not for it.
    catalog.documents.delete(TENANT, "docs", catalog.put(docs, make_draft("tide", source="last.md"))[0].document_id)
    assert _scores_in(warm, docs) == expected


@pytest.mark.parametrize("other_tenant", [False, True])
def test_no_other_collection_moves_a_score(catalog: Catalog, docs: Collection, other_tenant: bool) -> None:
    chance = random.Random(2)
    catalog.put(docs, make_draft(*_texts(chance, 60)))
    before = _scores(catalog, docs)
    frequencies = catalog.full_text.document_frequencies(TENANT, "docs", WORDS)
    assert min(map(len, before)) > 0
    other = catalog.collections.create(make_collection("b", "stranger" if other_tenant else TENANT))
    stored = [catalog.put(other, make_draft(*_texts(chance, 20), source=f"{n}.md"))[0] for n in range(3)]
    assert _scores(catalog, docs) == before
    catalog.documents.delete(other.tenant, "b", stored[0].document_id)
    assert _scores(catalog, docs) == before
    catalog.collections.delete(other.tenant, "b")
    assert _scores(catalog, docs) == before
    assert catalog.full_text.document_frequencies(TENANT, "docs", WORDS) == frequencies


def test_scores_after_any_changes_are_those_of_a_fresh_collection(catalog: Catalog, docs: Collection) -> None:
    chance = random.Random(3)
    keeping, restorations = catalog.collections.create(_keeping()), Restorations(catalog.database)
    for collection in (docs, keeping):
        texts: dict[str, list[str]] = {}
        documents: dict[str, tuple[str, int]] = {}
        for step in range(50):
            source = f"{chance.randrange(12)}.md"
            document_id, generation = documents.get(source, (None, 0))
            match chance.randrange(5):
                case 0 if document_id is not None:
                    catalog.documents.delete(TENANT, collection.name, document_id)
                    del documents[source], texts[source]
                case 1 if document_id is not None:
                    catalog.documents.delete(TENANT, collection.name, document_id, permanent=False)
                    restoration = restorations.begin(TENANT, collection.name, [document_id])
                    assert restoration is not None
                    restorations.finish(restoration)
                case 2:
                    draft = make_draft("tide moon", source=source, document_id=document_id, expected=generation)
                    catalog.documents.abandon(catalog.begin(collection, draft))
                case _:
                    texts[source] = _texts(chance, chance.randrange(1, 6))
                    draft = make_draft(*texts[source], source=source, document_id=document_id, expected=generation)
                    document, _ = catalog.put(collection, draft)
                    documents[source] = (document.document_id, document.generation)
            if step == 25:
                catalog.lexical_check.rebuild(TENANT, collection.name, Budget())
        fresh = _fresh(catalog, texts, f"fresh-{collection.name}")
        assert _by_content(catalog, collection) == _by_content(catalog, fresh)
        assert catalog.full_text.document_frequencies(
            TENANT, collection.name, WORDS
        ) == catalog.full_text.document_frequencies(TENANT, fresh.name, WORDS)
    assert problems_of(catalog.database) == []


def _keeping(name: str = "keeping") -> Collection:
    made = make_collection(name)
    return replace(made, settings=replace(made.settings, generation_retention=KEEPING))


def test_a_rebuild_changes_no_score(catalog: Catalog, docs: Collection) -> None:
    chance = random.Random(4)
    for number in range(20):
        catalog.put(docs, make_draft(*_texts(chance, 2), source=f"{number}.md"))
    before = _scores(catalog, docs)
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert _scores(catalog, docs) == before
    assert problems_of(catalog.database) == []


@pytest.mark.parametrize(("full", "most"), [(4096, 24), (20, 30)])
def test_segments_are_few_and_each_chunk_is_in_one(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch, full: int, most: int
) -> None:
    monkeypatch.setattr(lexical_index, "_FULL", full)
    for number in range(150):
        catalog.put(docs, make_draft(f"tide {WORDS[number % len(WORDS)]} w{number}", source=f"{number}.md"))
    with catalog.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT chunk_count, state FROM lexical_segments").all()
    assert sum(count for count, _ in rows) == 150
    assert {state for _, state in rows} == {"LIVE"}
    assert len(rows) <= most
    assert max(count for count, _ in rows) <= 2 * full
    assert catalog.full_text.document_frequencies(TENANT, "docs", ["tide", "w7"]) == {"tide": 150, "w7": 1}
    assert problems_of(catalog.database) == []


def test_a_large_document_is_searched_as_a_whole_or_not_at_all(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "_FULL", 400)  # of several segments
    texts = [f"tide number{number}" for number in range(1000)]
    pending = catalog.begin(docs, make_draft(*texts))
    assert catalog.numbers_for(docs, "tide") == []
    catalog.documents.publish(pending)
    assert catalog.numbers_for(docs, "number999") == [pending.numbers[999]]
    assert catalog.full_text.document_frequencies(TENANT, "docs", ["tide"]) == {"tide": 1000}
    assert problems_of(catalog.database) == []


def test_an_abandoned_generation_leaves_no_word(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("moon"))
    catalog.documents.abandon(catalog.begin(docs, make_draft("granite", source="b")))
    with catalog.database.read() as connection:
        words = set(connection.exec_driver_sql("SELECT word FROM lexical_postings").scalars())
    assert words == {"moon", "head", "0"}


def test_superseded_chunks_do_not_count_for_readers_of_now(catalog: Catalog) -> None:
    chance = random.Random(5)
    keeping, plain = catalog.collections.create(_keeping()), catalog.collections.create(make_collection("plain"))
    texts = {f"{number}.md": _texts(chance, 3) for number in range(8)}
    for source, of_source in texts.items():
        first, _ = catalog.put(keeping, make_draft(*_texts(chance, 5), source=source))
        catalog.put(keeping, make_draft(*of_source, source=source, document_id=first.document_id, expected=1))
        catalog.put(plain, make_draft(*of_source, source=source))
    assert _by_content(catalog, keeping) == _by_content(catalog, plain)
    with catalog.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT state, sum(chunk_count) FROM lexical_segments GROUP BY 1 ORDER BY 1")
        assert rows.all() == [("LIVE", 48), ("SUPERSEDED", 40)]


def test_a_snapshot_has_the_scores_of_its_time(catalog: Catalog) -> None:
    chance = random.Random(6)
    keeping = catalog.collections.create(_keeping())
    documents = [catalog.put(keeping, make_draft(*_texts(chance, 4), source=f"{n}.md"))[0] for n in range(6)]
    seen = []
    for number, document in enumerate(documents):
        position = catalog.views.open(TENANT, "keeping").position
        seen.append((position, _scores(catalog, keeping)))
        texts = _texts(chance, 5)
        draft = make_draft(*texts, source=f"{number}.md", document_id=document.document_id, expected=1)
        catalog.put(keeping, draft)
        catalog.put(keeping, make_draft(*_texts(chance, 2), source=f"new{number}.md"))
    now = _scores(catalog, keeping)
    assert len({str(scores) for _, scores in seen}) == len(seen)
    assert [_scores(catalog, keeping, position) for position, _ in seen] == [scores for _, scores in seen]
    assert _scores(catalog, keeping) == now
    assert problems_of(catalog.database) == []


def test_a_view_keeps_its_scores_while_others_write(catalog: Catalog) -> None:
    chance = random.Random(7)
    keeping = catalog.collections.create(_keeping())
    document, _ = catalog.put(keeping, make_draft(*_texts(chance, 30)))
    view = catalog.views.open(TENANT, "keeping")
    before, counts = [_pairs(view.lexical(*query, 1000)) for query in QUERIES], view.frequencies(WORDS)
    catalog.put(keeping, make_draft(*_texts(chance, 9), document_id=document.document_id, expected=1))
    catalog.put(keeping, make_draft("moon tide", source="b.md"))
    assert [_pairs(view.lexical(*query, 1000)) for query in QUERIES] == before
    assert view.frequencies(WORDS) == counts
    assert _scores(catalog, keeping) != before


def test_superseded_words_go_when_their_time_is_over(catalog: Catalog) -> None:
    keeping = catalog.collections.create(_keeping())
    document, _ = catalog.put(keeping, make_draft("granite secret", "moon"))
    catalog.put(keeping, make_draft("moon", document_id=document.document_id, expected=1))
    catalog.clock.advance(hours=1, minutes=1)
    assert catalog.documents.sweep_generations(keeping.uid, Budget()) == 1
    with catalog.database.read() as connection:
        assert set(connection.exec_driver_sql("SELECT word FROM lexical_postings").scalars()) == {"moon", "head", "0"}
    assert problems_of(catalog.database) == []


def test_a_chunk_that_becomes_indexed_counts_from_then_on(catalog: Catalog, docs: Collection) -> None:
    draft = make_draft("tide moon", "granite")
    repeated = [replace(chunk, indexed=chunk.sequence_num != 1) for chunk in draft.chunks]
    _, pending = catalog.put(docs, replace(draft, chunks=repeated))
    assert catalog.numbers_for(docs, "granite") == []
    duplicates = DuplicateChunks(catalog.database)
    assert duplicates.index(docs, pending.numbers)
    assert duplicates.index(docs, pending.numbers)
    assert catalog.numbers_for(docs, "granite") == [pending.numbers[1]]
    assert _by_content(catalog, docs) == _by_content(catalog, _fresh(catalog, {"a.md": ["tide moon", "granite"]}))
    assert problems_of(catalog.database) == []


def test_concurrent_writers_leave_the_index_of_their_contents(catalog: Catalog, docs: Collection) -> None:
    texts = {f"{number}.md": _texts(random.Random(number), 4) for number in range(12)}
    errors: list[BaseException] = []

    def write(sources: Sequence[str]) -> None:
        try:
            for source in sources:
                document, _ = catalog.put(docs, make_draft("tide moon tide", source=source))
                draft = make_draft(*texts[source], source=source, document_id=document.document_id, expected=1)
                catalog.put(docs, draft)
                catalog.numbers_for(docs, "tide")
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(list(texts)[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert _by_content(catalog, docs) == _by_content(catalog, _fresh(catalog, texts))
    assert problems_of(catalog.database) == []


def test_a_failure_before_the_commit_leaves_the_index_as_it_was(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, _ = catalog.put(docs, make_draft("tide moon", "granite"))
    before = _scores(catalog, docs)
    draft = make_draft("harbour tide", document_id=document.document_id, expected=1)
    pending = catalog.begin(docs, draft)

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("groundwire.catalog.audit.Audit.record", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        catalog.documents.publish(pending)
    monkeypatch.undo()
    assert _scores(catalog, docs) == before
    catalog.documents.publish(pending)
    assert catalog.numbers_for(docs, "granite") == []
    assert catalog.numbers_for(docs, "harbour") == [pending.numbers[0]]
    assert problems_of(catalog.database) == []


@pytest.mark.parametrize("far_apart", [False, True])
def test_numbers_far_apart_are_added_up_all_the_same(catalog: Catalog, docs: Collection, far_apart: bool) -> None:
    """Other collections take the numbers between, as many as a posting can tell apart and more."""
    chance = random.Random(8)
    texts = {f"{number}.md": _texts(chance, 1) for number in range(12)}
    for source, of_source in texts.items():
        if far_apart:
            catalog.database.take_chunk_numbers(70_000)
        catalog.put(docs, make_draft(*of_source, source=source))
    reference = catalog.collections.create(make_collection("reference"))
    catalog.put(reference, make_draft(*(text for each in texts.values() for text in each)))
    terms = ("tide", "moon", "harbour", "granite")
    found, expected = (
        [score for _, score in _pairs(catalog.views.open(TENANT, name).lexical(terms, ("tide moon",), 100))]
        for name in ("docs", "reference")
    )
    assert found == expected
    assert len(found) > 3
    assert problems_of(catalog.database) == []


def test_a_merge_writes_no_more_words_than_other_writers_may_wait_for(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 120
    monkeypatch.setattr(lexical_index, "_FULL_WORDS", most, raising=False)
    lengths = [3, 3, 50, 3, 130, 3] * 20
    for number, length in enumerate(lengths):
        catalog.put(docs, make_draft(" ".join([f"w{number}"] * length), source=f"{number}.md"))
    with catalog.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT chunk_count, word_count FROM lexical_segments").all()
    assert max(words for chunks, words in rows if chunks > 1) <= most
    assert len(rows) < len(lengths) / 2, "short ones are merged all the same"
    assert catalog.full_text.document_frequencies(TENANT, "docs", ["w0", "w4", "w119"]) == dict.fromkeys(
        ["w0", "w4", "w119"], 1
    )
    assert problems_of(catalog.database) == []


def test_a_rebuild_cuts_texts_while_others_write_and_takes_in_what_they_change(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [catalog.put(docs, make_draft("tide", f"w{number}", source=f"{number}"))[0] for number in range(20)]
    with catalog.database.read() as connection:
        largest = connection.exec_driver_sql("SELECT max(chunk_count) FROM lexical_segments").scalar_one()
    assert largest > 2
    # A chunk of it without a row, and rows that are wrong.
    catalog.database.write(
        lambda connection: connection.exec_driver_sql("DELETE FROM lexical_postings WHERE word='tide'")
    )
    threads, make_segments = list[str](), lexical_index.make_segments

    def changed_meanwhile(entries: Sequence[lexical_index.Entry]) -> list[lexical_index.Segment]:
        threads.append(threading.current_thread().name)
        if len(threads) == 1:
            catalog.documents.delete(TENANT, "docs", documents[3].document_id)
        return make_segments(entries)

    monkeypatch.setattr(lexical_index, "make_segments", changed_meanwhile)
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert set(threads) == {threading.current_thread().name}, "nothing is cut by the thread that writes"
    assert len(catalog.numbers_for(docs, "tide")) == 19
    assert catalog.numbers_for(docs, "w3") == []
    assert problems_of(catalog.database) == []


def test_a_rebuild_takes_in_segments_that_others_merge_meanwhile(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):  # with one more they are merged
        catalog.put(docs, make_draft("tide", source=f"{number}"))
    catalog.database.write(
        lambda connection: connection.exec_driver_sql("DELETE FROM lexical_postings WHERE word='tide'")
    )
    cut, make_segments = list[int](), lexical_index.make_segments

    def cutting(entries: Sequence[lexical_index.Entry]) -> list[lexical_index.Segment]:
        cut.extend(entry.number for entry in entries)
        if len(cut) == 3:
            catalog.put(docs, make_draft("tide", source="another"))
        return make_segments(entries)

    monkeypatch.setattr(lexical_index, "make_segments", cutting)
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert len(catalog.numbers_for(docs, "tide")) == 16
    assert problems_of(catalog.database) == []
    cut.clear()
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert len(cut) == 16, "each once, when nobody writes"


@pytest.mark.parametrize("damage", ["DELETE FROM lexical_postings", "DELETE FROM lexical_segments"])
def test_a_cancelled_rebuild_changes_nothing(catalog: Catalog, docs: Collection, damage: str) -> None:
    catalog.put(docs, make_draft("tide"))
    catalog.database.write(lambda connection: connection.exec_driver_sql(damage))
    budget = Budget()
    budget.cancel()
    with pytest.raises(CallCancelledError):
        catalog.lexical_check.rebuild(TENANT, "docs", budget)
    assert catalog.numbers_for(docs, "tide") == []


def test_a_segment_of_a_superseded_document_alone_is_not_written_anew(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a large document has in segments of its own takes no time of the writers when it is replaced."""
    chance, cut = random.Random(8), list[int]()
    monkeypatch.setattr(lexical_index, "_FULL", 20)
    keeping = catalog.collections.create(_keeping())
    catalog.put(keeping, make_draft(*_texts(chance, 12), source="b.md"))
    document, pending = catalog.put(keeping, make_draft(*_texts(chance, 50)))
    position, before = catalog.views.open(TENANT, "keeping").position, _scores(catalog, keeping)
    draft = make_draft(*_texts(chance, 4), document_id=document.document_id, expected=1)
    replacing = catalog.begin(keeping, draft)
    make_segment = lexical_index.make_segment

    def counting(high: int, entries: Sequence[lexical_index.Entry]) -> lexical_index.Segment:
        cut.extend(entry.number for entry in entries)
        return make_segment(high, entries)

    monkeypatch.setattr(lexical_index, "make_segment", counting)
    catalog.documents.publish(replacing)
    assert cut == list(pending.numbers)[40:], "those that shared a segment with chunks of the other document"
    with catalog.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT state, sum(chunk_count) FROM lexical_segments GROUP BY 1 ORDER BY 1")
        assert rows.all() == [("LIVE", 16), ("SUPERSEDED", 50)]
    assert _scores(catalog, keeping, position) == before
    assert problems_of(catalog.database) == []

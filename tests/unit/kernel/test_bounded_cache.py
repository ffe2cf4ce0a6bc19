"""What is remembered stays within its bound, and what was used last stays longest."""

import threading
from datetime import UTC, datetime

from groundwire.kernel.bounded_cache import BoundedCache, bytes_of
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("d", 3)
    assert [cache.get(key) for key in "abcd"] == [0, None, 2, 3]


def test_several_values_are_looked_up_at_once_and_count_as_used() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get_all(["b", "x", "a"]) == [1, None, 0]
    cache.put("d", 3)
    assert cache.get_all("abcd") == [0, 1, None, 3]


def test_weights_bound_the_sum_and_a_value_beyond_all_is_not_kept() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10)
    cache.put("a", "small", 4)
    cache.put("b", "small", 4)
    cache.put("huge", "huge", 11)
    assert (cache.get("a"), cache.get("huge"), cache.weight) == ("small", None, 8)
    cache.put("c", "large", 7)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.weight) == (None, None, "large", 7)
    cache.put("whole", "as much as there is room for", 10)
    assert (cache.get("c"), cache.get("whole") is None, cache.weight) == (None, False, 10)


def test_what_is_found_and_what_is_not_is_counted_once_for_each_key() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    cache.put("a", 1)
    assert (cache.get("a"), cache.get("b")) == (1, None)
    assert (cache.hits, cache.misses) == (1, 1)
    assert cache.get_all(["a", "b", "c", "d"]) == [1, None, None, None]
    assert (cache.hits, cache.misses) == (2, 4)


def test_a_value_replaces_the_one_of_its_key_also_when_it_is_too_heavy() -> None:
    cache: BoundedCache[str, int] = BoundedCache(5)
    cache.put("a", 1, 2)
    cache.put("a", 2, 3)
    assert (cache.get("a"), cache.weight, len(cache)) == (2, 3, 1)
    cache.put("a", 3, 6)
    assert (cache.get("a"), cache.weight, len(cache)) == (None, 0, 0)


def test_without_capacity_nothing_is_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(0)
    cache.put("a", 1)
    assert cache.get("a") is None


def test_threads_do_not_break_the_bound() -> None:
    cache: BoundedCache[int, int] = BoundedCache(50)

    def work(offset: int) -> None:
        for number in range(2000):
            cache.put((number * 7 + offset) % 200, number, number % 5)
            cache.get(number % 200)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 <= cache.weight <= 50


def test_bytes_of_counts_all_that_a_value_holds() -> None:
    text = "x" * 1000
    assert bytes_of() == 0
    assert 1000 < bytes_of(text) < 1100
    assert 4000 < bytes_of("\U0001f980" * 1000) < 4100, "four bytes each"
    assert bytes_of(text, None, (text, [text])) > 3000
    assert bytes_of({"a": text, text: (text, {"b": text})}) > 4000
    assert bytes_of({}) < bytes_of({"a": 1}) < 1000


def test_a_document_weighs_what_its_record_quotes_as_well() -> None:
    now, quoted = datetime(2026, 2, 10, tzinfo=UTC), [f"doc_{number:036}" for number in range(1000)]
    fields = DocumentFields(record={"type": "turn", "quoted_document_ids": quoted})
    document = Document("a", "docs", "record:a", DocumentFormat.TEXT, "0" * 64, fields, 1, 1, 1, 1, "model", now, now)
    assert document.held_bytes > 40_000

"""Memories that contradict one another are linked when they are written, as suggestions and within their scope."""

import pytest

from groundwire.api.common.v1 import record_pb2
from tests.integration.records.keeping import USER, Keeping, memory, memory_id, turn

ADA, BEN = "entity:ada", "entity:ben"


def suggested(keeping: Keeping, record_id: str) -> list[str]:
    return list(keeping.get(record_id).links.suggested_contradicts)


@pytest.mark.parametrize("scope", ["", ADA])
def test_a_memory_is_linked_with_those_that_it_contradicts_both_ways(keeping: Keeping, scope: str) -> None:
    old, other, new = map(memory_id, (1, 2, 3))
    keeping.put(memory("I live in Berlin.", scope=scope, record_id=old))
    keeping.put(memory("I live in a flat with two rooms.", scope=scope, record_id=other))
    keeping.put(memory("I moved to Hamburg.", seconds=60, scope=scope, record_id=new))
    assert suggested(keeping, new) == [old]
    assert suggested(keeping, old) == [new]
    assert suggested(keeping, other) == []


@pytest.mark.requirement("S0-33")
def test_recall_has_the_newer_of_two_values_first_though_the_older_one_fits_better(keeping: Keeping) -> None:
    old, new = memory_id(1), memory_id(2)
    keeping.put(memory("The deadline is 12 May.", importance=5, record_id=old))
    keeping.put(memory("The deadline was moved to 20 May.", importance=1, seconds=60, record_id=new))
    hits = keeping.client.collection(keeping.collection).recall("deadline is 12 May")
    assert [each.message.chunk.source_uri for each in hits] == [f"record:{new}", f"record:{old}"]
    first, second = (each.message.memory_score for each in hits)
    assert first.similarity < second.similarity
    assert first.update_bonus > 0.0
    assert second.update_bonus == 0.0
    keeping.client.collection(keeping.collection).delete_records(new)
    (left,) = keeping.client.collection(keeping.collection).recall("deadline is 12 May")
    assert left.message.chunk.source_uri == f"record:{old}"


def test_memories_of_people_do_not_contradict_those_of_others(keeping: Keeping) -> None:
    keeping.put(memory("Ada is married to Tim.", record_id=memory_id(1)))
    keeping.put(memory("Ben is married to Tim.", record_id=memory_id(2)))
    keeping.put(memory("Ada is married to Tom.", record_id=memory_id(3)))
    assert suggested(keeping, memory_id(3)) == [memory_id(1)]
    assert suggested(keeping, memory_id(2)) == []


def test_memories_of_one_batch_are_compared_with_one_another(keeping: Keeping) -> None:
    first, second = memory_id(1), memory_id(2)
    keeping.put(
        memory("The deadline is 12 May.", record_id=first),
        memory("The deadline was moved to 20 May.", seconds=1, record_id=second),
    )
    assert suggested(keeping, first) == [second]
    assert suggested(keeping, second) == [first]


def test_other_scopes_and_other_types_are_left_alone(keeping: Keeping) -> None:
    of_ada, of_ben, of_all = map(memory_id, (1, 2, 3))
    keeping.put(turn(USER, "I live in Berlin.", "conv-1", scope=ADA))
    keeping.put(memory("I live in Berlin.", scope=BEN, record_id=of_ben))
    keeping.put(memory("I live in Berlin.", record_id=of_all))
    keeping.put(memory("I live in Hamburg.", scope=ADA, record_id=of_ada))
    for record_id in (of_ada, of_ben, of_all):
        assert suggested(keeping, record_id) == []


def test_suggestions_of_other_memories_stay(keeping: Keeping) -> None:
    first, second = memory_id(1), memory_id(2)
    keeping.put(
        memory("The limit is 20 entries.", record_id=first), memory("The limit is 30 entries.", record_id=second)
    )
    keeping.put(memory("I live in Berlin.", record_id=memory_id(3)))
    keeping.put(memory("I moved to Hamburg.", seconds=60, record_id=memory_id(4)))
    assert suggested(keeping, memory_id(4)) == [memory_id(3)]
    assert suggested(keeping, first) == [second]
    assert suggested(keeping, second) == [first]


def test_a_new_text_is_compared_anew_and_a_new_importance_is_not(keeping: Keeping) -> None:
    old, new = memory_id(1), memory_id(2)
    keeping.put(memory("The limit is 20 entries.", record_id=old), memory("The limit is 30 entries.", record_id=new))
    assert suggested(keeping, new) == [old]
    keeping.change(new, "memory.importance", memory=record_pb2.MemoryDetails(importance=5))
    assert suggested(keeping, new) == [old]
    keeping.change(new, "text", text="The limit is 20 entries for everybody.")
    assert suggested(keeping, new) == []
    assert suggested(keeping, old) == []

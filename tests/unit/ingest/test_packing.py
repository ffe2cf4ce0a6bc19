"""The cheapest cutting of pieces into chunks."""

import itertools
import random

import pytest

from groundwire.ingest.chunking.splitter import Piece, pack
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit


def pieces(*sizes: int, maximum: int = 10, join: float = 0.0) -> list[Piece]:
    ends = list(itertools.accumulate(sizes))
    return [Piece(end - size, end, size, maximum, 0.0, join) for size, end in zip(sizes, ends, strict=True)]


def policy(minimum: int, target: int, min_chars: int = 1) -> ChunkingPolicy:
    return ChunkingPolicy(ChunkUnit.CHARS, target, minimum, 10, 0.0, min_chars)


def sizes_of(found: list[tuple[int, int]], given: list[Piece]) -> list[int]:
    return [sum(piece.size for piece in given[start:end]) for start, end in found]


def test_chunks_come_near_the_target() -> None:
    given = pieces(*[1] * 24)
    assert sizes_of(pack(given, policy(4, 8)), given) == [8, 8, 8]


def test_a_short_end_is_balanced_instead_of_left_over() -> None:
    given = pieces(*[1] * 11)
    assert sorted(sizes_of(pack(given, policy(4, 8)), given)) == [5, 6]


def test_a_small_piece_joins_its_neighbour_when_it_fits() -> None:
    given = pieces(8, 2, join=1.5)
    assert sizes_of(pack(given, policy(4, 8)), given) == [10]


def test_a_small_piece_stays_alone_when_it_does_not_fit() -> None:
    given = pieces(9, 2, join=1.5)
    assert sizes_of(pack(given, policy(4, 8)), given) == [9, 2]


def test_a_piece_above_the_maximum_is_a_chunk() -> None:
    given = pieces(1, 15, 1)
    assert sizes_of(pack(given, policy(1, 8)), given) == [1, 15, 1]


def test_nothing_gives_nothing() -> None:
    assert pack([], policy(1, 8)) == []


@pytest.mark.parametrize("seed", range(30))
def test_no_other_cutting_is_cheaper(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 9)
    starts = list(itertools.accumulate([chance.randint(1, 6) for _ in range(count)], initial=0))
    given = [
        Piece(start, end, end - start, 10, chance.random(), chance.random())
        for start, end in itertools.pairwise(starts)
    ]

    def cost(cuts: tuple[int, ...]) -> float:
        total = 0.0
        for start, end in itertools.pairwise((0, *cuts, count)):
            size = sum(piece.size for piece in given[start:end])
            if size > 10 and end - start > 1:
                return float("inf")
            total += ((size - 7) / 7) ** 2 + (100 if size < 4 else 0)
            total += given[end - 1].cut_cost + sum(piece.join_cost for piece in given[start : end - 1])
        return total

    every = (cuts for n in range(count) for cuts in itertools.combinations(range(1, count), n))
    chosen = tuple(start for start, _ in pack(given, policy(4, 7, 3)))[1:]
    assert cost(chosen) == pytest.approx(min(map(cost, every)))

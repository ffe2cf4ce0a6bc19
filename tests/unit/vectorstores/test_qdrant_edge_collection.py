"""What a store of qdrant-edge finds in its folder after a kill at any moment."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from groundwire.kernel.errors import StoreMismatchError
from groundwire.vectorstores.qdrant_edge.collection import Current, new_copy, publish, sweep, unpublish


def made(collection: Path) -> Path:
    copy = new_copy(collection)
    copy.mkdir()
    (copy / "data").write_text("points")
    return copy


def test_a_killed_creation_leaves_no_collection(tmp_path: Path) -> None:
    made(tmp_path / "gw-a")
    assert list(sweep(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_build_leaves_the_old_copy_alone(tmp_path: Path) -> None:
    old = made(tmp_path / "gw-a")
    publish(old, 8)
    made(tmp_path / "gw-a")
    (tmp_path / "gw-a" / "CURRENT.new").write_text("{")
    [(folder, current)] = sweep(tmp_path)
    assert (folder / current.copy, current.dimensions) == (old, 8)
    assert sorted(path.name for path in folder.iterdir()) == ["CURRENT", old.name]


def test_a_kill_after_the_swap_leaves_the_new_copy_alone(tmp_path: Path) -> None:
    old = made(tmp_path / "gw-a")
    publish(old, 8)
    new = made(tmp_path / "gw-a")
    publish(new, 8)
    [(folder, current)] = sweep(tmp_path)
    assert (current.copy, old.exists()) == (new.name, False)
    assert (folder / current.copy / "data").read_text() == "points"


def test_a_dropped_collection_does_not_come_back(tmp_path: Path) -> None:
    publish(made(tmp_path / "gw-a"), 8)
    unpublish(tmp_path / "gw-a")
    assert list(sweep(tmp_path)) == []


def test_another_metric_is_refused(tmp_path: Path) -> None:
    publish(made(tmp_path / "gw-a"), 8)
    current = tmp_path / "gw-a" / "CURRENT"
    current.write_text(json.dumps(json.loads(current.read_text()) | {"metric": "dot"}))
    with pytest.raises(StoreMismatchError) as refused:
        list(sweep(tmp_path))
    assert refused.value.metadata == {"setting": "metric", "expected": "cosine", "got": "dot"}


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"copy": 1, "dimensions": 8}'),
        *(json.dumps(asdict(Current(copy, 8))) for copy in ("copy-gone", "../gw-b")),
    ],
)
def test_a_collection_whose_current_file_is_of_no_use_is_gone_and_the_others_are_there(
    tmp_path: Path, content: str
) -> None:
    publish(made(tmp_path / "gw-a"), 8)
    publish(made(tmp_path / "gw-b"), 8)
    (tmp_path / "gw-a" / "CURRENT").write_text(content)
    assert [folder.name for folder, _ in sweep(tmp_path)] == ["gw-b"]
    assert [path.name for path in tmp_path.iterdir()] == ["gw-b"]


def test_folders_that_hold_other_things_than_collections_stay(tmp_path: Path) -> None:
    mine = tmp_path / "photographs"
    mine.mkdir()
    (mine / "sea.jpg").write_bytes(b"waves")
    (mine / "copy-of-sea.jpg").write_bytes(b"waves")
    assert list(sweep(tmp_path)) == []
    assert sorted(path.name for path in mine.iterdir()) == ["copy-of-sea.jpg", "sea.jpg"]

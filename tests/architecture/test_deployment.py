"""Images and what runs them: nothing here needs Docker or a cluster."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from scripts.image_contents import install, targets

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
FORMATS = {"charset-normalizer", "docutils", "puremagic", "pypdfium2", "python-docx", "selectolax"}
HEAVY = {"chromadb", "onnxruntime", "openvino", "qdrant-client", "qdrant-edge-py", "torch", "transformers"}


def test_there_is_a_target_for_each_service_and_one_for_all() -> None:
    assert set(targets()) == {"ingest", "retrieve", "answer", "all"}
    served = dict(re.findall(r"^FROM runtime AS (\w+)\nCOPY .*\nCMD (\[.*\])$", DOCKERFILE, re.MULTILINE))
    assert served == {name: f'["serve", "{name}"]' for name in targets()}


def test_every_extra_of_an_image_is_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {extra for extras, _ in targets().values() for extra in extras.split(",")}
    assert len(named) > len(targets())
    assert named - set(project["optional-dependencies"]) == set()


def test_images_run_as_a_normal_user_and_are_checked() -> None:
    runtime = DOCKERFILE.partition(" AS runtime\n")[2].partition("\nFROM ")[0]
    assert re.search(r"^USER 10001:10001$", runtime, re.MULTILINE)
    assert re.search(r'^HEALTHCHECK .* CMD \["groundwire", "health"\]$', runtime, re.MULTILINE)
    # No later stage takes that back.
    later = DOCKERFILE.partition(" AS runtime\n")[2].partition("\nFROM ")[2]
    assert not re.search(r"^(USER|HEALTHCHECK|RUN)", later, re.MULTILINE)


@pytest.mark.skipif(not (ROOT / "shared" / "src").exists(), reason="runs against the wheel")
def test_the_builder_gets_what_the_wheel_is_made_of_and_nothing_else(tmp_path: Path) -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert rules[0] == "*"
    allowed = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    for path in allowed:
        for found in ROOT.glob(path):
            target = tmp_path / found.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if found.is_dir() else shutil.copy
            copy(found, target)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert len(packages) == 6
    assert [package for package in packages if not (tmp_path / package).is_dir()] == []
    assert not {"tests", "docs", ".git", ".venv"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "shared" / "src").exists(), reason="runs against the wheel")
def test_images_hold_what_their_service_needs_and_no_more(tmp_path: Path) -> None:
    answer = install("answer", tmp_path)
    assert HEAVY & set(answer.packages) == set()
    assert answer.size_bytes < 150_000_000
    ingest = install("ingest", tmp_path)
    assert set(ingest.packages) >= FORMATS | {"openvino", "qdrant-client"}
    assert "torch" not in ingest.packages

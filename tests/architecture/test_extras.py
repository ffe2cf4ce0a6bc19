"""Each extra installs what its part of the package imports, and the base what the client and the command line do."""

import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
distributions = cache(packages_distributions)

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({absent!r}))  # an import of them fails
from groundwire import {part} as part
paths = getattr(part, "__path__", ())
names = [each.name for each in pkgutil.walk_packages(paths, part.__name__ + ".") if "__main__" not in each.name]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def named(requirements: list[str]) -> set[str]:
    """Return the packages that are named, in extras of ours that are named among them too."""
    found: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == "groundwire":
            found |= {name for extra in requirement.extras for name in named(EXTRAS[extra])}
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def installed_with(packages: set[str]) -> set[str]:
    """Return the packages and all that they need."""
    found: set[tuple[str, str]] = set()  # each with one of its extras, or none
    rest = {(name, "") for name in packages}
    while rest:
        name, extra = rest.pop()
        found.add((name, extra))
        try:
            needed = map(Requirement, requires(name) or ())
        except PackageNotFoundError:  # a package for another system
            continue
        for requirement in needed:
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                rest |= {(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)} - found
    return {name for name, _ in found}


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ("", "client"),
        ("", "cli"),
        ("ingest", "ingest"),
        ("retrieve", "retrieve"),
        ("answer,sessions", "answer"),
        ("standalone", "standalone"),
        ("vault", "vault"),
        ("mcp", "agents"),
    ],
)
def test_a_part_is_imported_with_what_its_extra_installs(extra: str, part: str) -> None:
    installed = installed_with(
        named(PROJECT["dependencies"]) | {name for each in extra.split(",") if each for name in named(EXTRAS[each])}
    ) | {"groundwire"}
    absent = [
        name
        for name, packages in distributions().items()
        if name.isidentifier() and not installed & set(map(canonicalize_name, packages))
    ]
    assert "pytest" in absent
    assert ("numpy" in absent) is (extra in {"", "answer,sessions", "vault", "mcp"})
    code = IMPORT_ALL.format(absent=absent, part=part)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2


def test_answers_alone_need_neither_database_nor_numpy() -> None:
    """What `serve answer --sessions memory:` runs."""
    installed = installed_with(named(PROJECT["dependencies"]) | named(EXTRAS["answer"])) | {"groundwire"}
    absent = [
        name for name, packages in distributions().items() if not installed & set(map(canonicalize_name, packages))
    ]
    assert {"numpy", "sqlalchemy", "pysqlite3"} <= set(absent)
    code = f"""
import sys
sys.modules.update(dict.fromkeys({absent!r}))
import groundwire.standalone.process, groundwire.standalone.split_answer, groundwire.rpc.access
print(sum(name.startswith("groundwire.catalog") for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_all_is_everything() -> None:
    assert named(EXTRAS["all"]) == {name for extra in EXTRAS for name in named(EXTRAS[extra])}
    assert len(named(EXTRAS["all"])) > 20

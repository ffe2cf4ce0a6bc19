"""The documentation says what is there: settings, commands, links."""

import re
from pathlib import Path

import click
import pytest

from groundwire.cli.app import app
from groundwire.cli.server import as_variable
from groundwire.standalone.settings import CLIENT_VARIABLES, load_settings
from tests.packages import HAS_SOURCES, in_checkout

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("protos/*.md"), *ROOT.glob("services/*/*.md")]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_setting_is_documented() -> None:
    documented = set(re.findall(r"`(GROUNDWIRE_[A-Z_]+)`", _text("docs/reference/settings.md")))
    assert documented == set(load_settings().shown()) | CLIENT_VARIABLES | {"GROUNDWIRE_SECRETS"}


def test_every_default_is_documented_as_it_is() -> None:
    page = _text("docs/reference/settings.md")
    rows = dict(re.findall(r"^\| `(GROUNDWIRE_[A-Z_]+)` \| `([^`]*)`", page, flags=re.MULTILINE))
    shown = {name: as_variable(value) for name, value in load_settings().shown().items()}
    fixed = {name: default for name, default in rows.items() if name in shown and default != "…"}
    assert len(fixed) > len(shown) // 2
    assert {name: shown[name] for name in fixed} == fixed


def _commands(group: click.Group, prefix: str = "groundwire") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        path = f"{prefix} {name}"
        found |= _commands(command, path) if isinstance(command, click.Group) else {path}
    return found


def test_every_command_is_documented() -> None:
    page = _text("docs/reference/command-line.md")
    missing = {path for path in _commands(app) if path.removeprefix("groundwire ") not in page}
    assert not missing


def _options(group: click.Group) -> set[str]:
    found: set[str] = set()
    for command in group.commands.values():
        if isinstance(command, click.Group):
            found |= _options(command)
        else:
            found |= {name for option in command.params for name in option.opts + option.secondary_opts}
    return {name for name in found if name.startswith("-")}


def test_every_option_is_documented() -> None:
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", _text("docs/reference/command-line.md")))
    assert _options(app) - named == set()


def _misspelt(shown: str, group: click.Group) -> list[str]:
    """Return the options of a command line, as a page shows it, that the command does not have."""
    words = re.split(r"[\s\[\]|…]+", shown.split(" | ", maxsplit=1)[0].split(" > ", maxsplit=1)[0])
    command: click.Command = group
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {name for option in command.params for name in option.opts + option.secondary_opts} | {"-h", "--help"}
    return [word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word) and word not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_shown_has_the_options_of_its_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\|", "|").replace("\\\n", " ")
    shown = re.findall(r"(?<![\w/])groundwire ((?:[^`\n]|\n(?=[^\n`]*`))+)", text)
    assert [word for line in shown for word in _misspelt(line, app)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    if not HAS_SOURCES:
        targets = [target for target in targets if not re.search(r"\bsrc/|protos/gen/", target)]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def _anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = (title.strip().lower() for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_resolve(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]*\.md)?#([^)]*)\)", page.read_text(encoding="utf-8"))
    assert [anchor for name, anchor in targets if anchor not in _anchors(page.parent / name if name else page)] == []


def _places(span: str) -> list[Path]:
    """Return what a path means that is written from the root, from within `groundwire`, or from within a service."""
    pattern = span.replace("…", "*/*").rstrip("/")
    roots = ("", "shared/src/groundwire/", "services/*/src/groundwire/", "services/*/src/groundwire/*/")
    return [place for root in roots for place in ROOT.glob(root + pattern)]


def _paths_named(text: str) -> set[str]:
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    braces = {span: re.match(r"(.*)\{(.*)\}(.*)", span) for span in spans}
    spread = {
        f"{found[1]}{part}{found[3]}" if found else span
        for span, found in braces.items()
        for part in (found[2].split(",") if found else [""])
    }
    return {span for span in spread if re.fullmatch(r"[\w…./-]+(?:/|/[\w-]+|\.(?:py|md|proto|toml|svg))", span)}


@in_checkout
def test_every_path_in_the_architecture_exists() -> None:
    named = _paths_named(_text("ARCHITECTURE.md"))
    assert len(named) > 40
    assert {span for span in named if not _places(span)} == set()


@in_checkout
def test_a_path_that_does_not_exist_is_noticed() -> None:
    named = _paths_named(
        "`retrieve/ranking.py`, `shared/…/kernel`, `catalog/gone.py`, `Budget.wait_for` and `a/{b,c}/d`"
    )
    assert named == {"retrieve/ranking.py", "shared/…/kernel", "catalog/gone.py", "a/b/d", "a/c/d"}
    assert {span for span in named if _places(span)} == {"retrieve/ranking.py", "shared/…/kernel"}


def test_nothing_names_a_place_on_a_machine() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|root|home|tmp)/", text), page


@pytest.mark.requirement("S4-45")
def test_the_tests_that_the_page_of_the_book_names_are_there() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| `([^`:]+)(?:::(\w+))?` \|$", _text("docs/reference/book-assistant.md"), re.MULTILINE
    )
    labels = {label for label, _, _ in rows}
    assert labels >= {"FR-001", "FR-002", "FR-003", "FR-006", "FR-007", "FR-008", "FR-010", "SC-004", "SC-005"}
    assert labels >= {"User story 3", "Citation-backed", "Zero hallucination"}
    missing = [(file, test) for _, file, test in rows if f"def {test}" not in _text(file)]
    assert missing == []

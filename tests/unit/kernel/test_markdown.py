"""Dialects of Markdown read as plain Markdown: nothing moves, and what stands in a note is text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.markdown import read_markdown
from groundwire.kernel.sentences import BlockKind, split_sentences
from tests.growth import LINEAR, growth


def _read(text: str) -> list[tuple[BlockKind, str]]:
    shown = read_markdown(text)
    assert len(shown) == len(text)
    return [(item.kind, shown[item.start : item.end]) for item in split_sentences(shown)]


@pytest.mark.parametrize(
    "note",
    [
        "```{note}\nFoxes sleep.\n```",
        "```{warning} Beware\n:class: red\n:name: foxes\n\nFoxes sleep.\n```",
        "````{tip}\n```{note}\nFoxes sleep.\n```\n````",
        "~~~{versionadded} 2.1\nFoxes sleep.\n~~~",
        ":::{tab-item} Linux\nFoxes sleep.\n:::",
        ":::caution Beware\n\nFoxes sleep.\n\n:::",
        '!!! note "Beware"\n\n    Foxes sleep.',
        '??? tip "Beware"\n    Foxes sleep.',
        '=== "fox.toml"\n\n    Foxes sleep.',
        "/// note | Beware\nFoxes sleep.\n///",
        "> [!NOTE]\n> Foxes sleep.",
        "(the-foxes)=\n\nFoxes sleep.",
    ],
)
def test_what_stands_in_a_note_is_text(note: str) -> None:
    assert _read(f"Owls wake.\n\n{note}\n\nMice eat.") == [
        (BlockKind.PROSE, text) for text in ("Owls wake.", "Foxes sleep.", "Mice eat.")
    ]


@pytest.mark.parametrize("mark", ['=== "Linux"', '===! "Linux"', '=== ":fontawesome-brands-linux: Linux"'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_title_of_a_tab_introduces_what_stands_in_it(mark: str, end: str) -> None:
    text = f"Owls wake.{end * 2}{mark}{end * 2}    Foxes sleep.{end * 2}Mice eat."
    assert _read(text) == [(BlockKind.PROSE, told) for told in ("Owls wake.", "Linux:", "Foxes sleep.", "Mice eat.")]


@pytest.mark.parametrize("between", ["\n: ", "\n:   ", "\r\n: ", "\n:\t"])
@pytest.mark.parametrize("term", ["Fox", "`fox`", "**Fox**", "[Fox](fox.md) and vixen"])
def test_a_term_and_its_definition_are_one_line(term: str, between: str) -> None:
    (_, told), (_, more), *rest = _read(f"{term}{between}An animal of the wood.\n  It sleeps by day.\n\nMice eat.")
    assert (" ".join(told.split()), more) == (f"{term}: An animal of the wood.", "It sleeps by day.")
    assert rest == [(BlockKind.PROSE, "Mice eat.")]


@pytest.mark.parametrize(
    "text",
    [
        "# Fox\n: An animal of the wood.",
        "Fox\n\n: An animal of the wood.",
        "Fox:\n: An animal of the wood.",
        "Fox\n:An animal of the wood.",
        "| Fox |\n: An animal of the wood.",
        "```\nFox\n: An animal of the wood.\n```",
        f"{'Fox ' * 30}\n: An animal of the wood.",
        ": An animal of the wood.",
    ],
)
def test_a_colon_below_anything_but_a_term_stays(text: str) -> None:
    assert read_markdown(text) == text


def test_code_in_a_note_and_elsewhere_stays_code() -> None:
    code = "```toml\n!!! note\n(a)=\n```{note}\n```"
    text = f"````{{note}}\nFoxes sleep.\n\n{code}\n````\n\n{code}"
    assert _read(text) == [(BlockKind.PROSE, "Foxes sleep."), (BlockKind.CODE, code), (BlockKind.CODE, code)]


def test_a_shorter_fence_ends_neither_a_note_nor_code() -> None:
    code = "```\nsleep()\n```"
    assert _read(f"````{{note}}\n{code}\n\nFoxes sleep.\n````") == [
        (BlockKind.CODE, code),
        (BlockKind.PROSE, "Foxes sleep."),
    ]
    longer = "````\n```\n!!! note\n````"
    assert _read(f"{longer}\n\nFoxes sleep.") == [(BlockKind.CODE, longer), (BlockKind.PROSE, "Foxes sleep.")]


def test_directives_that_lay_out_a_page_are_left_out_and_others_are_code() -> None:
    text = "```{toctree}\n:maxdepth: 1\nfoxes\n```\n\nOwls wake.\n\n```{code-block} python\nwake()\n```"
    assert _read(text) == [(BlockKind.PROSE, "Owls wake."), (BlockKind.CODE, "```{code-block} python\nwake()\n```")]


@pytest.mark.parametrize("text", ["Three !!! marks ??? here.", "/// three slashes and more", "A (b)= c.", ":::; x"])
def test_signs_inside_of_text_stay(text: str) -> None:
    assert read_markdown(text) == text


_LINES = ["```{note}", "```", "````", "~~~", ":::tip", ":::", "```{toctree}", "!!! note", ":class: x", "text", "", "\r"]


@given(st.lists(st.sampled_from(_LINES), max_size=12))
def test_every_text_keeps_its_length_and_its_line_ends(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown = read_markdown(text)
    assert [len(line) for line in shown.split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    "bit", ["```{note}\n", ":::", "!!! note ", ":::{note}\n:a: b\n", "/// a ", "(", "```{note}\n```\n"]
)
def test_no_text_takes_more_than_linear_time(bit: str) -> None:
    assert growth(lambda n: bit * n, read_markdown, 5000) < LINEAR

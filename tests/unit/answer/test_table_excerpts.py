"""Tables as excerpts: their rows with the header, their cells, and what says nothing."""

from dataclasses import replace

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.spans import Span
from tests.unit.answer.builders import consecutive_passages, excerpts_of, quoted, texts_of


def test_a_table_of_restructuredtext_is_read_by_header_and_row_and_quoted_as_it_stands() -> None:
    content = (
        "======  =====\nAnimal  Eats\n======  =====\nSeal    small\n        fish\nWhale   krill\n======  =====\n\n"
        ".. attribute:: Seal.\\ name\n\n   Seals have many names at sea.\n"
    )
    seal, whale, whole, told = excerpts_of(content, Markup.RST)
    assert (seal.text, quoted(seal)) == ("Animal Seal: small fish", "Seal    small\n        fish")
    ((passage, start, end),) = seal.header
    assert passage.content[start:end] == "Animal  Eats"
    assert (whale.text, whole.text, whole.is_whole) == ("Animal Whale: krill", "Animal: Seal, Whale.", True)
    assert (told.heading, told.text, told.opens) == ("Seal.name", "Seals have many names at sea.", True)


def test_a_row_of_a_table_is_read_with_its_header() -> None:
    content = "| Exit code | Meaning |\n|------|-----|\n| `2` | the *request* is wrong |\n| 3 | – |"
    row, other, whole = excerpts_of(content)
    assert row.text == "Exit code 2: the request is wrong"
    assert quoted(row) == "| `2` | the *request* is wrong |"
    ((passage, start, end),) = row.header
    assert passage.content[start:end] == "| Exit code | Meaning |"
    assert other.text == "Exit code 3"
    assert (whole.text, whole.is_whole) == ("Exit code: 2, 3.", True)
    assert quoted(whole) == content


def test_a_value_of_the_first_column_is_listed_once() -> None:
    content = "| Owl | Food |\n|---|---|\n| Barn owl | voles |\n| Barn owl | mice |\n| Tawny owl | mice |"
    *_, whole = excerpts_of(content)
    assert (whole.text, whole.is_whole) == ("Owl: Barn owl, Tawny owl.", True)


def test_a_part_of_a_long_table_is_read_with_the_header_that_another_chunk_has() -> None:
    top, _, part = consecutive_passages(
        "| Owl | Eggs | Food |\n|---|---|---|\n| Barn | 5 | voles |", "| Tawny | 3 | mice |", "| Snowy | 7 | hares |"
    )
    snowy, barn = find_excerpts([part, top])
    assert snowy.text == "Owl Snowy: Eggs: 7; Food: hares"
    ((passage, start, end),) = snowy.header
    assert (passage, passage.content[start:end]) == (top, "| Owl | Eggs | Food |")
    assert barn.text == "Owl Barn: Eggs: 5; Food: voles"


@pytest.mark.parametrize(
    "other",
    [
        {"document_id": "doc_2"},
        {"generation": 2},
        {"section_heading": "Hawks"},
        {"content": "| Owl | Eggs |\n|---|---|\n| Barn | 5 |"},
        {"span": Span(900, 960, 900, 960)},
    ],
)
def test_no_row_is_read_with_the_header_of_another_table(other: dict[str, object]) -> None:
    top, _, part = consecutive_passages(
        "| Owl | Eggs | Food |\n|---|---|---|\n| Barn | 5 | voles |", "| Tawny | 3 | mice |", "| Snowy | 7 | hares |"
    )
    (snowy,) = [each for each in find_excerpts([replace(top, **other), part]) if "Snowy" in each.text]  # type: ignore[arg-type]  # any field
    assert (snowy.text, snowy.header) == ("Snowy: 7; hares", ())


def test_of_two_tables_above_the_nearer_one_has_the_header() -> None:
    far, _, near, _, part = consecutive_passages(
        "| Bird | Eggs |\n|---|---|\n| Rook | 4 |",
        "Owls are other birds.",
        "| Owl | Young |\n|---|---|\n| Barn | 5 |",
        "| Tawny | 3 |",
        "| Snowy | 7 |",
    )
    texts = [each.text for each in find_excerpts([near, far, part])]
    assert texts[-1] == "Owl Snowy: 7"


def test_a_table_in_html_is_read_as_one_in_markdown() -> None:
    content = (
        "Some ducks:\n\n<table>\n  <tr>\n    <th>Duck</th>\n    <th>Name in French</th>\n  </tr>\n"
        "  <tr>\n    <td>Huey</td>\n    <td><b>Riri</b></td>\n  </tr>\n  <tr><td>Dewey</td><td>Fifi</td></tr>\n</table>"
    )
    row, other, whole = excerpts_of(content)
    assert row.text == "Duck Huey: Riri"
    assert quoted(row) == "<td>Huey</td>\n    <td><b>Riri</b></td>"
    ((passage, start, end),) = row.header
    assert passage.content[start:end] == "<th>Duck</th>\n    <th>Name in French</th>"
    assert (other.text, quoted(other)) == ("Duck Dewey: Fifi", "<td>Dewey</td><td>Fifi</td>")
    assert (whole.text, whole.is_whole) == ("Duck: Huey, Dewey.", True)
    assert not any(each.kind is BlockKind.TABLE for each in excerpts_of(content, Markup.NONE))


def test_columns_beyond_the_second_are_named() -> None:
    content = "| Setting | Default | Unit |\n|---|---|---|\n| IDLE | 1800 | seconds |\n| a\\|b | | none of them |"
    row, other, _ = excerpts_of(content)
    assert row.text == "Setting IDLE: Default: 1800; Unit: seconds"
    assert other.text == "Setting a|b: Unit: none of them"


def test_a_row_that_repeats_its_name_says_nothing() -> None:
    rows = texts_of("| Action | Key | Text |\n|---|---|---|\n| Move owl |  | Move owl |\n| Feed owl | F | Feed owl |\n")
    assert "Action Feed owl: Key: F; Text: Feed owl" in rows
    assert not any(each.startswith("Action Move") for each in rows)


def test_a_row_that_only_points_elsewhere_says_nothing() -> None:
    rows = "| Default: | See usage for details |\n| Status: | Compare the table of owls |\n| Syntax: | Owl on |\n"
    assert texts_of(f"## Owl\n\n{rows}") == ["Owl: Syntax: Owl on"]


def test_the_sentence_of_a_wide_row_comes_before_its_other_cells() -> None:
    row, other = excerpts_of("| FULL | ABORTED | – | The den has no room. |\n| EMPTY | OK | no | none |\n")
    assert row.text == "FULL: The den has no room. (ABORTED)"
    assert other.text == "EMPTY: OK; no; none"


def test_empty_cells_of_a_table_leave_nothing_behind() -> None:
    rows = "|  | eats small mice |\n|  | eats ripe berries |\n"
    assert texts_of(f"| Animal | Food |\n|---|---|\n{rows}") == ["eats small mice", "eats ripe berries"]
    assert texts_of(rows) == ["eats small mice", "eats ripe berries"]


def test_a_table_that_chunks_cut_apart_is_read_as_one() -> None:
    first, second = consecutive_passages(
        "| Format | Names |\n|---|---|\n| pdf | .pdf |", "| rst | .rst |\n| csv | .csv |"
    )
    found = find_excerpts([second, first])
    assert [each.text for each in found] == [
        *("Format pdf: .pdf", "Format rst: .rst", "Format csv: .csv", "Format: pdf, rst, csv."),
    ]
    row, whole = found[1], found[-1]
    assert row.passage is second
    assert quoted(row) == "| rst | .rst |"
    assert row.header == ((first, 0, 18),)
    assert (whole.passage, whole.rest) == (first, ((second, 0, len(second.content)),))


def test_a_table_of_fields_below_a_heading_describes_what_that_names() -> None:
    content = "## Owls Directive\n\n| Description: | How many owls there are |\n| Default: | Owls 12 |\n"
    described, default = excerpts_of(content)
    assert (described.text, described.field_of) == ("Owls Directive: How many owls there are", "")
    assert (default.text, default.field_of) == ("Owls Directive: Default: Owls 12", "Owls Directive")
    assert [content[start:end] for _, start, end in default.header] == ["## Owls Directive"]
    assert quoted(default) == "| Default: | Owls 12 |"
    # The title of a page in a dump is no name that its fields are said of.
    (untitled,) = excerpts_of("= Owls =\n\n| Default: | owls by night |\n")
    assert (untitled.text, untitled.field_of, untitled.header) == ("Default: owls by night", "", ())
    assert texts_of("## Owls\n\n| Default: | Owls 12 | by night |\n") == ["Default: Owls 12; by night"]
    headed = "## Owls\n\n| Name | Eats |\n|---|---|\n| Strix: | mice by night |\n| Bubo: | mice by day |\n"
    row, _, whole = excerpts_of(headed)
    assert (row.text, row.field_of) == ("Name Strix: mice by night", "")
    assert excerpts_of(f"Owls are these ones:\n\n{headed[9:]}")[-1].about.endswith("Owls are these ones:")
    assert whole.about == "Owls"
    assert texts_of("| Owls: | birds of the night |\n| Foxes: | beasts of the day |")[0] == "Owls: birds of the night"


def test_the_only_row_of_a_table_describes_what_the_name_above_it_is() -> None:
    table = "| type | default | legacy |\n|---|---|---|\n| integer | 8k owls | none |\n"
    (row,) = excerpts_of(f"## maxSize\n\n{table}")
    assert row.text == "maxSize: type: integer; default: 8k owls; legacy: none"
    assert [f"## maxSize\n\n{table}"[start:end] for _, start, end in row.header] == [
        "| type | default | legacy |",
        "## maxSize",
    ]
    for other in (f"## Sizes of owls\n\n{table}", table, f"## maxSize\n\n{table}| word | two owls | none |\n"):
        assert excerpts_of(other)[0].text == "type integer: default: 8k owls; legacy: none"

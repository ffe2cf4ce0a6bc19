"""Tables of PDF pages, which are found by where their cells stand."""

from collections.abc import Sequence

from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from tests.unit.ingest.made_files import Placed, make_pdf


def read(*pages: Sequence[Placed]) -> SourceText:
    return read_pdf(make_pdf(pages), ReadingLimits(), "content")


def lines(top: float, *texts: str, font: str = "F1", size: float = 11) -> list[Placed]:
    return [(72, top - 14 * number, font, size, text) for number, text in enumerate(texts)]


def rows(top: float, *cells: Sequence[str], font: str = "F1") -> list[Placed]:
    places = (72, 260, 340, 420)
    return [
        (x, top - 16 * number, font, 11, text)
        for number, row in enumerate(cells)
        for x, text in zip(places, row, strict=False)
        if text
    ]


BODY = lines(700, "The harbour opens at six in the", "morning and closes at ten.")


def test_text_without_a_table_stays_as_it_is() -> None:
    assert read([*BODY, *rows(670, ("Fosmid", "40 kb"), ("BAC", "150 kb"))]).text == (
        "The harbour opens at six in the\nmorning and closes at ten.\nFosmid 40 kb\nBAC 150 kb"
    )


def test_rows_whose_gaps_line_up_are_a_table_with_the_years_as_header() -> None:
    table = rows(640, ("", "2023", "2022"), ("Revenue", "$ 1,250", "$ 1,100"), ("Net income", "(35)", "80"))
    found = read([*BODY, *table])
    assert found.text.endswith(
        "closes at ten.\n\n"
        "|  | 2023 | 2022 |\n"
        "| --- | --- | --- |\n"
        "| Revenue | $ 1,250 | $ 1,100 |\n"
        "| Net income | (35) | 80 |"
    )


def test_a_bold_first_row_names_columns_of_words() -> None:
    header = rows(640, ("Plant", "State", "Owner"), font="F2")
    table = rows(624, ("Callaway", "Missouri", "Ameren"), ("Cooper", "Nebraska", "Public Power"))
    found = read([*BODY, *header, *table])
    assert "| Plant | State | Owner |\n| --- | --- | --- |\n| Callaway | Missouri | Ameren |" in found.text


def test_a_table_without_names_of_columns_gets_none() -> None:
    table = rows(640, ("Fosmid", "40 kb", "2.0M"), ("BAC", "150 kb", "0.6M"), ("Plasmid", "4 kb", "8.1M"))
    assert "| Fosmid | 40 kb | 2.0M |\n| BAC |" in read([*BODY, *table]).text


def test_a_cell_without_text_stays_empty() -> None:
    table = rows(640, ("Share", "2023", "2022"), ("Ada", "70", "60"), ("Bob", "", "40"))
    assert "| Bob |  | 40 |" in read([*BODY, *table]).text


def test_bullets_belong_to_their_items() -> None:
    items = [
        each
        for number, text in enumerate(("Gym", "Yoga", "Skiing"))
        for each in ((72, 640 - 16 * number, "F1", 11, "-"), (100, 640 - 16 * number, "F1", 11, text))
    ]
    assert read([*BODY, *items]).text.endswith("\n- Gym\n- Yoga\n- Skiing")


def test_columns_of_prose_are_no_table() -> None:
    column = [
        "the boats that come in at night are",
        "lit by two lamps on the outer mole",
        "and are led in by the pilots there",
    ]
    prose = [(x, 640 - 14 * number, "F1", 8, text) for number, text in enumerate(column) for x in (72, 320)]
    assert "|" not in read([*BODY, *prose]).text


def test_a_table_of_contents_is_no_table() -> None:
    contents = rows(640, ("Tides ......", "3"), ("Waves ......", "7"), ("Winds ......", "9"))
    assert "|" not in read([*BODY, *contents]).text


def cells(top: float, *placed: tuple[float, int, str], font: str = "F1") -> list[Placed]:
    """Return pieces by column and line, in the order of the file."""
    return [(x, top - 12 * line, font, 10, text) for x, line, text in placed]


HEADER = cells(640, (72, 0, "Code"), (130, 0, "Meaning"), (300, 0, "What to do"), font="F2")
WRAPPED = (
    "| Code | Meaning | What to do |\n| --- | --- | --- |\n"
    "| E1 | The sensor is broken, or it is not connected. |"
    " Wait for ten minutes and call the centre if it comes back. |\n"
    "| E2 | The fan is blocked. | Clean the grille. |\n"
    "| E3 | The heater has fallen over. | Place it upright on level ground. |"
)


def test_rows_of_several_lines_are_read_cell_by_cell() -> None:
    first = cells(622, (72, 0, "E1"), (130, 0, "The sensor is broken, or it"), (130, 1, "is not connected."))
    first += cells(
        622, (300, 0, "Wait for ten minutes and call"), (300, 1, "the centre if it comes"), (300, 2, "back.")
    )
    second = cells(582, (72, 0, "E2"), (130, 0, "The fan is blocked."), (300, 0, "Clean the grille."))
    third = cells(566, (72, 0, "E3"), (130, 0, "The heater has fallen"), (130, 1, "over."))
    third += cells(566, (300, 0, "Place it upright on level"), (300, 1, "ground."))
    below = lines(520, "Call the service centre for all other codes that are shown.", size=10)
    found = read([*BODY, *HEADER, *first, *second, *third, *below])
    assert found.text.endswith(f"\n\n{WRAPPED}\n\nCall the service centre for all other codes that are shown.")


def test_rows_of_several_lines_are_read_from_side_to_side() -> None:
    first = cells(
        622, (72, 0, "E1"), (130, 0, "The sensor is broken, or it"), (300, 0, "Wait for ten minutes and call")
    )
    first += cells(610, (130, 0, "is not connected."), (300, 0, "the centre if it comes"), (300, 1, "back."))
    second = cells(582, (72, 0, "E2"), (130, 0, "The fan is blocked."), (300, 0, "Clean the grille."))
    third = cells(566, (72, 0, "E3"), (130, 0, "The heater has fallen"), (300, 0, "Place it upright on level"))
    third += cells(554, (130, 0, "over."), (300, 0, "ground."))
    assert read([*BODY, *HEADER, *first, *second, *third]).text.endswith(f"\n\n{WRAPPED}")


def test_two_columns_with_rows_of_several_lines_are_a_table_below_a_bolder_row() -> None:
    below = cells(622, (72, 0, "E1"), (130, 0, "The sensor is broken, or it"), (130, 1, "is not connected."))
    below += cells(590, (72, 0, "E2"), (130, 0, "The fan is blocked."))
    below += cells(574, (72, 0, "E3"), (130, 0, "The heater has fallen"), (130, 1, "over."))
    table = (
        "| Code | Meaning |\n| --- | --- |\n| E1 | The sensor is broken, or it is not connected. |\n"
        "| E2 | The fan is blocked. |\n| E3 | The heater has fallen over. |"
    )
    for font, is_table in (("F2", True), ("F1", False)):
        header = cells(640, (72, 0, "Code"), (130, 0, "Meaning"), font=font)
        assert (table in read([*BODY, *header, *below]).text) == is_table


def test_a_line_right_below_a_table_is_no_row_of_it() -> None:
    below = cells(622, (72, 0, "E1"), (130, 0, "The sensor is broken, or it"), (300, 0, "Wait for ten minutes."))
    below += cells(610, (130, 0, "is not connected."))
    below += cells(594, (72, 0, "E2"), (130, 0, "The fan is blocked."), (300, 0, "Clean the grille."))
    below += cells(578, (72, 0, "Maker"))
    assert read([*BODY, *HEADER, *below]).text.endswith("\n| E2 | The fan is blocked. | Clean the grille. |\n\nMaker")


def test_items_with_numbers_at_the_margin_are_no_table() -> None:
    items = [
        *cells(
            640, (72, 0, "[10]"), (110, 0, "Ada Flett, Of the tides and of the moon, and of what"), (110, 1, "pulls.")
        ),
        *cells(
            614, (72, 0, "[11]"), (110, 0, "Lin Po, Of the winds and of the sails, and of all that"), (110, 1, "blows.")
        ),
        *cells(
            588, (72, 0, "[12]"), (110, 0, "Jon Berg, Of the lamps and of the oil, and of all who"), (110, 1, "wait.")
        ),
    ]
    assert "|" not in read([*BODY, *items]).text


def test_words_that_a_line_end_divides_are_whole_in_a_cell() -> None:
    first = cells(622, (72, 0, "E1"), (130, 0, "The sensor is not con-"), (130, 1, "nected."), (300, 0, "Wait."))
    second = cells(590, (72, 0, "E2"), (130, 0, "The fan is blocked."), (300, 0, "Clean the grille."))
    assert "| E1 | The sensor is not connected. | Wait. |" in read([*BODY, *HEADER, *first, *second]).text

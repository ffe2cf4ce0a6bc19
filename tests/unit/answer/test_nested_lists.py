"""Lists within lists as excerpts: items with what they stand below, and all that stands below one."""

import pytest

from groundwire.kernel.sentences import BlockKind
from tests.unit.answer.builders import excerpts_of, make_scored, quoted

CARE = (
    "# Care\n\n- **Weekly**\n  - Wipe the display of the kettle.\n  - Empty the tray.\n"
    "- **Monthly**\n  - Descale the plate.\n  - Grease the gasket.\n    - Use no oil.\n"
)


def test_an_item_is_read_with_the_label_that_it_stands_below() -> None:
    items = [each for each in excerpts_of(CARE) if not each.is_whole]
    assert [each.text for each in items] == [
        "Weekly: Wipe the display of the kettle.",
        "Weekly: Empty the tray.",
        "Monthly: Descale the plate.",
        "Monthly: Grease the gasket.",
        "Use no oil.",
    ]
    ((passage, start, end),) = items[2].header
    assert (quoted(items[2]), passage.content[start:end]) == ("Descale the plate.", "**Monthly**")
    # What ends with a full stop is a sentence, and what stands below it says something by itself.
    assert (items[4].header, items[4].about) == ((), "Care  Monthly Grease the gasket.")


def test_what_stands_below_a_label_is_quoted_as_a_whole() -> None:
    weekly, monthly, every = [each for each in excerpts_of(CARE) if each.is_whole]
    assert weekly.text == "Weekly:\n- Wipe the display of the kettle.\n- Empty the tray."
    assert monthly.text == "Monthly:\n- Descale the plate.\n- Grease the gasket.\n  - Use no oil."
    assert quoted(monthly) == CARE[CARE.index("**Monthly") :].rstrip()
    assert every.text.splitlines()[:3] == ["- Weekly", "  - Wipe the display of the kettle.", "  - Empty the tray."]
    assert every.text.splitlines()[-1] == "    - Use no oil."


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("9. Fill the kettle with water.", "10. Close the lid of the kettle."),
        ("- Fill the kettle.", "- Close the lid of the kettle."),
        ("- Is the kettle full?", "  - Close the lid of the kettle."),
        ("- When the kettle is full:", "  - Close the lid of the kettle."),
        ("- Beside the kettle stands a lid that fits it", "  - Close the lid of the kettle."),
    ],
)
def test_an_item_below_no_label_is_read_alone(first: str, second: str) -> None:
    (closing,) = [
        each
        for each in excerpts_of(f"{first}\n{second}\n")
        if each.text.endswith("Close the lid of the kettle.") and not each.is_whole
    ]
    assert (closing.text, closing.header) == ("Close the lid of the kettle.", ())


@pytest.mark.parametrize("item", ["TODO: say more of it.", "Read item [1] of it.", "Is it full?", "See above."])
def test_what_says_nothing_says_nothing_below_a_label_either(item: str) -> None:
    found = excerpts_of(f"- Weekly\n  - {item}\n  - Empty the tray.\n")
    assert [each.text for each in found if not each.is_whole] == ["Weekly: Empty the tray."]


def test_a_list_further_in_is_shown_from_its_own_margin() -> None:
    found = excerpts_of("- Kettle\n  - Weekly\n    - Wipe the display.\n    - Empty the tray.\n")
    assert [each.text for each in found if each.is_whole][1] == "Weekly:\n- Wipe the display.\n- Empty the tray."
    assert [each.about for each in found if each.text == "Weekly: Empty the tray."] == ["Title 1  Kettle Weekly"]


def test_a_label_with_one_item_is_no_list() -> None:
    found = excerpts_of("- Yearly\n  - Replace the impeller of the pump.\n")
    assert [each.text for each in found if each.is_whole] == ["- Yearly\n  - Replace the impeller of the pump."]
    assert [each.text for each in found if not each.is_whole] == ["Yearly: Replace the impeller of the pump."]


def test_all_that_stands_below_a_label_answers_a_question_for_it() -> None:
    def best(question: str) -> str:
        return max(make_scored(question, CARE), key=lambda each: each.score).excerpt.text

    assert best("What has to be done monthly?").startswith("Monthly:\n- Descale")
    assert best("What has to be greased monthly?") == "Monthly: Grease the gasket."


def test_items_of_a_quote_nest_by_their_own_indents() -> None:
    found = excerpts_of("> - Weekly\n>   - Wipe the display of the kettle.\n> - Empty the tray of the kettle.\n")
    texts = [each.text for each in found if each.kind is BlockKind.LIST_ITEM and not each.is_whole]
    assert texts == ["Weekly: Wipe the display of the kettle.", "Empty the tray of the kettle."]

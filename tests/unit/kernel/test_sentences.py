"""Sentences are exact ranges, never run across structure, and leave markers outside."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.sentences import BlockKind, code_spans, heading_text, split_blocks, split_sentences
from tests.growth import LINEAR, growth


def _texts(text: str) -> list[str]:
    return [text[sentence.start : sentence.end] for sentence in split_sentences(text)]


def _kinds(text: str) -> list[BlockKind]:
    return [sentence.kind for sentence in split_sentences(text)]


def test_a_paragraph_is_split_at_full_stops_also_across_lines() -> None:
    assert _texts("One is\nhere. Two is! Is three? Yes.") == ["One is\nhere.", "Two is!", "Is three?", "Yes."]


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith wrote it, e.g. in Fig. 3 of the book.",
        "It costs 3.14 dollars at J. R. Miller & Co. in town.",
        "Call `foo. Bar` now.",
        "See i.e. The Book for more.",
        "He waited... and left.",
        "He waited . . . and left.",
        "Version 1.2.3 of node.js works.",
        "Roe v. Wade was decided in 1973.",
        "They climbed Mt. Rainier with Capt. Hook and Lt. Col. Sanders.",
        "William Bonney, a.k.a. Billy the Kid, was born in the U.S. Army.",
        "He lives at no. 5, see fig. 3 and vol. 2 of it.",
        "It says so [Bart, Op. Cit., p. 62] as in the 3rd ed. Oxford printed, eds. Hook and Smee.",
        "Nicht genommene Tage verfallen am 31. März des Folgejahres.",
        "Der 1. FC gewann im 19. Jahrhundert nichts, auch nicht bis zum 3. Oktober.",
        "Stichtag ist 31. August 2024 oder 1. Mai.",
        "Dies gilt z. B. für Ärzte, d. h. Mediziner, vgl. § 5 Abs. 2 und Nr. 7 bzw. Art. 12.",
        "La Sra. Gómez y el Sr. Pérez llegaron, p. ej. en tren.",
        "Mlle. Dupont habite p. ex. Lyon.",
        "Der Preis einschl. der Steuer steht voraussichtl. morgen fest.",
        "The min. value is six letter. and the max. one is not.",
        'He said "I left the building." and left.',
        "Figure 14.27. The toolbox of the loom",
        "Table 3. Looms by their age",
    ],
)
def test_stops_inside_a_sentence_do_not_end_it(text: str) -> None:
    assert _texts(text) == [text]


def test_an_abbreviation_that_may_end_a_sentence_does_before_a_capital() -> None:
    assert _texts("Apples, pears, etc. Bread is extra.") == ["Apples, pears, etc.", "Bread is extra."]


def test_a_sentence_may_begin_with_a_name_in_small_letters_behind_a_long_word() -> None:
    assert _texts("The kernel mounts a filesystem. initramfs contains modules.") == [
        "The kernel mounts a filesystem.",
        "initramfs contains modules.",
    ]
    assert _texts("It ends with the implementation. countdown is a number.")[1] == "countdown is a number."


def test_closing_marks_belong_to_the_sentence_before() -> None:
    assert _texts('He said "Stop." (Really.) Then **he left.** Silence.') == [
        'He said "Stop."',
        "(Really.)",
        "Then **he left.**",
        "Silence.",
    ]


def test_notes_and_their_pages_belong_to_the_sentence_before() -> None:
    assert _texts("He came.[4][b] He saw.[23]: 105\u00a0 He won.[7]: 10-12 Items: 5.") == [
        "He came.[4][b]",
        "He saw.[23]: 105",
        "He won.[7]: 10-12",
        "Items: 5.",
    ]


def test_raised_references_to_notes_belong_to_the_sentence_before() -> None:
    text = "Signed in 1648.\u00b9\u00b2 It ended the war.\u00b3,\u2074 Areas of 10\u00b3 m\u00b2 count. So be it."
    assert _texts(text) == [
        "Signed in 1648.\u00b9\u00b2",
        "It ended the war.\u00b3,\u2074",
        "Areas of 10\u00b3 m\u00b2 count.",
        "So be it.",
    ]


def test_numbers_end_sentences_where_they_are_no_ordinals() -> None:
    assert _texts("I am 31. She is 30. It rose to 31. April came.") == [
        "I am 31.",
        "She is 30.",
        "It rose to 31.",
        "April came.",
    ]
    assert _texts("Das Jahr war 1990. März folgte.") == ["Das Jahr war 1990.", "März folgte."]
    assert _texts("He said no. Nobody came.") == ["He said no.", "Nobody came."]


def test_an_ellipsis_with_spaces_ends_a_sentence_where_another_one_begins() -> None:
    assert _texts("He waited . . . Then he left.") == ["He waited . . .", "Then he left."]
    assert _texts("It runs on a PC here. .NET is another matter.") == [
        "It runs on a PC here.",
        ".NET is another matter.",
    ]


def test_stops_of_arabic_urdu_and_hindi_end_sentences() -> None:
    assert _texts("المدرسة كبيرة. متى تبدأ؟ غدا.") == ["المدرسة كبيرة.", "متى تبدأ؟", "غدا."]
    assert _texts("यह एक वाक्य है। यह दूसरा है।") == ["यह एक वाक्य है।", "यह दूसरा है।"]
    urdu = ["\u06cc\u06c1 \u0627\u06cc\u06a9\u06d4", "\u06cc\u06c1 \u062f\u0648\u06d4"]
    assert _texts(" ".join(urdu)) == urdu


def test_full_width_stops_end_sentences_without_white_space() -> None:
    assert _texts("\u4f60\u597d\u3002\u518d\u89c1\u3002") == ["\u4f60\u597d\u3002", "\u518d\u89c1\u3002"]


def test_headings_lists_tables_code_and_prose_stay_apart() -> None:
    text = "# Title\nText here.\n- one item\n- two item\n\n| a | b |\n|---|---|\n\n```rust\nlet x = 1. + 2.;\n```\nEnd."
    assert _kinds(text) == [
        BlockKind.HEADING,
        BlockKind.PROSE,
        BlockKind.LIST_ITEM,
        BlockKind.LIST_ITEM,
        BlockKind.TABLE,
        BlockKind.CODE,
        BlockKind.PROSE,
    ]


def test_rows_of_a_table_need_no_border_at_their_ends() -> None:
    table = "> Who | What\n> --- | :-:\n> owls | mice\n"
    text = f"> Owls a | b\n> eat:\n{table}> They sleep.\n\nBy day | night.\n\n- a\n- | b\n"
    assert [(each.kind, text[each.start : each.end]) for each in split_blocks(text)] == [
        (BlockKind.PROSE, "Owls a | b\n> eat:"),
        (BlockKind.TABLE, "Who | What\n> --- | :-:\n> owls | mice"),
        (BlockKind.PROSE, "They sleep."),
        (BlockKind.PROSE, "By day | night."),
        (BlockKind.LIST_ITEM, "- a"),
        (BlockKind.LIST_ITEM, "- | b"),
    ]
    assert _kinds("No cells\n--- | ---") == [BlockKind.PROSE, BlockKind.TABLE]


@pytest.mark.parametrize("badge", ["[![npm](a.svg)](b)", "[![npm][a]][b]", "![npm](a.svg)"])
def test_badges_are_layout(badge: str) -> None:
    assert _kinds(f"{badge}\n{badge}\n\nOwls sleep.") == [BlockKind.MARKUP, BlockKind.PROSE]


def test_footnotes_are_items_of_their_own_but_definitions_of_links_are_layout() -> None:
    text = "Foxes eat.[^1]\n\n[^1]: At night. In\n    the woods.\n[^owl]: Owls do.\n[a]: https://example.org\n"
    assert [(each.kind, text[each.start : each.end]) for each in split_sentences(text)] == [
        (BlockKind.PROSE, "Foxes eat.[^1]"),
        (BlockKind.LIST_ITEM, "At night."),
        (BlockKind.LIST_ITEM, "In\n    the woods."),
        (BlockKind.LIST_ITEM, "Owls do."),
        (BlockKind.MARKUP, "[a]: https://example.org"),
    ]


def test_list_markers_and_whole_emphasis_are_left_outside() -> None:
    assert _texts("1. **Bold whole.**\n* _Quiet one._\n- [x] Done task.") == ["Bold whole.", "Quiet one.", "Done task."]


@pytest.mark.parametrize("mark", ["***", "**", "__", "*", "_"])
def test_whole_emphasis_is_left_outside_wherever_it_stands(mark: str) -> None:
    for length in range(1, 10):
        before = "A" * length + "."
        assert _texts(f"{before}\n\n{mark}Whole one.{mark}\n") == [before, "Whole one."]


def test_emphasis_of_a_part_stays_whole() -> None:
    assert _texts("**Term:** its meaning.") == ["**Term:** its meaning."]


def test_quote_marks_are_outside_and_quoted_structure_counts() -> None:
    text = "> ## Note\n>\n> First line\n> goes on. Second.\n>\n> - item one"
    assert _texts(text) == ["## Note", "First line\n> goes on.", "Second.", "item one"]
    assert _kinds(text)[0] is BlockKind.HEADING


def test_an_underlined_line_is_a_heading() -> None:
    assert _kinds("Title\n=====\n\nText.") == [BlockKind.HEADING, BlockKind.PROSE]


def test_code_that_speaks_of_fences_does_not_turn_the_prose_before_it_into_code() -> None:
    text = "Prose.\n```\ncode\n```rust\nlet x;\n```rust\nmore\n```\nEnd."
    assert _kinds(text) == [BlockKind.PROSE, BlockKind.CODE, BlockKind.PROSE]


def test_code_is_one_block_even_when_the_text_begins_inside_it() -> None:
    text = "let a = 1;\n```\nProse here.\n\n```rust\nlet b = 2;\n```\n"
    assert _kinds(text) == [BlockKind.CODE, BlockKind.PROSE, BlockKind.CODE]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("call(1)\ncall(2)\n```\n\nThe owls wake.", [BlockKind.CODE, BlockKind.PROSE]),
        ("call(1)\n```", [BlockKind.CODE]),
        ("call(1)\n```\n\nThe owls wake:\n\n```\nwake()\n```\n", [BlockKind.CODE, BlockKind.PROSE, BlockKind.CODE]),
        ("  call(1)\n  ```\n3. The owls wake.", [BlockKind.CODE, BlockKind.LIST_ITEM]),
        # These begin code, which nothing ends in the second.
        ("The owls wake:\n```\nwake()\n```\n", [BlockKind.PROSE, BlockKind.CODE]),
        ("The owls wake:\n```\nwake()", [BlockKind.PROSE, BlockKind.CODE]),
        ("  The owls wake:\n  ```\n  wake()", [BlockKind.PROSE, BlockKind.CODE]),
        ("The owls wake:\n\n```\n\nwake()", [BlockKind.PROSE, BlockKind.CODE]),
        ("```\n\nwake()", [BlockKind.CODE]),
    ],
)
def test_a_fence_that_stands_like_an_end_ends_code_that_began_before_the_text(
    text: str, kinds: list[BlockKind]
) -> None:
    assert _kinds(text) == kinds


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Type this:\n\n  owl wake .\n  owl feed\n\n    # now\n\nThen wait.", "owl wake .\n  owl feed\n\n    # now"),
        ("   Type this:\n\n     owl wake", "owl wake"),
        ("1. Type this:\n\n     owl wake", "owl wake"),
        ("Type this:\n\n\towl wake", None),
        ("Type this:\n\n\t owl wake", "owl wake"),
        ("   Type this:\n\n    owl wake", None),
        ("1. Type this:\n\n    owl wake", None),
        ("Type this.\n\n  owl wake", None),
        ("Type this:\n  owl wake", None),
        ("She said:\n\n  Wake the owl.", None),
        ("Owls eat:\n\n  - mice\n  - voles", None),
        ("# Owls eat:\n\n  mice", None),
    ],
)
def test_code_without_a_fence_stands_further_right_below_a_colon(text: str, code: str | None) -> None:
    found = [text[each.start : each.end] for each in split_sentences(text) if each.kind is BlockKind.CODE]
    assert found == ([code] if code else [])


def test_the_indent_of_code_is_the_one_that_was_written() -> None:
    written = "Owls eat:\n\n<b>Mice</b> and voles"
    text = "Owls eat:\n\n   Mice     and voles"
    assert [each.kind for each in split_sentences(text)] == [BlockKind.PROSE, BlockKind.CODE]
    assert [each.kind for each in split_sentences(text, written)] == [BlockKind.PROSE, BlockKind.PROSE]


def test_a_longer_fence_is_not_closed_by_a_shorter_one() -> None:
    assert _kinds("````\n```\ncode\n```\n````\nProse.") == [BlockKind.CODE, BlockKind.PROSE]


def test_comments_and_layout_tags_are_markup_over_several_lines() -> None:
    text = "<!-- one\ntwo. Three.\n-->\nProse here.\n<Listing number='1'>\n{{#include x}}\n[link]: http://x"
    kinds = _kinds(text)
    assert kinds[0] is BlockKind.MARKUP
    assert kinds.count(BlockKind.PROSE) == 1


def test_carriage_returns_end_lines() -> None:
    assert _texts("# A\r\nOne.\r\n\r\n- two\r\n") == ["# A", "One.", "two"]


_PIECES = st.sampled_from(
    ["# H", "- item", "> quote.", "```", "```py", "| a |", "Word. Next", "é\u0301.", "👩\u200d🚀!", "\r\n", "\n", " ",
     "<!--", "-->", "**b.**", "1. x", "a.b", "---", "\t", "\u3002", "`c. D`", "[1]: u"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_ranges_are_inside_ordered_disjoint_and_without_white_space_at_the_ends(text: str) -> None:
    end = 0
    for sentence in split_sentences(text):
        assert end <= sentence.start <= sentence.end <= len(text)
        piece = text[sentence.start : sentence.end]
        assert piece == piece.strip()
        end = sentence.end


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_blocks_leave_out_only_white_space_and_quote_marks(text: str) -> None:
    covered = {index for block in split_blocks(text) for index in range(block.start, block.end)}
    assert all(char.isspace() or char == ">" for index, char in enumerate(text) if index not in covered)


ATTACKS: dict[str, Callable[[int], str]] = {
    "comments that open at every stop, then white space": lambda n: "A. " + ".<!--" * (n // 10) + " " * (n // 2),
    "comments that open": lambda n: ".<!--" * (n // 5),
    "comments behind a stop": lambda n: "." + "<!--.-->" * (n // 8) + "x",
    "lines of comments that never close": lambda n: "<!--\n" * (n // 5),
    "lines of comments that close at the end": lambda n: "<!--\n" * (n // 5) + "-->",
    "references behind a stop": lambda n: ".[.]" * (n // 4) + "x",
    "raised digits behind a stop": lambda n: ".\u00b9,\u00b2" * (n // 4) + "x",
    "raised digits": lambda n: "." + "\u00b9" * n + "x",
    "stops": lambda n: "." * n + "x",
    "stops of Arabic and Hindi": lambda n: "\u061f\u0964" * (n // 2) + "x",
    "closing marks": lambda n: '."' * (n // 2) + "x",
    "runs of backticks, each of another length": lambda n: " ".join(
        "`" * length for length in range(1, int((2 * n) ** 0.5))
    ),
    "code spans with a stop": lambda n: "`a.` b. " * (n // 8),
    "a tag of white space": lambda n: "<a" + " " * n + ">x",
    "a rule that is none": lambda n: "- " * (n // 2) + "x",
    "code below a colon": lambda n: "a:\n\n  b\n\n" * (n // 9),
    "quotes below a colon": lambda n: "a:\n\n" + "  b.:\n\n" * (n // 9),
    "line ends behind a stop": lambda n: "a." + "\n" * n + "b",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_takes_more_than_linear_time(attack: str) -> None:
    assert growth(ATTACKS[attack], split_sentences, 10_000) < LINEAR


@pytest.mark.parametrize("bit", ["<!--", "**a ", "*a ", "`", "[", "{#", " ", "{#a} "])
def test_a_heading_of_markup_takes_no_more_time_than_its_bound(bit: str) -> None:
    assert growth(lambda n: "# " + bit * (n // len(bit)), heading_text, 100_000) < LINEAR


def test_a_run_of_backticks_is_closed_by_the_next_run_of_its_length() -> None:
    text = "`a``b` ``c`d`` ``` e `f` `"
    assert [text[start:end] for start, end in code_spans(text, 0, len(text))] == ["`a``b`", "``c`d``", "`f`"]

"""CSV and JSON Lines: each row and line is a record that can be read and cited."""

import pytest

from groundwire.ingest.parsing.text_readers import read_csv, read_jsonl
from groundwire.kernel.document_errors import DocumentMalformedError, EmptyDocumentError


def csv_text(text: str) -> str:
    return read_csv(text, "content").text


def jsonl_text(text: str) -> str:
    return read_jsonl(text, "content").text


def test_each_row_is_a_record_of_named_values() -> None:
    assert csv_text("name,size\nMoon,1737\nSun,696340\n") == "name: Moon\nsize: 1737\n\nname: Sun\nsize: 696340"


def test_empty_values_are_left_out_and_missing_names_are_made() -> None:
    assert csv_text("name,,\nMoon,,x,y\n\n,,\n") == "name: Moon\ncolumn 3: x\ncolumn 4: y"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_the_first_line_has_most_of(delimiter: str) -> None:
    assert csv_text(f"a b{delimiter}c{delimiter}d\r\n1{delimiter}2{delimiter}3\r\n") == "a b: 1\nc: 2\nd: 3"


def test_quoted_values_keep_delimiters_and_lines_but_no_blank_line() -> None:
    assert csv_text('a,b\n"1, ""one""","two\n\n \nlines"\n') == 'a: 1, "one"\nb: two\nlines'


@pytest.mark.parametrize("text", ['a,b\n1,"2\n3,4\n', 'a,b\n"1"x,2\n'])
def test_broken_quotes_are_refused_naming_the_line(text: str) -> None:
    with pytest.raises(DocumentMalformedError, match=r"line \d") as caught:
        csv_text(text)
    assert caught.value.metadata == {"format": "csv"}


@pytest.mark.parametrize("text", ["a,b\n", "a,b\n,\n"])
def test_a_table_without_values_is_refused(text: str) -> None:
    with pytest.raises(EmptyDocumentError):
        csv_text(text)


def test_each_line_is_a_record_with_paths_of_keys() -> None:
    line = '{"name": "Moon", "orbit": {"days": 27.30, "of": "Earth"}, "tags": ["a", 2, true, null], "none": null}'
    assert jsonl_text(f"{line}\n\n[1]\n") == "name: Moon\norbit.days: 27.30\norbit.of: Earth\ntags: a, 2, true\n\n1"


def test_lists_of_objects_are_numbered_and_simple_values_stand_alone() -> None:
    assert jsonl_text('{"a": [{"b": 1}, [2, 3]]}\n"text"\n') == "a[0].b: 1\na[1]: 2, 3\n\ntext"


def test_numbers_stay_as_they_are_written() -> None:
    digits = "9" * 5000
    assert jsonl_text(f'{{"a": 1.10, "b": {digits}, "c": 1E5}}') == f"a: 1.10\nb: {digits}\nc: 1E5"


def test_the_place_of_what_is_no_json_is_that_in_the_file() -> None:
    with pytest.raises(DocumentMalformedError, match=r": line 2, column 7: Expecting value$"):
        jsonl_text('{"a": 1}\n{"a": }\n')


@pytest.mark.parametrize("line", ["{", '{"a": }', "no json", '{"a": 1} {"b": 2}'])
def test_a_line_that_is_no_json_is_refused_naming_it(line: str) -> None:
    with pytest.raises(DocumentMalformedError, match="line 2") as caught:
        jsonl_text(f'{{"a": 1}}\n{line}\n')
    assert caught.value.metadata == {"format": "jsonl"}


def test_a_line_nested_too_deeply_is_refused() -> None:
    with pytest.raises(DocumentMalformedError, match="line 1"):
        jsonl_text("[" * 100_000 + "]" * 100_000)


def test_a_line_of_a_megabyte_is_one_record() -> None:
    words = "tide " * 200_000
    assert jsonl_text(f'{{"text": "{words}"}}\n{{"text": "end"}}') == f"text: {words.strip()}\n\ntext: end"


def test_lone_surrogates_and_controls_are_replaced() -> None:
    assert jsonl_text('{"a": "x\\ud800y\\u0000z"}') == "a: x\ufffdy\ufffdz"


def test_lines_without_values_are_refused() -> None:
    with pytest.raises(EmptyDocumentError):
        jsonl_text("{}\n[]\n\n")

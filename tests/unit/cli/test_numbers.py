"""Numbers that no message can hold are refused where they are given, by every option of every command."""

import re
from collections.abc import Iterator

import click
import pytest

from groundwire.cli.app import app


def number_options(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Parameter]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from number_options(command, (*names, name))
            continue
        for option in command.params:
            if isinstance(option.type, click.types.IntParamType):
                yield " ".join((*names, name, option.opts[0])), option


OPTIONS = dict(number_options(app))


def test_there_are_such_options() -> None:
    assert {"search --radius", "search --snapshot", "memory search --top-k", "keys create --days"} <= OPTIONS.keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_help_of_a_number_has_no_bounds_of_messages(name: str) -> None:
    record = OPTIONS[name].get_help_record(click.Context(click.Command("any")))
    assert not re.search(r"\d{10}", " ".join(record or ()))


def test_a_count_of_nothing_is_refused_by_the_least_that_there_is() -> None:
    with pytest.raises(click.BadParameter, match=r"^0 is below 1$"):
        OPTIONS["logs -n"].type_cast_value(click.Context(click.Command("any")), "0")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", [str(10**30), str(-(10**30))])
def test_a_number_that_no_message_can_hold_is_refused(name: str, value: str) -> None:
    with pytest.raises(click.BadParameter):
        OPTIONS[name].type_cast_value(click.Context(click.Command("any")), value)

"""SQL that differs between SQLite and PostgreSQL, chosen by the database that a statement runs on.

An expression becomes that of the database when its statement is compiled; functions that take a connection look at it.
Outside this module, `sqlite` and `postgresql` only `database` knows which of the two it opens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Result,
    Select,
    Table,
    TableValuedAlias,
    Text,
    TypeDecorator,
    literal,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine, UserDefinedType

from groundwire.catalog import postgresql, sqlite
from groundwire.catalog.encoding import decode_json, encode_json


def _module(connection: Connection) -> ModuleType:
    return postgresql if connection.dialect.name == "postgresql" else sqlite


P = ParamSpec("P")
R = TypeVar("R")


def _by_connection(
    of_sqlite: Callable[Concatenate[Connection, P], R], of_postgresql: Callable[Concatenate[Connection, P], R]
) -> Callable[Concatenate[Connection, P], R]:
    """Return the function that calls the one of the database that a connection is of."""

    def call(connection: Connection, /, *arguments: P.args, **options: P.kwargs) -> R:
        of_database = of_postgresql if connection.dialect.name == "postgresql" else of_sqlite
        return of_database(connection, *arguments, **options)

    return call


def _by_statement(
    of_sqlite: Callable[P, ColumnElement[R]], of_postgresql: Callable[P, ColumnElement[R]]
) -> Callable[P, ColumnElement[R]]:
    """Return the function that makes the expression of the database that a statement is compiled for."""

    def make(*arguments: P.args, **options: P.kwargs) -> ColumnElement[R]:
        return _Choice(of_sqlite(*arguments, **options), of_postgresql(*arguments, **options))

    return make


class _Choice(FunctionElement[Any]):
    """An expression of each database, of which the one is compiled that the statement runs on."""

    inherit_cache = True

    def __init__(self, of_sqlite: ColumnElement[Any], of_postgresql: ColumnElement[Any]) -> None:
        super().__init__(of_sqlite, of_postgresql)
        self.type = of_sqlite.type

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Stay as it is: as a condition of SQLite it would be compared with 1, which no index serves."""
        return self

    def _negate(self) -> Any:
        return _Choice(*(~each for each in self.clauses))


@compiles(_Choice, "sqlite")
def _compile_for_sqlite(element: _Choice, compiler: Any, **options: Any) -> str:
    return _enclosed(element, element.clauses.clauses[0], compiler, options)


@compiles(_Choice, "postgresql")
def _compile_for_postgresql(element: _Choice, compiler: Any, **options: Any) -> str:
    return _enclosed(element, element.clauses.clauses[1], compiler, options)


def _enclosed(element: FunctionElement[Any], chosen: Any, compiler: Any, options: dict[str, Any]) -> str:
    compiled = str(compiler.process(chosen, **options))
    # In parentheses, because a NOT may precede the condition.
    return f"({compiled})" if isinstance(element.type, Boolean) else compiled


class _Made(FunctionElement[Any]):
    """An expression of columns and parameters that the function `name` of a dialect makes at compilation.

    Most statements that are built have been compiled before: what is made for each would be thrown away.
    """

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Stay as it is, as a `_Choice` does."""
        return self


class _Among(_Made):
    name = "among"
    inherit_cache = True
    type = Boolean()


class _ArrayOf(_Made):
    name = "array_of"
    inherit_cache = True


@compiles(_Made)
def _make(element: _Made, compiler: Any, **options: Any) -> str:
    made = getattr(_module(compiler), element.name)(*element.clauses)
    return _enclosed(element, made, compiler, options)


# Types of columns


class _JsonText(TypeDecorator[Any]):
    """JSON that is stored letter for letter, so that 1.0 stays a fraction and the order of keys what it was."""

    impl = Text(collation="C")
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else encode_json(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else decode_json(value)


class _ShortenedWord(TypeDecorator[str]):
    """A word as the index of PostgreSQL can hold it; words of thousands of letters are shortened to their digest."""

    impl = Text(collation="C")
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:  # noqa: ARG002 - SQLAlchemy's signature
        return postgresql.shortened(value)


class BinaryJson(UserDefinedType[str]):
    """JSON in the binary form of the database, which its functions read two to three times faster than text.

    Takes what `json.dumps` takes and gives JSON text.
    """

    cache_ok = True

    def bind_processor(self, dialect: Any) -> Any:
        if dialect.name == "postgresql":
            return lambda value: postgresql.with_plain_fractions(encode_json(value))
        return encode_json

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        return _Choice(sqlite.to_binary_json(bindvalue, self), postgresql.to_binary_json(bindvalue, self))

    def column_expression(self, colexpr: Any) -> ColumnElement[Any]:
        return _Choice(sqlite.json_text(colexpr, self), postgresql.json_text(colexpr, self))


@compiles(BinaryJson, "sqlite")
def _blob(_element: BinaryJson, _compiler: Any, **_options: Any) -> str:
    return "BLOB"


@compiles(BinaryJson, "postgresql")
def _of_its_own(_element: BinaryJson, _compiler: Any, **_options: Any) -> str:
    return "JSONB"


JSON_TEXT: TypeEngine[Any] = JSON().with_variant(_JsonText(), "postgresql")
JSON_OR_NULL: TypeEngine[Any] = JSON(none_as_null=True).with_variant(_JsonText(), "postgresql")
# By default PostgreSQL compares texts by the rules of a language.
TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")
INDEXED_WORD: TypeEngine[str] = Text().with_variant(_ShortenedWord(), "postgresql")


# What is inside JSON


class _Entries(FunctionElement[Any]):
    inherit_cache = True
    name = "entries"


class _Elements(FunctionElement[Any]):
    inherit_cache = True
    name = "elements"


@compiles(_Entries, "sqlite")
@compiles(_Elements, "sqlite")
def _each_of_sqlite(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"{sqlite.EACH}({compiler.process(element.clauses, **options)})"


@compiles(_Entries, "postgresql")
def _entries_of_postgresql(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"{postgresql.ENTRIES}(({compiler.process(element.clauses, **options)})::json)"


@compiles(_Elements, "postgresql")
def _elements_of_postgresql(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    container, *field = (compiler.process(each, **options) for each in element.clauses)
    return f"{postgresql.ELEMENTS}({', '.join([container, *field]) if field else f'({container})::json'})"


def entries_of(column: ColumnElement[Any]) -> TableValuedAlias:
    """Return the table of the entries of an object: key, value, and type as `elements_of` has it."""
    return _Entries(column).table_valued("key", "value", "type")


def elements_of(column: ColumnElement[Any], field: str | None = None) -> TableValuedAlias:
    """Return the table of the elements of a list, or of a field of a column of `BinaryJson`: their type and value.

    It has one row for a single value and none for an absent field. Types are text, integer, real, true, false, null,
    array and object. Values are compared with texts, or by `number_among` and `number_holds`.
    """
    path = () if field is None else (_Choice(literal(sqlite.path_of(field)), literal(field)),)
    return _Elements(column, *path).table_valued("type", "value")


type_of = _by_statement(sqlite.type_of, postgresql.type_of)
"""The type of a field of an object of `BinaryJson`, NULL for an absent one."""


def field_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    """Return the value of a field of an object, None for an absent one."""
    value = _Choice(column[field], postgresql.field_of(column, field))
    value.type = JSON_TEXT
    return value


first_type_of = _by_statement(sqlite.first_type_of, postgresql.first_type_of)
"""The type of the first element of a list that stands in a text."""
list_of = _by_statement(sqlite.list_of, postgresql.list_of)
contains = _by_statement(sqlite.contains, postgresql.contains)
"""The condition that a text has a part, letter for letter."""
is_like = _by_statement(sqlite.is_like, postgresql.is_like)
"""The condition that a text matches a LIKE pattern with backslash escapes, letter for letter."""
number_among = _by_statement(sqlite.number_among, postgresql.number_among)
"""The condition that an element is one of some numbers, compared exactly; none of them is NaN."""
number_holds = _by_statement(sqlite.number_holds, postgresql.number_holds)
"""The condition that an element is a number which compares so with a bound.

`exact` has the comparison and its bound, which is not NaN, `nearest` a comparison with the float next to the bound
that means the same for floats.
"""
stored_bytes = _by_statement(sqlite.stored_bytes, postgresql.stored_bytes)
"""What is stored of a column of `BinaryJson`: equal bytes are equal values."""


def as_text(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a value that came out of JSON as a text that is ordered by its code points."""
    return _Choice(value, value.collate("C"))


# Many values and many rows at once


def among(column: ColumnElement[Any], values: Iterable[Any] | BindParameter[Any]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some values, however many: they travel as one parameter.

    Of a statement that is made once, `values` is a parameter, which is to get `encode_json` of a list.
    """
    given = values if isinstance(values, BindParameter) else literal(encode_json(list(values)))
    return _Among(column, given)


def array_of(*columns: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the aggregate that puts the values of a column, or rows of several, into one row for `read_array`.

    Columns of JSON come as values. The driver gives up the interpreter lock for each row and has to win it back from
    busy threads: one row does that once.
    """
    return _ArrayOf(*columns)


array_in = _by_statement(sqlite.array_in, postgresql.array_in)
"""The column of a subquery as one JSON array, in its order."""


def read_array(connection: Connection, statement: Select[Any], given: Mapping[str, Any] | None = None) -> list[Any]:
    """Return what a statement that selects `array_of` finds, in no order."""
    found: list[Any] = decode_json(connection.execute(statement, dict(given or {})).scalar_one())
    return found


def execute(
    connection: Connection, statement: Executable, given: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Result[*tuple[Any, ...]]:
    """Execute a statement that is made once, as all those on the path of every search and write are.

    Its SQL is cached by the statement object: one that is built for each call must go through SQLAlchemy, as must one
    with a list of values of any length. What SQLAlchemy does around a short statement takes several times as long.
    """
    one = given if isinstance(given, Mapping) else given[0] if len(given) == 1 else None
    if one is None or connection.dialect.name == "postgresql":
        return connection.execute(statement, given)
    return sqlite.execute(connection, statement, one)


def read_compiled(connection: Connection, statement: Select[Any], given: Mapping[str, Any]) -> list[Any]:
    """Return what `read_array` does of a statement that is made once, for `execute`."""
    found: list[Any] = decode_json(execute(connection, statement, given).scalar_one())
    return found


driver_rows = _by_connection(sqlite.driver_rows, postgresql.driver_rows)
"""The rows of a statement with question marks for parameters as the driver gives them.

For short statements on the path of every search: what SQLAlchemy does around one takes several times as long.
"""


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that can say what happens ON CONFLICT."""
    return _module(connection).upsert(table)


def replacing(
    connection: Connection,
    table: Table,
    keys: tuple[str, ...],
    changed: tuple[str, ...],
    only: ColumnElement[bool] | None = None,
    returning: Column[Any] | None = None,
) -> Any:
    """Return an INSERT that gives a row with the same keys the new values of some columns; made once for each table.

    A row that `only` does not hold for stays as it is.
    """
    return _replacing(_module(connection), table, keys, changed, only, returning)


@cache
def _replacing(
    module: Any,
    table: Table,
    keys: tuple[str, ...],
    changed: tuple[str, ...],
    only: ColumnElement[bool] | None,
    returning: Column[Any] | None,
) -> Any:
    new = module.upsert(table)
    values = {name: new.excluded[name] for name in changed}
    replacing_row = new.on_conflict_do_update(index_elements=list(keys), set_=values, where=only)
    return replacing_row if returning is None else replacing_row.returning(returning)


update_json = _by_connection(sqlite.update_json, postgresql.update_json)
"""Gives a column of `BinaryJson` new values by the key of the row."""
insert_rows = _by_connection(sqlite.insert_rows, postgresql.insert_rows)
"""Inserts rows as the driver takes them (JSON is given as text), the columns of each in the order of the table."""
last_key = _by_connection(sqlite.last_key, postgresql.last_key)
"""The highest key that a table ever gave, also to rows that are gone; 0 where nobody remembers keys."""
continue_keys = _by_connection(sqlite.continue_keys, postgresql.continue_keys)
"""Lets the keys that a table gives go on behind the last one, the highest so far or a higher one."""
interruptible = _by_connection(sqlite.interruptible, postgresql.interruptible)
"""Lets statements of the connection fail, as if the database did not answer, once a function returns true."""
file_problems = _by_connection(sqlite.file_problems, postgresql.file_problems)
"""What the database itself finds wrong: the number of the row, or nothing, and what to say."""

# The full-text index and vectors, which are read and merged in bulk

read_postings = _by_connection(sqlite.read_postings, postgresql.read_postings)
"""The rows of some words, in the order of the states, the segments and then of the words.

In every segment the words come in order, so that the scores of a chunk are always added up in the same order.
"""
sizes_of_postings = _by_connection(sqlite.sizes_of_postings, postgresql.sizes_of_postings)
"""How many bytes of postings each of some words has, without those that have none."""
merge_postings = _by_connection(sqlite.merge_postings, postgresql.merge_postings)
"""Writes the rows of some segments to one more, each word's one behind the other in the order of the segments."""
read_vectors = _by_connection(sqlite.read_vectors, postgresql.read_vectors)
"""The numbers of those chunks that have a vector of a model, and these vectors, one behind the other."""


def stored_word(connection: Connection, word: str) -> str:
    """Return a word as the index has it, which is shorter where the database cannot index it whole."""
    return postgresql.shortened(word) if _module(connection) is postgresql else word

"""What SQLite and PostgreSQL each say in words of their own, picked for the database that a statement runs on.

An expression becomes that of the database when its statement is compiled; functions that take a connection look at it.
Outside this module, `sqlite` and `postgresql` only `database` knows which of the two it opens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from types import ModuleType
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
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
from groundwire.catalog.encoding import StoredPostings, decode_json, encode_json


def _module(connection: Connection) -> ModuleType:
    return postgresql if connection.dialect.name == "postgresql" else sqlite


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
    return _compiled(element, 0, compiler, options)


@compiles(_Choice, "postgresql")
def _compile_for_postgresql(element: _Choice, compiler: Any, **options: Any) -> str:
    return _compiled(element, 1, compiler, options)


def _compiled(element: _Choice, place: int, compiler: Any, options: dict[str, Any]) -> str:
    compiled = str(compiler.process(list(element.clauses)[place], **options))
    # A condition may come to stand behind a NOT.
    return f"({compiled})" if isinstance(element.type, Boolean) else compiled


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
        """Return the function that makes text of a value."""
        if dialect.name == "postgresql":
            return lambda value: postgresql.with_plain_fractions(encode_json(value))
        return encode_json

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        """Wrap a value on its way in."""
        return _Choice(sqlite.to_binary_json(bindvalue, self), postgresql.to_binary_json(bindvalue, self))

    def column_expression(self, colexpr: Any) -> ColumnElement[Any]:
        """Wrap the column on its way out."""
        return _Choice(sqlite.json_text(colexpr, self), postgresql.json_text(colexpr, self))


@compiles(BinaryJson, "sqlite")
def _blob(_element: BinaryJson, _compiler: Any, **_options: Any) -> str:
    return "BLOB"


@compiles(BinaryJson, "postgresql")
def _of_its_own(_element: BinaryJson, _compiler: Any, **_options: Any) -> str:
    return "JSONB"


JSON_TEXT: TypeEngine[Any] = JSON().with_variant(_JsonText(), "postgresql")
JSON_OR_NULL: TypeEngine[Any] = JSON(none_as_null=True).with_variant(_JsonText(), "postgresql")
# PostgreSQL compares texts in the order of some language unless it is told not to.
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


def type_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    """Return the type of a field of an object of `BinaryJson`, NULL for an absent one."""
    return _Choice(sqlite.type_of(column, field), postgresql.type_of(column, field))


def field_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    """Return the value of a field of an object, None for an absent one."""
    value = _Choice(column[field], postgresql.field_of(column, field))
    value.type = JSON_TEXT
    return value


def first_type_of(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return _Choice(sqlite.first_type_of(column), postgresql.first_type_of(column))


def list_of(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return _Choice(sqlite.list_of(value), postgresql.list_of(value))


def contains(value: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Return the condition that a text has a part, letter for letter."""
    return _Choice(sqlite.contains(value, part), postgresql.contains(value, part))


def is_like(value: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    """Return the condition that a text matches a LIKE pattern with backslash escapes, letter for letter."""
    return _Choice(sqlite.is_like(value, pattern), postgresql.is_like(value, pattern))


def as_text(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a value that came out of JSON as a text that is ordered by its code points."""
    return _Choice(value, value.collate("C"))


def number_among(each: TableValuedAlias, numbers: Sequence[int | float]) -> ColumnElement[bool]:
    """Return the condition that an element is one of some numbers, compared exactly; none of them is NaN."""
    return _Choice(sqlite.number_among(each, numbers), postgresql.number_among(each, numbers))


def number_holds(
    each: TableValuedAlias,
    exact: tuple[Callable[[Any, Any], Any], int | float],
    nearest: tuple[Callable[[Any, Any], Any], float],
) -> ColumnElement[bool]:
    """Return the condition that an element is a number which compares so with a bound.

    `exact` has the comparison and its bound, which is not NaN, `nearest` a comparison with the float next to the bound
    that means the same for floats.
    """
    return _Choice(sqlite.number_holds(each, exact, nearest), postgresql.number_holds(each, exact, nearest))


def stored_bytes(column: ColumnElement[Any]) -> ColumnElement[bytes]:
    """Return what is stored of a column of `BinaryJson`: equal bytes are equal values."""
    return _Choice(sqlite.stored_bytes(column), postgresql.stored_bytes(column))


# Many values and many rows at once


def among(column: ColumnElement[Any], values: Iterable[Any] | BindParameter[Any]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some values, however many: they travel as one parameter.

    Of a statement that is made once, `values` is a parameter, which is to get `encode_json` of a list.
    """
    given = values if isinstance(values, BindParameter) else literal(encode_json(list(values)))
    return _Choice(sqlite.among(column, given), postgresql.among(column, given))


def array_of(*columns: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the aggregate that puts the values of a column, or rows of several, into one row for `read_array`.

    Columns of JSON come as values.

    The driver gives up the interpreter lock for each row and has to win it back from busy threads: one row does that
    once.
    """
    return _Choice(sqlite.array_of(*columns), postgresql.array_of(*columns))


def array_in(statement: Select[Any], type_: Any) -> ColumnElement[Any]:
    """Return the column of a subquery as one JSON array, in its order."""
    return _Choice(sqlite.array_in(statement, type_), postgresql.array_in(statement, type_))


def read_array(connection: Connection, statement: Select[Any], given: Mapping[str, Any] | None = None) -> list[Any]:
    """Return what a statement that selects `array_of` finds, in no order."""
    found: list[Any] = decode_json(connection.execute(statement, dict(given or {})).scalar_one())
    return found


class CompiledArray:
    """A statement that selects `array_of`, whose SQL is made once: for those on the path of every search."""

    def __init__(self, statement: Select[Any]) -> None:
        self._statement = statement
        self._of_sqlite = sqlite.CompiledStatement(statement)

    def read(self, connection: Connection, given: Mapping[str, Any]) -> list[Any]:
        """Return what the statement finds with these parameters, in no order."""
        if _module(connection) is postgresql:
            return read_array(connection, self._statement, given)
        found: list[Any] = decode_json(self._of_sqlite.scalar(connection, given))
        return found


def driver_rows(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
    """Return the rows of a statement with question marks for parameters as the driver gives them.

    For short statements on the path of every search: what SQLAlchemy does around one takes several times as long.
    """
    rows: Sequence[Any] = _module(connection).driver_rows(connection, statement, parameters)
    return rows


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that can say what happens ON CONFLICT."""
    return _module(connection).upsert(table)


def replacing(connection: Connection, table: Table, keys: tuple[str, ...], changed: tuple[str, ...]) -> Any:
    """Return an INSERT that gives a row with the same keys the new values of some columns; made once for each table."""
    return _replacing(_module(connection), table, keys, changed)


@cache
def _replacing(module: Any, table: Table, keys: tuple[str, ...], changed: tuple[str, ...]) -> Any:
    new = module.upsert(table)
    return new.on_conflict_do_update(index_elements=list(keys), set_={name: new.excluded[name] for name in changed})


def update_json(
    connection: Connection, key: Column[int], column: Column[Any], values: Iterable[tuple[int, Any]]
) -> None:
    """Give a column of `BinaryJson` new values by the key of the row, all in one statement."""
    _module(connection).update_json(connection, key, column, values)


def insert_rows(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], *, skip_existing: bool = False
) -> None:
    """Insert rows as the driver takes them (JSON is given as text), the columns of each in the order of the table."""
    _module(connection).insert_rows(connection, table, rows, skip_existing=skip_existing)


def last_key(connection: Connection, table: Table) -> int:
    """Return the highest key that a table ever gave, also to rows that are gone; 0 where nobody remembers keys."""
    key: int = _module(connection).last_key(connection, table)
    return key


def continue_keys(connection: Connection, table: Table, last: int) -> None:
    """Let the keys that a table gives go on behind `last`, the highest so far or a higher one."""
    _module(connection).continue_keys(connection, table, last)


def interruptible(connection: Connection, is_over: Callable[[], bool]) -> AbstractContextManager[None]:
    """Let statements of the connection fail, as if the database did not answer, soon after `is_over` says so."""
    limited: AbstractContextManager[None] = _module(connection).interruptible(connection, is_over)
    return limited


def file_problems(connection: Connection) -> Iterable[tuple[str, str]]:
    """Return what the database itself finds wrong: the number of the row, or nothing, and what to say."""
    problems: Iterable[tuple[str, str]] = _module(connection).file_problems(connection)
    return problems


# The full-text index and vectors, which are read and merged in bulk


def read_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str], *, with_positions: bool
) -> StoredPostings:
    """Read the rows of some words, in the order of the states, the segments and then of the words.

    In every segment the words come in order, so that the scores of a chunk are always added up in the same order.
    """
    read: StoredPostings = _module(connection).read_postings(
        connection, collection_key, states, words, with_positions=with_positions
    )
    return read


def sizes_of_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str]
) -> dict[str, int]:
    """Return how many bytes of postings each of some words has, without those that have none."""
    sizes: dict[str, int] = _module(connection).sizes_of_postings(connection, collection_key, states, words)
    return sizes


def stored_word(connection: Connection, word: str) -> str:
    """Return a word as the index has it, which is shorter where the database cannot index it whole."""
    return postgresql.shortened(word) if _module(connection) is postgresql else word


def merge_postings(connection: Connection, into: int, parts: Sequence[int]) -> None:
    """Write the rows of some segments to one more, each word's one behind the other in the order of the segments."""
    _module(connection).merge_postings(connection, into, parts)


def read_vectors(connection: Connection, identity_digest: str, numbers: Sequence[int]) -> tuple[list[int], bytes]:
    """Return the numbers of those chunks that have a vector of a model, and these vectors, one behind the other."""
    found: tuple[list[int], bytes] = _module(connection).read_vectors(connection, identity_digest, numbers)
    return found

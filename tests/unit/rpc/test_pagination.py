"""Page tokens say where to go on, and cannot be made, moved or changed by callers."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groundwire.api.common.v1 import document_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.errors import InvalidPageTokenError, InvalidRequestError, PreconditionError
from groundwire.rpc.pagination import MAX_PAGE_BYTES, PageTokens, load_key, page_size
from tests.stubs import by_id

TOKENS = PageTokens(b"k" * 32)
REQUEST = pb.ListDocumentsRequest(collection="rust", source_prefix="src/")
positions = st.lists(st.text(max_size=50) | st.integers(0, 2**53), max_size=4).map(tuple)


@given(positions, st.integers(0, 1000))
def test_a_position_comes_back_for_the_same_request_of_any_size(position: tuple[str | int, ...], size: int) -> None:
    token = TOKENS.issue(position, tenant="t", request=REQUEST)
    again = pb.ListDocumentsRequest(collection="rust", source_prefix="src/", page_size=size, page_token=token)

    assert TOKENS.read(token, tenant="t", request=again) == position
    assert token.replace("-", "").replace("_", "").isalnum()


def filled(sizes: list[int], next_position: tuple[int, ...] | None) -> tuple[list[str], tuple[str | int, ...] | None]:
    """Fill a page with documents of some sizes; return their ids and where the next page begins."""
    entries = ((document_pb2.Document(document_id=f"{n}", source_uri="x" * size), (n,)) for n, size in enumerate(sizes))
    messages, token = TOKENS.fill(entries, next_position, tenant="t", request=REQUEST)
    assert len(messages) == 1 or sum(message.ByteSize() for message in messages) <= MAX_PAGE_BYTES
    return [message.document_id for message in messages], TOKENS.read(token, tenant="t", request=REQUEST)


def test_a_page_ends_before_it_is_too_large_and_the_next_begins_there() -> None:
    third = MAX_PAGE_BYTES // 3
    assert filled([third] * 5, None) == (["0", "1"], (1,))
    assert filled([third] * 5, (4,)) == (["0", "1"], (1,))
    assert filled([MAX_PAGE_BYTES + 1, 1], None) == (["0"], (0,)), "one at least"


def test_a_page_of_small_entries_fits_with_what_a_list_adds_to_each() -> None:
    documents = [document_pb2.Document(source_uri="x" * 100)] * 40_000
    page, _ = TOKENS.fill(((each, (1,)) for each in documents), None, tenant="t", request=REQUEST)
    assert pb.ListDocumentsResponse(documents=page).ByteSize() <= MAX_PAGE_BYTES


def test_a_page_that_fits_ends_where_its_query_ended() -> None:
    assert filled([10, 10], None) == (["0", "1"], None)
    assert filled([10, 10], (1,)) == (["0", "1"], (1,))
    assert filled([], None) == ([], None)


def pages(size: int, gone: int | None = None, maximum: int = 100) -> list[list[str]]:
    """Read the documents 0 to 4 in pages, as a call does that asks the catalog for rows; one may be gone meanwhile."""
    read, token = list[list[str]](), ""
    while not read or token:
        request = pb.ListDocumentsRequest(collection="rust", page_size=size, page_token=token)
        after, limit = TOKENS.begin(request, maximum=maximum)
        rows = [number for number in range(5) if after is None or number > int(after[0])][:limit]
        listed, token = TOKENS.page(
            request,
            rows,
            limit,
            lambda row: None if row == gone else document_pb2.Document(document_id=str(row)),
            lambda row: (row,),
        )
        read.append([document.document_id for document in listed])
    return read


def test_pages_have_as_many_entries_as_asked_for_and_leave_out_none() -> None:
    assert pages(2) == [["0", "1"], ["2", "3"], ["4"]]
    assert pages(5) == [["0", "1", "2", "3", "4"]]
    assert pages(5, maximum=4) == [["0", "1", "2", "3"], ["4"]]
    assert pages(2, gone=1) == [["0"], ["2", "3"], ["4"]]


def test_no_token_is_the_first_page() -> None:
    assert TOKENS.read("", tenant="t", request=REQUEST) is None


@given(positions, st.data())
def test_a_changed_token_is_refused(position: tuple[str | int, ...], data: st.DataObject) -> None:
    raw = base64.urlsafe_b64decode(TOKENS.issue(position, tenant="t", request=REQUEST) + "==")
    place = data.draw(st.integers(0, len(raw) - 1))
    flipped = raw[:place] + bytes([raw[place] ^ data.draw(st.integers(1, 255))]) + raw[place + 1 :]

    with pytest.raises(InvalidPageTokenError):
        TOKENS.read(base64.urlsafe_b64encode(flipped).decode().rstrip("="), tenant="t", request=REQUEST)


@pytest.mark.parametrize("added", ["!!!!", "\n\n\n\n", "    "])
def test_a_token_with_other_characters_in_it_is_refused(added: str) -> None:
    token = TOKENS.issue(("a",), tenant="t", request=REQUEST)
    for changed in (added + token, token[:4] + added + token[4:]):
        with pytest.raises(InvalidPageTokenError):
            TOKENS.read(changed, tenant="t", request=REQUEST)


@given(st.text(min_size=1, max_size=200) | st.binary(min_size=1).map(lambda raw: base64.b64encode(raw).decode()))
def test_an_invented_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidPageTokenError) as caught:
        TOKENS.read(token, tenant="t", request=REQUEST)

    assert [violation.field for violation in caught.value.violations] == ["page_token"]


@given(st.text(max_size=20), st.text(max_size=20), st.booleans())
def test_a_token_is_refused_for_other_parameters(collection: str, prefix: str, deleted: bool) -> None:
    other = pb.ListDocumentsRequest(collection=collection, source_prefix=prefix, include_deleted=deleted)
    assume(other != REQUEST)
    token = TOKENS.issue(("a",), tenant="t", request=REQUEST)

    with pytest.raises(InvalidPageTokenError):
        TOKENS.read(token, tenant="t", request=other)


def test_a_token_is_refused_for_another_tenant_method_or_key() -> None:
    token = TOKENS.issue(("a",), tenant="t", request=REQUEST)

    for tokens, tenant, request in [
        (TOKENS, "u", REQUEST),
        (TOKENS, "t", pb.ListChunksRequest(collection="rust", reference=by_id("src/"))),
        (PageTokens(b"other"), "t", REQUEST),
    ]:
        with pytest.raises(InvalidPageTokenError):
            tokens.read(token, tenant=tenant, request=request)


def test_a_token_is_refused_for_another_method_whose_request_has_the_same_bytes() -> None:
    request, other = pb.ListDocumentsRequest(collection="rust"), pb.ListQueryLogsRequest(collection="rust")
    assert request.SerializeToString() == other.SerializeToString()
    with pytest.raises(InvalidPageTokenError):
        TOKENS.read(TOKENS.issue(("a",), tenant="t", request=request), tenant="t", request=other)


@pytest.mark.parametrize(("asked", "given_size"), [(0, 50), (1, 1), (100, 100), (101, 100), (2**31 - 1, 100)])
def test_page_sizes(asked: int, given_size: int) -> None:
    assert page_size(asked, maximum=100) == given_size


def test_a_page_has_1000_entries_at_most() -> None:
    assert (page_size(1000), page_size(1001)) == (1000, 1000)


def test_a_negative_page_size_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="page_size"):
        page_size(-1)


def test_everyone_who_opens_the_key_file_gets_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "page.key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(load_key, [path] * 32))

    (key,) = keys
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.key"]


@pytest.mark.parametrize("content", [b"", b"short", b"k" * 31, b"k" * 33, bytes(32), b"x" * 4096])
def test_what_cannot_be_a_key_is_replaced_by_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "page.key"
    path.write_bytes(content)
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(load_key, [path] * 32))

    (key,) = keys
    assert len(key) == 32
    assert key != content
    assert path.read_bytes() == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.key"]


def test_a_key_that_cannot_be_read_is_named_without_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "page.key"
    path.mkdir()

    with pytest.raises(PreconditionError, match=r"page\.key") as caught:
        load_key(path)
    assert str(tmp_path) not in caught.value.message

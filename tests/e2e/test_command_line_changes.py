"""The commands that change documents, chunks and collections, and those that describe them, against a real server."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundwire.cli.__main__ import main
from groundwire.client.uploads import UNARY_BYTES
from tests.e2e.server import ServerProcess, groundwire


@pytest.fixture(scope="module")
def address(server: ServerProcess, notes: Path) -> str:
    assert groundwire("ingest", str(notes), "-c", "notes", address=server.address).returncode == 0
    return server.address


def _json(address: str, *arguments: str) -> Any:
    done = groundwire(*arguments, "--json", address=address)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_said_about_a_document_is_changed_by_name(address: str) -> None:
    given = [
        *("--set", "title=The sea", "--set", "author=Doe, Jane", "--set", "tags=sea,moon", "--set", "date=2024-05-01"),
        *("--set", "metadata.year=2024", "--set", "metadata.code=007"),
    ]
    done = groundwire("docs", "update", "tides.md", "-c", "notes", *given, address=address)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "updated tides.md: title, creators, tags, date_created, metadata.code, metadata.year\n"
    fields = _json(address, "docs", "get", "tides.md", "-c", "notes")["fields"]
    assert (fields["title"], fields["creators"], fields["tags"]) == ("The sea", ["Doe, Jane"], ["sea", "moon"])
    assert fields["date_created"] == "2024-05-01T00:00:00Z"
    assert fields["metadata"] == {"code": "007", "year": 2024}
    changed = _json(
        address, "docs", "update", "tides.md", "-c", "notes", "--unset", "author", "--unset", "metadata.code"
    )
    assert (changed["generation"], changed["fields"]["creators"]) == (1, [])
    assert changed["fields"]["metadata"] == {"year": 2024}


def test_files_are_ingested_with_what_is_said_about_them(address: str, tmp_path: Path) -> None:
    (tmp_path / "reports" / "drafts").mkdir(parents=True)
    for source in ("q1.md", "q2.md", "drafts/q3.md", "notes.txt"):
        (tmp_path / "reports" / source).write_text(f"# {source}\n\nRevenue of {source} grew.\n", encoding="utf-8")
    said = "department: finance\nauthor: Doe, Jane\nfiles: {q1.md: {title: First}, q9.md: {title: Ninth}}\n"
    (tmp_path / "fields.yaml").write_text(said, encoding="utf-8")
    chosen = ("--include", "*.md", "--exclude", "drafts", "--metadata", str(tmp_path / "fields.yaml"))
    given = (str(tmp_path / "reports"), "-c", "said", *chosen, "--set", "metadata.year=2024", "--set", "tags=a,b")
    done = groundwire("ingest", *given, "--json", address=address)
    assert done.returncode == 0, done.stderr
    assert "names q9.md, which is not among the files" in done.stderr
    assert [file["source"] for file in json.loads(done.stdout)["files"]] == ["q1.md", "q2.md"]
    fields = {each["source_uri"]: each["fields"] for each in _json(address, "docs", "list", "-c", "said")}
    assert [fields[source]["title"] for source in ("q1.md", "q2.md")] == ["First", ""]
    for each in fields.values():
        assert each["metadata"] == {"department": "finance", "year": 2024}
        assert (each["creators"], each["tags"]) == (["Doe, Jane"], ["a", "b"])
    where = ("-c", "said", "--filter", '{"year": {"$gte": 2024}, "title": "First"}')
    assert [each["source"] for each in _json(address, "search", "revenue", *where)["results"]] == ["q1.md"]
    planned = json.loads(groundwire("ingest", *given, "--plan", "--json", address=address).stdout)
    assert [file["outcome"] for file in planned["files"]] == ["unchanged", "unchanged"]
    misspelt = ("-c", "said", "--filter", '{"deparment": "finance"}')
    refused = groundwire("search", "revenue", *misspelt, address=address)
    assert (refused.returncode, "did you mean 'department'?" in refused.stderr) == (2, True)


def test_a_file_that_is_larger_than_a_message_is_ingested(address: str, tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("# Whales\n\nWhales sing.\n" + "\n" * UNARY_BYTES, encoding="utf-8")
    (file,) = _json(address, "ingest", str(tmp_path), "-c", "notes", "--source-version", "3")["files"]
    assert (file["source"], file["outcome"], file["chunks"]) == ("large.md", "created", 1)
    document = _json(address, "docs", "get", "large.md", "-c", "notes")
    assert document["source_version"] == 3
    groundwire("docs", "delete", "large.md", "-c", "notes", "--purge", address=address)


def test_help_is_short_everywhere(address: str) -> None:
    for command in ([], ["ingest"], ["docs"], ["docs", "restore"]):
        shown = [groundwire(*command, option, address=address) for option in ("-h", "--help")]
        assert [each.returncode for each in shown] == [0, 0]
        assert shown[0].stdout == shown[1].stdout
        assert " ".join(["Usage: groundwire", *command]) in shown[0].stdout


def test_documents_and_chunks_are_listed_by_filter(address: str) -> None:
    groundwire("docs", "update", "tides.md", "-c", "notes", "--set", "project=ocean", address=address)
    where = ("-c", "notes", "--filter", '{"project": "ocean"}')
    assert [each["source_uri"] for each in _json(address, "docs", "list", *where)] == ["tides.md"]
    assert {each["source_uri"] for each in _json(address, "chunks", "list", *where)} == {"tides.md"}
    assert _json(address, "docs", "list", "-c", "notes", "--prefix", "inner/")[0]["source_uri"] == "inner/bread.txt"
    shown = groundwire("docs", "list", *where, address=address).stdout.splitlines()
    assert shown[0].split() == ["document", "chunks", "characters", "source"]
    assert len(shown) == 2
    refused = groundwire("docs", "list", "-c", "notes", "--filter", '{"projekt": "x"}', address=address)
    assert (refused.returncode, "INVALID_FILTER" in refused.stderr) == (2, True)


def test_a_soft_deletion_can_be_taken_back(address: str) -> None:
    done = groundwire("docs", "delete", "inner/bread.txt", "-c", "notes", address=address)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "deleted inner/bread.txt with 1 chunk; bring it back with: groundwire docs restore inner/bread.txt -c notes\n"
    )
    assert groundwire("docs", "get", "inner/bread.txt", "-c", "notes", address=address).returncode == 1
    gone = next(each for each in _json(address, "docs", "list", "-c", "notes", "--deleted") if "delete_time" in each)
    shown = groundwire("docs", "list", "-c", "notes", "--deleted", address=address).stdout.splitlines()
    assert [line.split()[0] for line in shown if "bread" in line] == ["deleted"]
    restored = _json(address, "docs", "restore", gone["document_id"], "-c", "notes")
    assert restored["source_uri"] == "inner/bread.txt"
    by_source = ("inner/bread.txt", "-c", "notes")
    assert groundwire("docs", "delete", *by_source, address=address).returncode == 0
    assert _json(address, "docs", "restore", *by_source)["document_id"] == gone["document_id"]
    assert _json(address, "docs", "get", *by_source)["document_id"] == gone["document_id"]
    found = _json(address, "search", "sourdough yeast", "-c", "notes", "-k", "1")
    assert found["results"][0]["source"] == "inner/bread.txt"


def test_what_takes_a_deletion_back_can_be_pasted_into_a_shell(address: str, tmp_path: Path) -> None:
    (tmp_path / "two words.md").write_text("# Words\n\nThere are two of them.\n", encoding="utf-8")
    groundwire("ingest", str(tmp_path), "-c", "notes", address=address)
    done = groundwire("docs", "delete", "two words.md", "-c", "notes", address=address)
    assert done.stdout.endswith(": groundwire docs restore 'two words.md' -c notes\n")
    groundwire("docs", "delete", "two words.md", "-c", "notes", "--purge", address=address)


def test_a_purged_document_cannot(address: str, tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("# Gone\n\nA comet is made of ice and dust.\n", encoding="utf-8")
    groundwire("ingest", str(tmp_path / "gone.md"), "-c", "notes", address=address)
    document_id = _json(address, "docs", "get", "gone.md", "-c", "notes")["document_id"]
    receipt = _json(address, "docs", "delete", "gone.md", "-c", "notes", "--purge")
    assert (receipt["purged"], receipt["document_count"]) == (True, 1)
    done = groundwire("docs", "restore", document_id, "-c", "notes", address=address)
    assert (done.returncode, "DOCUMENT_NOT_FOUND" in done.stderr) == (1, True)


def test_a_version_that_comes_late_is_refused(address: str, tmp_path: Path) -> None:
    file = tmp_path / "versioned.md"
    file.write_text("# Versioned\n\nThe seventh version.\n", encoding="utf-8")
    run = ("ingest", str(file), "-c", "versions")
    assert groundwire(*run, "--source-version", "7", address=address).returncode == 0
    file.write_text("# Versioned\n\nThe sixth version.\n", encoding="utf-8")
    late = groundwire(*run, "--source-version", "6", address=address)
    assert (late.returncode, "SOURCE_VERSION_STALE" in late.stdout + late.stderr) == (1, True)
    shown = ("docs", "text", "versioned.md", "-c", "versions")
    assert "seventh" in groundwire(*shown, address=address).stdout
    absent = groundwire(*shown, "--generation", "9", address=address)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "has no generation 9; its live one is 1" in absent.stderr


def test_a_chunk_has_tags_and_metadata_of_its_own(address: str) -> None:
    chunk_id = _json(address, "chunks", "list", "tides.md", "-c", "notes")[0]["chunk_id"]
    given = ("--set", "tags=checked", "--set", "metadata.reviewed_by=Jane")
    changed = _json(address, "chunks", "update", chunk_id, "-c", "notes", *given)
    assert "checked" in changed["tags"]
    assert changed["metadata"]["reviewed_by"] == "Jane"
    where = '{"reviewed_by": "Jane"}'
    assert [each["chunk_id"] for each in _json(address, "chunks", "list", "-c", "notes", "--filter", where)] == [
        chunk_id
    ]
    assert "reviewed_by" in groundwire("chunks", "get", chunk_id, "-c", "notes", address=address).stdout
    stale = groundwire("chunks", "update", chunk_id, "-c", "notes", "--unset", "tags", "--etag", "old", address=address)
    assert (stale.returncode, "DOCUMENT_CHANGED" in stale.stderr) == (1, True)
    assert (
        "reviewed_by"
        not in _json(
            address, "chunks", "update", chunk_id, "-c", "notes", "--unset", "metadata", "--etag", changed["etag"]
        )["metadata"]
    )


def test_a_collection_lives_from_create_to_delete(address: str) -> None:
    given = ("--profile", "book", "--set", "retrieval.top_k=7", "--set", "chunking.chunker=sentence")
    settings = _json(address, "collections", "create", "novels", *given)["settings"]
    assert (settings["retrieval"]["top_k"], settings["chunking"]["chunker"]) == (7, "CHUNKER_SENTENCE")
    assert "novels" in [each["name"] for each in _json(address, "collections", "list")]
    shown = groundwire("collections", "get", "novels", address=address).stdout
    assert {("retrieval.top_k", "7"), ("uses_default_embedder", "yes")} <= set(
        map(tuple, map(str.split, shown.splitlines()))
    )
    assert "uses_default_embedder" not in groundwire("collections", "get", "notes", address=address).stdout
    changes = ("--unset", "retrieval.top_k", "--set", "generation_retention=12h")
    settings = _json(address, "collections", "update", "novels", *changes)["settings"]
    assert (settings["retrieval"]["top_k"], settings["generation_retention"]) == (5, "43200s")
    assert _json(address, "collections", "delete", "novels", "--yes")["purged"] is True
    done = groundwire("collections", "get", "novels", address=address)
    assert (done.returncode, "COLLECTION_NOT_FOUND" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("docs", "update", "tides.md", "-c", "notes"), 2, "--set NAME=VALUE"),
        (("ingest", ".", "-c", "notes", "--source-version", "x"), 2, "--source-version"),
        (("docs", "update", "tides.md", "-c", "notes", "--set", "titel=x"), 2, "there are title, creators"),
        (("docs", "update", "tides.md", "-c", "notes", "--set", "language=x"), 2, "ISO 639-1"),
        (("docs", "update", "tides.md", "-c", "notes", "--set", "title=x", "--etag", "old"), 1, "DOCUMENT_CHANGED"),
        (("docs", "update", "nope.md", "-c", "notes", "--set", "title=x"), 1, "DOCUMENT_NOT_FOUND"),
        (("docs", "update", "tides.md", "-c", "nope", "--set", "title=x"), 1, "COLLECTION_NOT_FOUND"),
        (("docs", "restore", "doc_x", "-c", "notes"), 1, "DOCUMENT_NOT_FOUND"),
        (("docs", "restore", "nope.md", "-c", "notes"), 1, "DOCUMENT_NOT_FOUND"),
        (("ingest", "-", "-c", "notes"), 2, "cat > notes.md"),
        (("ingest", "https://example.org/a.html", "-c", "notes"), 2, "curl -o page.html URL"),
        (("ingest", "nope.md", "-c", "notes"), 2, "does not exist"),
        (("ingest", ".", "-c", "notes", "--overlap", "0.5"), 2, "0.0<=x<0.5"),
        (("ingest", "", "-c", "notes"), 2, "must name a file or folder"),
        (("ingest", ".", "-c", "notes", "--set", "titel=x"), 2, "there are title, creators"),
        (("chunks", "update", "nope", "-c", "notes", "--set", "tags=x"), 1, "CHUNK_NOT_FOUND"),
        (("docs", "restore", "tides.md", "-c", "notes", "--etag", "old"), 1, "DOCUMENT_CHANGED"),
        (("chunks", "get", "9" * 30, "-c", "notes"), 2, "at most 9007199254740991"),
        (("chunks", "get", "9" * 5000, "-c", "notes"), 2, "at most 9007199254740991"),
        (("collections", "create", "notes", "--profile", "book"), 1, "ALREADY_EXISTS"),
        (("collections", "create", "No Name"), 2, "1 to 63 characters"),
        (("collections", "update", "notes", "--set", "retrieval.top_k=101"), 2, "1 to 100"),
        (("collections", "delete", "nope", "--yes"), 1, "COLLECTION_NOT_FOUND"),
        (("collections", "delete", "notes"), 2, "add --yes"),
        (("collections", "delete", "notes", "--yes"), 1, "force deletes them too: use --force"),
        (("docs", "delete", "tides.md", "-c", "notes", "--etag", "old"), 1, "DOCUMENT_CHANGED"),
        (("collections", "update", "notes", "--set", "retrieval.top_k=9", "--etag", "old"), 1, "CONFLICT"),
        (("chunks", "update", "x", "-c", "notes", "--set", "content=x"), 2, "there are tags, metadata.KEY"),
        (("chunks", "update", "x", "-c", "notes", "--set", "metadata_x=x"), 2, "there are tags, metadata.KEY"),
        (("stats", "-c", "nope"), 1, "COLLECTION_NOT_FOUND"),
        (("logs", "--since", "yesterday"), 2, "--since: must be a date or a time in ISO 8601"),
        (("logs", "--until", "0001-01-01T00:00:00+14:00"), 2, "--until: must be a date"),
        (("schema", "nope"), 1, "NOT_FOUND"),
        (("validate", "faq", "nope.json"), 2, "cannot be read"),
        (("stats", "--token-file", "/dev/null"), 2, "token_file: '/dev/null' holds neither"),
    ],
)
def test_each_mistake_is_one_readable_line(
    address: str,
    arguments: tuple[str, ...],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["groundwire", *arguments, "--address", address])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_a_service_without_an_address_is_named() -> None:
    done = groundwire("search", "tides", "-c", "notes", address="ingest=127.0.0.1:1")
    assert (done.returncode, done.stderr) == (2, "error INVALID_FIELD: address: names no server for retrieve\n")


def test_a_page_that_cannot_be_written_is_named(address: str) -> None:
    done = groundwire("ask", "What causes the tides?", "-c", "notes", "--html", "/proc/page.html", address=address)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error INVALID_FIELD: --html: /proc/page.html cannot be written: ")


def test_stats_count_what_is_there(address: str) -> None:
    (found,) = _json(address, "stats", "-c", "notes")
    documents = _json(address, "docs", "list", "-c", "notes")
    assert found["document_count"] == len(documents)
    assert found["chunk_count"] == sum(each["chunk_count"] for each in documents) == found["vector_count"]
    shown = groundwire("stats", "-c", "notes", address=address).stdout
    assert ["by", "format", "markdown", "1,", "text", "1"] in [line.split() for line in shown.splitlines()]
    assert groundwire("stats", address=address).stdout.splitlines()[0].startswith("collection")


def test_chunks_of_sections_are_counted_nowhere(address: str, tmp_path: Path) -> None:
    (tmp_path / "levels.md").write_text(
        "# Sea\n\nThe sea is salt.\n\n## Tides\n\nThe moon pulls it.\n", encoding="utf-8"
    )
    done = groundwire("ingest", str(tmp_path), "-c", "levels", "--chunker", "hierarchy", address=address)
    assert done.returncode == 0, done.stderr
    (found,) = _json(address, "stats", "-c", "levels")
    assert (
        found["chunk_count"] == found["vector_count"] == _json(address, "collections", "get", "levels")["chunk_count"]
    )
    assert len(_json(address, "chunks", "list", "levels.md", "-c", "levels")) > found["chunk_count"]


def test_an_example_of_each_schema_is_valid(address: str, tmp_path: Path) -> None:
    schemas = _json(address, "schema")
    assert [each["document_type"] for each in schemas] == [
        *("persona", "faq", "memory", "turn", "summary", "document", "chunk")
    ]
    (faq,) = _json(address, "schema", "faq")
    (tmp_path / "faq.json").write_text(json.dumps(faq["example"]), encoding="utf-8")
    found = _json(address, "validate", "faq", str(tmp_path / "faq.json"))
    assert found["valid"] is True
    assert set(faq["example"]) <= set(found["metadata"])
    assert "example" in groundwire("schema", "document", address=address).stdout
    types = groundwire("schema", "memory", address=address).stdout
    assert all(each in types for each in ('"chat" | "kb" | ', '"memory" · ', "list of string · ", "string date-time"))
    assert groundwire("validate", "nope", str(tmp_path / "faq.json"), address=address).returncode != 1


def test_metadata_that_breaks_rules_is_named_field_by_field(address: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"type": "faq", "colour": "red"}', encoding="utf-8")
    done = groundwire("validate", "faq", str(bad), "--json", address=address)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["valid"] is False
    assert {each["field"] for each in found["violations"]} == {"metadata['colour']", "metadata['timestamp']"}
    bad.write_text('{"type": null}', encoding="utf-8")
    assert groundwire("validate", "faq", str(bad), address=address).returncode == 1


def test_documents_are_purged_by_a_filter_when_somebody_says_yes(address: str, tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.md").write_text(f"Draft {number}.\n", encoding="utf-8")
    given = ("-c", "purged", "--set", "project=drafts")
    assert groundwire("ingest", str(tmp_path), *given, address=address).returncode == 0
    (tmp_path / "kept.md").write_text("Not a draft.\n", encoding="utf-8")
    assert groundwire("ingest", str(tmp_path / "kept.md"), "-c", "purged", address=address).returncode == 0
    purge = ("docs", "purge", "-c", "purged", "--filter", '{"project": "drafts"}')
    asked = groundwire(*purge, address=address)
    assert asked.returncode != 0
    shown = [f"  {number:02}.md" for number in range(10)]
    assert asked.stderr.splitlines()[:12] == ["found 12 documents in 'purged'", *shown, "  …"]
    assert "--yes" in asked.stderr
    assert len(_json(address, "docs", "list", "-c", "purged")) == 13
    done = groundwire(*purge, "--yes", address=address)
    assert (done.returncode, done.stdout) == (0, "deleted 12 documents for good\n")
    assert [each["source_uri"] for each in _json(address, "docs", "list", "-c", "purged", "--deleted")] == ["kept.md"]
    nothing = groundwire(*purge[:-1], '{"title": "none"}', address=address)
    assert (nothing.returncode, nothing.stderr) == (0, "found 0 documents in 'purged'\n")
    assert _json(address, *purge[:-1], '{"title": "none"}') == {"purge_count": 0, "purge_sample": []}
    assert _json(address, *purge[:-1], "*", "--yes") == {"purge_count": 1, "purge_sample": []}

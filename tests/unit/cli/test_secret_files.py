"""Settings that come from files of a folder: what cannot be read, or is no setting, is reported and never left out."""

from pathlib import Path

import pytest

from groundwire.kernel.errors import InvalidRequestError
from groundwire.standalone.settings import load_settings


def refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.setenv("GROUNDWIRE_SECRETS", str(folder))
    with pytest.raises(InvalidRequestError) as caught:
        load_settings()
    (violation,) = caught.value.violations
    return f"{violation.field}: {violation.description}"


def test_a_folder_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = refused(monkeypatch, tmp_path / "missing")
    assert said.startswith("GROUNDWIRE_SECRETS: ")
    assert said.endswith("/missing' cannot be read: No such file or directory")


def test_a_file_instead_of_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("secret")
    assert refused(monkeypatch, tmp_path / "file").endswith("cannot be read: Not a directory")


def test_a_file_that_is_not_text_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "groundwire_token_key").write_bytes(b"\xff\xfe")
    said = refused(monkeypatch, tmp_path)
    assert said.startswith("GROUNDWIRE_TOKEN_KEY: its file in ")
    assert said.endswith("cannot be read: it is not UTF-8")


def test_a_file_whose_name_is_no_setting_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "GROUNDWIRE_TOKN_KEY").write_text("secret")
    assert (
        refused(monkeypatch, tmp_path)
        == "GROUNDWIRE_TOKN_KEY: is not a setting; did you mean GROUNDWIRE_TOKEN_KEY or GROUNDWIRE_TOKEN_FILE?"
    )


def test_other_files_and_an_unset_folder_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_bytes(b"\xff\xfe")
    (tmp_path / "GROUNDWIRE_TOKEN_KEY").write_text("secret\n")
    monkeypatch.setenv("GROUNDWIRE_SECRETS", str(tmp_path))
    assert load_settings().server.signing_key is not None
    monkeypatch.setenv("GROUNDWIRE_SECRETS", "")
    assert load_settings().server.signing_key is None

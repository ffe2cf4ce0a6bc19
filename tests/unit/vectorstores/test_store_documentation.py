"""docs/reference/vector-stores.md names every option of the URLs of servers."""

import re
from pathlib import Path

from groundwire.vectorstores.chroma.server_store import OPTIONS as CHROMA
from groundwire.vectorstores.qdrant_server import OPTIONS as QDRANT

TEXT = (Path(__file__).resolve().parents[3] / "docs/reference/vector-stores.md").read_text(encoding="utf-8")


def test_every_option_of_servers_is_described_with_the_servers_that_know_it() -> None:
    told: dict[str, set[str]] = {"Qdrant": set(), "Chroma": set()}
    for names, servers in re.findall(r"^\| (`[a-z_`, ]+`) \| (both|Qdrant|Chroma) \|", TEXT, flags=re.MULTILINE):
        for server in told if servers == "both" else (servers,):
            told[server].update(re.findall("`([a-z_]+)`", names))
    assert told == {"Qdrant": set(QDRANT), "Chroma": set(CHROMA)}

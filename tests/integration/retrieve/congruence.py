"""The same library on every engine, searches under filters, and what may differ between two answers."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from groundwire.api.common.v1 import filter_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.filter_parsing import JsonFilter, parse_filter, resolve_filter
from groundwire.kernel.filters import Filter, Value, matches
from groundwire.rpc.filter_messages import to_filter_message
from tests.catalogs import POSTGRESQL, catalog_kind, catalogs_are
from tests.conformance.chroma_server import chroma_server
from tests.conformance.filters import random_payload
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.random_searches import WORDS, Case

ENGINES = ("memory", "qdrant-edge", "chroma", "chroma-server", "qdrant-server")
ON_POSTGRESQL = "memory-postgresql"
"""The engine `memory` beside a catalog on PostgreSQL."""
TOLERANCE = 1e-5
"""Engines compute cosines of float32 in different orders; two results nearer than this count as equal."""

_DOCUMENTS = 60
_BIRTH = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search gave: (number, score) in order, or the reason of its error."""

    found: tuple[tuple[int, float], ...] = ()
    error: str | None = None


@contextmanager
def libraries(names: Sequence[str], folder: Path, seed: int) -> Iterator[dict[str, Library]]:
    """Open one library for each engine, all with the same documents in the same order."""
    with ExitStack() as stack:
        opened = {}
        for name in names:
            below = folder / name
            below.mkdir()
            with catalogs_are(POSTGRESQL if name == ON_POSTGRESQL else catalog_kind()):
                library = Library(below, _url(name, below, stack))
            stack.callback(library.close)
            _fill(library, random.Random(seed))
            opened[name] = library
        yield opened


def run(library: Library, case: Case) -> Outcome:
    """Make one search of a library, as the service does."""
    request = pb.RetrieveRequest(collection="docs", query=case.query)
    request.options.mode, request.options.top_k, request.options.min_relevance = case.mode, case.top_k, 0.0
    if case.where is not None:
        request.options.filter.CopyFrom(_message(case.where))
    try:
        response = library.service.servicer.retrieve(request, 0.0).message()
    except GroundwireError as error:
        return Outcome(error=error.reason)
    return Outcome(tuple((hit.chunk.chunk_number, hit.relevance_score) for hit in response.results))


def difference(reference: Outcome, other: Outcome) -> str | None:
    """Return how two answers differ beyond the tolerance, None when they agree."""
    if reference.error != other.error:
        return f"{other.error or 'an answer'} instead of {reference.error or 'an answer'}"
    if len(reference.found) != len(other.found):
        return f"{len(other.found)} results instead of {len(reference.found)}"
    scores = dict(reference.found)
    last = reference.found[-1][1] if reference.found else 0.0
    for (wanted, expected), (number, score) in zip(reference.found, other.found, strict=True):
        if abs(score - expected) > TOLERANCE:
            return f"score {score:.7f} of {number} instead of {expected:.7f} of {wanted}"
        if number != wanted and abs(scores.get(number, last) - expected) > TOLERANCE:
            return f"{number} instead of {wanted}"
    return None


def oracle(library: Library) -> Callable[[Case], set[int]]:
    """Return what tells the numbers of all chunks that a case's filter keeps, by the reference evaluator."""
    view = library.service.search.views.open("default", "docs")
    fields, numbers = view.fields(), view.matching(None)
    stored = view.chunks([int(number) for number in numbers])
    payloads = {number: chunk.payload for number, chunk in stored.items()}

    def kept(case: Case) -> set[int]:
        if case.where is None:
            return set(payloads)
        condition: Filter = resolve_filter(parse_filter(case.where), fields)
        return {number for number, payload in payloads.items() if matches(condition, payload)}

    return kept


def _message(where: JsonFilter) -> filter_pb2.Filter:
    return to_filter_message(parse_filter(where))


def _url(name: str, folder: Path, stack: ExitStack) -> str:
    match name:
        case "chroma-server":
            return stack.enter_context(chroma_server(folder / "server")).url
        case "qdrant-server":
            from tests.conformance.qdrant_loopback import qdrant_loopback  # noqa: PLC0415 - needs its package

            return stack.enter_context(qdrant_loopback())[0]
        case _:
            return "memory:" if name.startswith("memory") else f"{name}:vectors"


def _fill(library: Library, rng: random.Random) -> None:
    for number in range(_DOCUMENTS):
        count = rng.randint(1, 8)
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) + f" d{number}c{part}" for part in range(count)]
        pages: list[tuple[int, ...]] = [()] * count
        if number % 3:
            starts = sorted(rng.choices(range(1, 12), k=count))
            pages = [tuple(range(start, start + rng.randint(1, 2))) for start in starts]
        headings = [rng.choice(("Start", "Middle", "End")) for _ in range(count)]
        library.put(f"folder/{number}.md", texts, fields=_fields(number, rng), headings=headings, pages=pages)


def _fields(number: int, rng: random.Random) -> DocumentFields:
    custom = {key: value for key, value in random_payload(rng).items() if key in {"size", "mixed", "labels"}}
    own: dict[str, Value] = {**custom, "flag": rng.random() < 0.5}
    if number % 4:
        own["day"] = f"2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
    return DocumentFields(
        title=rng.choice((None, "Report", "report 50%_", "Ünïcode Bericht")),
        creators=tuple(rng.sample(("Ada", "Bob", "Smith, J."), rng.randrange(3))),
        subjects=tuple(rng.sample(("law", "tax"), rng.randrange(3))),
        date_created=_BIRTH + timedelta(hours=rng.randint(0, 4000)) if number % 5 else None,
        language=rng.choice(("en", "de")),
        category=rng.choice((None, "memo", "contract")),
        tags=tuple(rng.sample(("critical", "crit", "green", "Grün"), rng.randrange(4))),
        project=rng.choice((None, "acme")),
        metadata=own,
    )

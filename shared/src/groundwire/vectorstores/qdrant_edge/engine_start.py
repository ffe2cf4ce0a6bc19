"""Starts the engine process of qdrant-edge."""

from groundwire.vectorstores.engine_process import EngineProcess

ENGINE = "qdrant-edge"


def start_engine(*, kept_open: tuple[int, ...] = (), niceness: int = 0) -> EngineProcess:
    """Start an engine, to serve or, with a niceness, to build; arguments as those of `EngineProcess`."""
    module = "groundwire.vectorstores.qdrant_edge.engine"
    return EngineProcess(ENGINE, module, kept_open=kept_open, niceness=niceness)

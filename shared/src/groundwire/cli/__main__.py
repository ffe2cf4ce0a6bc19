"""Entry point of the `groundwire` command: runs it and turns errors into messages and exit codes.

Exit codes: 0 done; 1 the work failed (a file, a citation, a health check, the server's answer); 2 the
request or the command line is wrong; 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import typer
from typer.exceptions import TyperException

from groundwire.cli.app import app
from groundwire.cli.options import Interrupted
from groundwire.cli.output import print_json, print_line
from groundwire.kernel.errors import GroundwireError, InvalidRequestError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal of another encoding shows an escape for what it does not have, and no command fails for it.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output left (`groundwire docs list | head`); nothing is wrong. Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    before_texts = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in before_texts
    try:
        # Not standalone: usage errors are printed here, like all others.
        code: int = app(arguments, standalone_mode=False) or 0
    except TyperException as error:
        if not error.format_message():  # no command was given, and the help is printed
            return error.exit_code
        _complain({"reason": "USAGE", "message": error.format_message()}, as_json=as_json)
        if not as_json and (context := getattr(error, "ctx", None)) is not None:
            print_line(f"try: {context.command_path} --help", err=True)
        return error.exit_code
    except typer.Abort:
        _complain({"reason": "ABORTED", "message": "nothing was done"}, as_json=as_json)
        return EXIT_FAILED
    except InvalidRequestError as error:
        violations = [{"field": each.field, "description": each.description} for each in error.violations]
        _complain(_facts(error) | {"violations": violations}, as_json=as_json)
        return EXIT_USAGE
    except GroundwireError as error:
        _complain(_facts(error), as_json=as_json)
        return EXIT_FAILED
    except Interrupted as how_far:
        _say_interrupted(str(how_far), as_json=as_json)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:
        _say_interrupted("interrupted", as_json=as_json)
    return code


def _say_interrupted(message: str, *, as_json: bool) -> None:
    if as_json:
        _complain({"reason": "INTERRUPTED", "message": message}, as_json=True)
    else:
        print_line(message, err=True)


def _facts(error: GroundwireError) -> dict[str, Any]:
    return {"reason": error.reason, "message": error.message, "metadata": error.metadata}


def _complain(error: dict[str, Any], *, as_json: bool) -> None:
    """Print an error to the error stream: a sentence, a line for each of several violations, or an object of JSON."""
    if as_json:
        print_json({"error": error}, err=True, indent=None)
        return
    violations = error.get("violations", ())
    several = len(violations) > 1
    print_line(("error", "bold red"), f" {error['reason']}:", "" if several else f" {error['message']}", err=True)
    for violation in violations if several else ():
        print_line(f"  {violation['field']}: {violation['description']}", err=True)


if __name__ == "__main__":
    main()

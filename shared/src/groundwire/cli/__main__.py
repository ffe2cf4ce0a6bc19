"""Entry point of the `groundwire` command: runs it and turns errors into messages and exit codes.

Exit codes: 0 done; 1 the work failed (a file, a citation, a health check, the server's answer); 2 the
request or the command line is wrong; 130 interrupted.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

    from groundwire.kernel.errors import GroundwireError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_ENDED = {
    True: (EXIT_INTERRUPTED, {"reason": "INTERRUPTED", "message": "interrupted"}),
    False: (EXIT_FAILED, {"reason": "ABORTED", "message": "nothing was done"}),
}
"""What becomes of a command that ended early: by Ctrl-C, or because a question was answered with no."""


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal of another encoding shows an escape for what it does not have, and no command fails for it.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; what goes wrong is printed."""
    # Imported here, so that Ctrl-C meanwhile is no traceback.
    import click  # noqa: PLC0415 - see above

    from groundwire.cli.app import app  # noqa: PLC0415 - see above
    from groundwire.cli.options import Interrupted  # noqa: PLC0415 - see above
    from groundwire.cli.output import print_line  # noqa: PLC0415 - see above
    from groundwire.kernel.errors import GroundwireError, InvalidRequestError  # noqa: PLC0415 - see above

    before_texts = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in before_texts
    try:
        # Not standalone: usage errors are printed here, like all others.
        code: int = app(arguments, prog_name="groundwire", standalone_mode=False) or 0
        error: dict[str, Any] = {}
    except click.exceptions.NoArgsIsHelpError as refusal:
        refusal.show()
        return refusal.exit_code
    except click.ClickException as refusal:
        code, error = refusal.exit_code, _usage(refusal, as_json=as_json)
    except click.Abort as abort:
        code, error = _ENDED[isinstance(abort.__cause__, KeyboardInterrupt)]
    except Interrupted as stopped:
        code, error = EXIT_INTERRUPTED, {"reason": "INTERRUPTED", "message": str(stopped)}
    except InvalidRequestError as failure:
        violations = [{"field": each.field, "description": each.description} for each in failure.violations]
        code, error = EXIT_USAGE, _facts(failure) | {"violations": violations}
    except GroundwireError as failure:
        code, error = EXIT_FAILED, _facts(failure)
    if error and not as_json and code == EXIT_INTERRUPTED:
        print_line(error["message"], err=True)
    elif error:
        _complain(error, as_json=as_json)
    return code


def _usage(refusal: "click.ClickException", *, as_json: bool) -> dict[str, Any]:
    message = refusal.format_message()
    context = getattr(refusal, "ctx", None)
    if context is not None and not as_json:
        message = f"{message.rstrip('.')}. Try `{context.command_path} --help`."
    return {"reason": "USAGE", "message": message}


def _facts(error: "GroundwireError") -> dict[str, Any]:
    return {"reason": error.reason, "message": error.message, "metadata": error.metadata}


def _complain(error: dict[str, Any], *, as_json: bool) -> None:
    """Print an error to the error stream: a sentence, a line for each of several violations, or an object of JSON."""
    from groundwire.cli.output import print_json, print_line  # noqa: PLC0415 - see above

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

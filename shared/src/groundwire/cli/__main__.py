"""Entry point of the `groundwire` command: runs it and turns errors into messages and exit codes.

Exit codes: 0 done; 1 the work failed (a file, a citation, a health check, the server's answer); 2 the
request or the command line is wrong; 130 interrupted.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

EXIT_FAILED = 1
EXIT_USAGE = 2
# What shells report for a process that SIGINT (2) ended: 128 + 2.
EXIT_INTERRUPTED = 130
_SHOWN_CHARS = 100
_ONCE_MORE_S = 0.01
# What people try, with what they mean; click suggests only names that are spelled alike.
_MEANT = {
    "--address": ("--listen",),
    "--host": ("--listen", "--address"),
    "--limit": ("--top-k", "--count"),
    "--port": ("--listen", "--address"),
    "help": ("--help",),
    "show": ("get",),
}


def main() -> None:
    sys.unraisablehook = _end_after_all
    # Whoever starts a command may have closed its streams (`<&-`): it reads nothing then, and writes to nowhere.
    nowhere = Path(os.devnull)
    sys.stdin = sys.stdin or nowhere.open(encoding="utf-8")
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    # A terminal with another encoding shows escapes instead of failing on characters that it lacks. What is typed in
    # another one is a question with wrong characters, and no end of the session.
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    if sys.argv[1:2] != ["serve"]:
        # The error of a command says why it cannot connect; what the library logs of each attempt repeats it.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
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
    from groundwire.kernel.errors import GroundwireError, InvalidRequestError  # noqa: PLC0415 - see above

    before_texts = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in before_texts
    error: dict[str, Any]
    try:
        # Not standalone: usage errors are printed here, like all others.
        return app(arguments, prog_name="groundwire", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as refusal:
        refusal.show()
        return refusal.exit_code
    except click.ClickException as refusal:
        message = _usage_message(refusal, as_json=as_json)
        code, error = refusal.exit_code, {"reason": "USAGE", "message": message}
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):  # no cause where a question was interrupted
            code, error = EXIT_INTERRUPTED, {"reason": "INTERRUPTED", "message": "interrupted"}
        else:  # a question was answered with no
            code, error = EXIT_FAILED, {"reason": "ABORTED", "message": "nothing was done"}
    except Interrupted as stopped:
        code, error = EXIT_INTERRUPTED, {"reason": "INTERRUPTED", "message": str(stopped)}
    except GroundwireError as failure:
        from groundwire.cli.output import error_json  # noqa: PLC0415 - see above

        code = EXIT_USAGE if isinstance(failure, InvalidRequestError) else EXIT_FAILED
        error = error_json(failure)
    except OSError as failure:
        # Of a file or folder that the command was told to use: calls to servers have errors of their own.
        path = failure.filename2 or failure.filename  # of a copy that which is written
        place = f"cannot use {os.fsdecode(path)!r}: " if isinstance(path, str | bytes) else ""
        message = f"{place}{failure.strerror or failure}"
        code, error = EXIT_FAILED, {"reason": "FAILED_PRECONDITION", "message": message}
    except UnicodeEncodeError as failure:
        # Arguments may be any bytes, as names of files are, and JSON may name half a character; messages hold neither.
        code, error = EXIT_USAGE, {"reason": "USAGE", "message": f"{failure.object[:_SHOWN_CHARS]!a} is not UTF-8"}
    _print_error(error, as_json=as_json)
    return code


def _end_after_all(lost: "sys.UnraisableHookArgs") -> None:
    """Let a signal come once more whose exception met a finalizer, such as that of an engine, and was lost there."""
    number = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}.get(lost.exc_type)
    if number is None:
        sys.__unraisablehook__(lost)
        return
    once_more = threading.Timer(_ONCE_MORE_S, signal.pthread_kill, (threading.get_ident(), number))
    once_more.daemon = True
    once_more.start()


def _usage_message(refusal: "click.ClickException", *, as_json: bool) -> str:
    """Return what is wrong with the command line and, except for programs, what to try instead."""
    import click  # noqa: PLC0415 - see above

    message = refusal.format_message()
    context = getattr(refusal, "ctx", None)
    if context is None:
        return message
    if isinstance(refusal, click.NoSuchOption) and context.parent is None:
        name = refusal.option_name
        return f"no option {name} before a command; options follow it, as in `groundwire ask --address …`"
    if isinstance(refusal, click.NoSuchOption | click.NoSuchCommand):
        tried = refusal.option_name if isinstance(refusal, click.NoSuchOption) else refusal.command_name
        known = {
            *getattr(context.command, "commands", ()),
            *(name for each in context.command.get_params(context) for name in each.opts),
        }
        meant = [name for name in _MEANT.get(tried, ()) if name in known]
        message = f"{refusal.message} Did you mean {meant[0]!r}?" if meant else message
    takes_text = any(each.human_readable_name == "TEXT" for each in context.command.params)
    if message.startswith("Got unexpected extra argument") and takes_text:
        message = f"{message.rstrip('.')}: put the text in quotes."
    end = "" if message.endswith((".", "?", "?)")) else "."
    return message if as_json else f"{message}{end} Try `{context.command_path} --help`."


def _print_error(error: dict[str, Any], *, as_json: bool) -> None:
    """Print an error to the error stream: a sentence, a line for each of several violations, or an object of JSON."""
    from groundwire.cli.output import print_json, print_line  # noqa: PLC0415 - see above

    violations = error.get("violations", ())
    several = len(violations) > 1
    if as_json:
        print_json({"error": error}, err=True, indent=None)
    elif error["reason"] == "INTERRUPTED":
        print_line(error["message"], err=True)
    else:
        print_line(("error", "bold red"), f" {error['reason']}:", "" if several else f" {error['message']}", err=True)
        for violation in violations if several else ():
            print_line(f"  {violation['field']}: {violation['description']}", err=True)


if __name__ == "__main__":
    main()

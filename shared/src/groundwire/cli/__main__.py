"""Entry point of the `groundwire` command: runs it and turns errors into messages and exit codes.

Exit codes: 0 done; 1 the work failed (a file, a citation, a health check, the server's answer); 2 the
request or the command line is wrong; 130 interrupted.
"""

import sys

from groundwire.cli.app import app
from groundwire.kernel.errors import GroundwireError, InvalidRequestError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    try:
        app()
    except InvalidRequestError as error:
        _complain(error)
        sys.exit(EXIT_USAGE)
    except GroundwireError as error:
        _complain(error)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output left (`groundwire docs list | head`); nothing is wrong.
        sys.stderr.close()
        sys.exit(0)


def _complain(error: GroundwireError) -> None:
    from groundwire.cli.output import console  # noqa: PLC0415 - costs time that --help should not pay

    shown = console(stderr=True)
    shown.print(f"[bold red]error[/] {error.reason}: ", end="")
    if isinstance(error, InvalidRequestError) and len(error.violations) > 1:
        shown.print()
        for violation in error.violations:
            shown.print(f"  {violation.field}: {violation.description}", markup=False)
    else:
        shown.print(error.message, markup=False)


if __name__ == "__main__":
    main()

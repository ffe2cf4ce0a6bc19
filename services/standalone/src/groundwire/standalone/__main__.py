"""`python -m groundwire.standalone`: the embedded process without the command line, configured by variables."""

import sys

from groundwire.kernel.errors import GroundwireError
from groundwire.standalone.process import run
from groundwire.standalone.settings import ServiceName, load_settings

if __name__ == "__main__":
    try:
        run(ServiceName.ALL, load_settings())
    except GroundwireError as error:
        sys.exit(f"{error.reason}: {error.message}")

"""The command ``ptxinspect``, as the Rust program has it."""

import signal
import sys

from . import _ptxinspect


def main() -> int:
    """Runs the command line with this process's arguments."""
    # An interrupt ends the program at once and removes what it left; Python would wait until it is done.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _ptxinspect.main(["ptxinspect", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

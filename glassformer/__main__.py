"""The command line, as `glassformer` or `python -m glassformer`."""

import sys


def main() -> None:
    """Whoever stops it while torch is still being imported gets no traceback."""
    try:
        from glassformer.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

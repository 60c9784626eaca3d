"""The command line, as `glassformer` or `python -m glassformer`."""

import os


def main() -> None:
    """Runs the command line; an interruption during the imports prints no traceback."""
    try:
        from glassformer.cli import main as run
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()

"""The command line, as `glassformer` or `python -m glassformer`."""

import os


def main() -> None:
    """Whoever stops it while torch is still being imported gets no traceback."""
    try:
        from glassformer.cli import main as run
    except KeyboardInterrupt:
        os.write(2, b"Interrupted.\n")
        os._exit(130)  # Python itself would sometimes end by the signal, after half an import
    run()


if __name__ == "__main__":
    main()

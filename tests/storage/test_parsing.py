from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from time import sleep

from glassformer.storage.parsing import silent


def test_standard_error_comes_back_after_two_threads_were_silent():
    def work() -> None:
        with silent():
            sleep(0.1)

    before = Path("/proc/self/fd/2").resolve()
    first, second = Thread(target=work), Thread(target=work)
    first.start()
    sleep(0.05)
    second.start()
    first.join()
    second.join()
    assert Path("/proc/self/fd/2").resolve() == before


def test_what_is_written_meanwhile_is_discarded(capfd):
    with silent():
        os.write(2, b"a panic")
    os.write(2, b"a warning")
    assert capfd.readouterr().err == "a warning"

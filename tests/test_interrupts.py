"""SIGTERM and SIGHUP are treated like Ctrl-C; ignored signals stay ignored."""

from __future__ import annotations

import os
import signal
from threading import Thread

import pytest

from glassformer.interrupts import SIGNALS, terminable
from glassformer.train.interrupt import InterruptHandler


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_an_interruption_inside_alone(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), terminable():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_takes_effect_at_once(number):
    with pytest.raises(KeyboardInterrupt), terminable(), InterruptHandler() as handler:
        os.kill(os.getpid(), number)
        assert handler.requested
        os.kill(os.getpid(), number)


def test_an_ignored_signal_stays_ignored():
    """As below nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminable(), InterruptHandler() as handler:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not handler.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_changed():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with terminable(), InterruptHandler():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]

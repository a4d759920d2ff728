"""Grading functions that misbehave, for the tests of the pool."""

import ctypes
import os
import signal
import sys
import time


def double(x):
    return 2 * x


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


def count_for_ever(_):
    return sum(range(10**15))


def kill_itself(_):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_or_double(x):
    if x < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * x


def kill_the_group(_):
    os.killpg(os.getpgrp(), signal.SIGKILL)


def interrupt(pid, now):
    if now:
        os.kill(pid, signal.SIGINT)
    time.sleep(60)


def segfault(_):
    ctypes.string_at(0)


def fill_memory(_):
    return len(bytearray(1 << 40))


def leave(_):
    os._exit(0)


def exit_politely(_):
    sys.exit("enough")


def give_back_what_cannot_be_sent(_):
    return lambda: None


def modules():
    return sorted(sys.modules)


def complain(_):
    raise ValueError("I don't like it")


def chatter():
    print("noise" * 100_000)
    print("noise" * 100_000, file=sys.stderr)
    return "done"


def process_id(_):
    return os.getpid()

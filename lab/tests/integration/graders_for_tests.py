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


def tower(n):
    return 9**9**9**n > 0


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_the_group():
    os.killpg(os.getpgrp(), signal.SIGKILL)


def interrupt(pid, now):
    if now:
        os.kill(pid, signal.SIGINT)
    time.sleep(60)


def segfault():
    ctypes.string_at(0)


def fill_memory():
    return len(bytearray(1 << 40))


def leave():
    os._exit(0)


def modules():
    return sorted(sys.modules)


def complain(*_):
    raise ValueError("I don't like it")


def chatter():
    print("noise" * 100_000)
    print("noise" * 100_000, file=sys.stderr)
    return "done"


def process_id():
    return os.getpid()

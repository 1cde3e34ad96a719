"""Work that is tried in a child: it may end, die, raise, or never end; and a child may never begin."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from hnfc.core import children


def raising() -> None:
    raise ValueError


def waiting() -> None:
    time.sleep(60)


@pytest.mark.parametrize(("work", "lives"), [(int, True), (raising, True), (lambda: os._exit(3), False), (os.abort, False)])
def test_a_child_lives_on_or_not(work, lives):
    assert children.survives(work) is lives


def test_work_that_does_not_end_counts_as_deadly(monkeypatch):
    monkeypatch.setattr(children, "_MOST_SECONDS", 0.2)
    started = time.monotonic()
    assert not children.survives(waiting)
    assert time.monotonic() - started < 30


def test_a_child_that_does_not_begin_is_made_again():
    code = """
import os, time
from hnfc.core import children
children._START_SECONDS = 0.5
tries = []
os.register_at_fork(before=lambda: tries.append(1), after_in_child=lambda: time.sleep(60) if len(tries) < 3 else None)
print(children.survives(lambda: os._exit(3)), len(tries))
tries[:] = [-9] * -9
os.register_at_fork(after_in_child=lambda: time.sleep(60))
print(children.survives(lambda: os._exit(3)))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "False 3\nTrue\n" and done.stderr == ""


def test_from_a_process_with_threads():
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert all(children.survives(int) for _ in range(20))
    finally:
        stop.set()
        for thread in threads:
            thread.join()

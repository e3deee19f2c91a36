"""How the processes of the demo end, and who may look at them."""

import multiprocessing
import os
import shutil
import signal

try:
    import ctypes

    prctl = ctypes.CDLL(None).prctl
except (ImportError, OSError, AttributeError):
    # Some builds of Python have no ctypes: trainmon still ends the job when it ends itself.
    prctl = None

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = -1


def trainmon():
    """PID of the trainmon that started this job."""
    return int(os.environ["TRAINMON_DEMO_PID"])


def end_with_parent(number, parent):
    """Has the kernel send this signal when the parent ends, even by SIGKILL, and lets py-spy read the stacks."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, end if number == signal.SIGTERM else signal.SIG_DFL)
    if prctl:
        # Where Yama lets only ancestors attach, py-spy is a sibling. Without Yama the call fails, and nothing is missing.
        prctl(PR_SET_PTRACER, ctypes.c_long(PR_SET_PTRACER_ANY), 0, 0, 0)
        prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
    if os.getppid() != parent:
        # It had ended before the kernel was told.
        os.kill(os.getpid(), number)


def end_with_workers():
    """Ends the job when one of its workers has ended: the loop would wait for its batches forever."""
    signal.signal(signal.SIGCHLD, end)


def end(number, _frame):
    """Ends the workers and this process, and removes its folder."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for worker in multiprocessing.active_children():
        worker.kill()
        worker.join()
    shutil.rmtree(os.getcwd(), ignore_errors=True)
    os._exit(number == signal.SIGCHLD)

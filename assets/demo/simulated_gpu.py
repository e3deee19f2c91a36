"""The GPU of the demo: a queue of work whose state is kept in a file that trainmon made and reads."""

import mmap
import os
import threading
import time

# Offsets of 8-byte numbers in the file; trainmon's src/sources/simulated_device/state.rs has the layout.
DEVICE = 256
SEQUENCE, ENQUEUED_NS, FREE_AT_NS, OWNER_PID = (DEVICE // 8 + number for number in (0, 1, 2, 15))


class SimulatedGpu:
    """Work is a length of time. Launching it returns at once, as launching a kernel does."""

    def __init__(self, fd):
        self.words = memoryview(mmap.mmap(fd, 0)).cast("Q")
        self.ends = []  # of the launches that have not been waited for
        self.never = threading.Event()
        self.write({OWNER_PID: os.getpid()})

    def write(self, numbers):
        """Changes numbers of the file. The sequence number is odd meanwhile, so that no reader takes half a change."""
        self.words[SEQUENCE] += 1
        for place, number in numbers.items():
            self.words[place] = number
        self.words[SEQUENCE] += 1

    def launch(self, seconds):
        length = int(seconds * 1e9)
        end = max(self.words[FREE_AT_NS], time.monotonic_ns()) + length
        self.write({ENQUEUED_NS: self.words[ENQUEUED_NS] + length, FREE_AT_NS: end})
        self.ends.append(end)

    def synchronize(self, ahead=0):
        """Waits until at most `ahead` launches have not ended."""
        while len(self.ends) > ahead:
            left = self.ends.pop(0) - time.monotonic_ns()
            if left > 0:
                self.never.wait(left / 1e9)

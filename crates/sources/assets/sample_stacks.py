# Takes the stacks of another process with CPython's own reader, some seconds long: the arguments are its PID, the
# seconds, the samples a second, and the file to write to, as py-spy 0.3 does (`--format raw`). Reasons go to stderr.
#
# Stops nothing and writes nothing: `cache_frames=True` would write into the other process's memory.
import sys
import time

try:
    from _remote_debugging import RemoteUnwinder
except ImportError as error:
    sys.exit(f"no reader of stacks: {error}")

PID, SECONDS, HZ = (int(word) for word in sys.argv[1:4])
OUTPUT = sys.argv[4]
# Each failing sample is one that changed while it was read.
PASSING = (RuntimeError, UnicodeDecodeError, MemoryError, OSError)
counted = {}


def fail(error):
    # The reader is no documented interface: an error of any other kind is a change of it.
    begin = "" if isinstance(error, PASSING) else "no known reader of stacks: "
    sys.exit(f"{begin}{type(error).__name__}: {error}")


def take(reader):
    for interpreter in reader.get_stack_trace():
        for thread in interpreter.threads:
            frames = tuple((frame.funcname, frame.filename, frame.location) for frame in thread.frame_info)
            stack = (thread.thread_id, frames)
            counted[stack] = counted.get(stack, 0) + 1


def line_of(location):
    return location[0] if location and location[0] > 0 else 0


try:
    reader = RemoteUnwinder(PID, all_threads=True, gc=False, cache_frames=False)
except Exception as error:
    fail(error)
begin = time.monotonic()
failed = None
for number in range(SECONDS * HZ):
    time.sleep(max(0.0, begin + number / HZ - time.monotonic()))
    try:
        take(reader)
    except ProcessLookupError:
        break
    except PASSING as error:
        failed = error
    except Exception as error:
        fail(error)
    if time.monotonic() - begin > SECONDS:
        break
if failed and not counted:
    fail(failed)
with open(OUTPUT, "w", encoding="utf-8", errors="replace") as output:
    for (tid, frames), samples in counted.items():
        # The outermost first. A line break would end the record.
        words = [f"{function} ({file}:{line_of(location)})" for function, file, location in reversed(frames)]
        print(";".join([f"thread ({tid})", *words]).replace("\n", " "), samples, file=output)

# What `trainmon profile --inject` has a job run. The job's interpreter reads it in the main thread, between two bytecodes
# (sys.remote_exec, PEP 768), into a namespace of its own. It starts torch's profiler. A thread ends the profiler when the window
# is over, writes the trace, and ends as well. `trainmon profile PID --inject --dry-run` prints this text.
#
# Nothing is printed, nothing is raised into the job, and nothing stays: no thread, module, handler, hook or file. trainmon holds a
# lock on a file while it waits. Once it is gone, killed or not, the profiler ends and the files go.

import os
import sys

#: folder: where all files are. pid: the job's. seconds: how long to record at most. steps: how many steps of the optimizer to
#: record, or 0. stacks: record Python's functions as well, or 0. late: seconds until a main thread in a long call is not waited for.
PARAMETERS = {}  # trainmon writes them here

#: What trainmon locks, this script, what it says of itself, the trace while it is written, and when it is whole.
FILES = ("lock", "script.py", "status", "part", "trace.json")
LOCK, SCRIPT, STATUS, PART, TRACE = (os.path.join(PARAMETERS["folder"], name) for name in FILES)

#: The profiler while it records; then what it recorded; why there is no trace; what the job was to raise while it ran this script.
RUNNING, RECORDED, FAILED, RAISED = [], [], [], []
#: Modules that go again if they were imported meanwhile.
IMPORTED = []
#: What ends the profiler where the job ends meanwhile.
AT_EXIT = []
#: What is changed in modules while the profiler records: module, name, and the value that comes back.
CHANGED = []
#: How much libkineto says, a number in its memory, and what it was before.
LEVEL = {"of": None, "before": 0}
#: More than any message of libkineto has.
SILENT = 99
#: The module that torch imports where Python's functions are recorded.
TRACER = "torch.profiler.python_tracer"
#: The optimizer whose steps count, the annotation of its current step, and the steps that are over.
COUNTED = {"optimizer": None, "step": None, "steps": -1}


def awaited():
    """Whether trainmon still waits: it has the lock."""
    try:
        lock = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.lockf(lock, os.F_TEST, 0)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def tell(state, why=""):
    """Tells trainmon how far it is: JSON in a file that has the room already, for a disk that is full."""
    plain = "".join(letter if " " <= letter <= "~" and letter not in '"\\' else "?" for letter in str(why)[:400])
    text = '{"state": "%s", "why": "%s", "steps": %d}' % (state, plain, COUNTED["steps"])
    try:
        file = os.open(STATUS, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(file, text.ljust(511).encode() + b"\n")
        finally:
            os.close(file)
    except OSError:
        pass  # The folder is gone: trainmon does not wait any more.


def remove():
    """Removes all files, and the folder."""
    try:
        for name in os.listdir(PARAMETERS["folder"]):
            os.unlink(os.path.join(PARAMETERS["folder"], name))
        os.rmdir(PARAMETERS["folder"])
    except OSError:
        pass  # trainmon, or the next one, removes it.


def hush():
    """Keeps libkineto from printing into the job's output. Its first start sets the level anew."""
    level = LEVEL["of"]
    if level is not None and level.value != SILENT:
        LEVEL["before"], level.value = level.value, SILENT


def find_level(torch):
    """Finds the number that says how much libkineto prints."""
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        LEVEL["of"] = ctypes.c_int.in_dll(loaded, "_ZN9libkineto6Logger14severityLevel_E")
    except (OSError, ValueError):
        pass  # Another build of torch: it prints two lines.


def speak():
    """Lets libkineto print again."""
    if LEVEL["of"] is not None:
        LEVEL["of"].value = LEVEL["before"]


def change(module, name, value):
    """Gives a module another value for the time of the window. Nothing is changed in place: the job may be going through it."""
    CHANGED.append((module, name, value, getattr(module, name)))
    setattr(module, name, value)


def restore():
    """Gives modules back what they had, unless the job has changed it meanwhile."""
    while CHANGED:
        module, name, value, before = CHANGED.pop()
        if getattr(module, name) is value:
            setattr(module, name, before)


def count(optimizer, args, kwargs):
    """After each step of an optimizer: marks the steps of the first one that takes any, as torch.profiler's `step` does."""
    try:
        if COUNTED["optimizer"] is None:
            COUNTED["optimizer"] = id(optimizer)
        if COUNTED["optimizer"] != id(optimizer) or not RUNNING:
            return
        if COUNTED["step"] is not None:
            COUNTED["step"].__exit__(None, None, None)
            COUNTED["step"] = None
        COUNTED["steps"] += 1
        if COUNTED["steps"] >= PARAMETERS["steps"]:
            OVER.set()
            return
        step = sys.modules["torch.autograd.profiler"].record_function("ProfilerStep#%d" % COUNTED["steps"])
        step.__enter__()
        COUNTED["step"] = step
    except Exception as error:
        FAILED.append(error)
        OVER.set()


def in_fork(_over):
    """In a worker that is forked meanwhile: the thread that ends the profiler is not there."""
    RUNNING.clear()
    restore()
    speak()
    sys.modules["torch"]._C._autograd._clear_callbacks()
    sys.modules["torch.autograd.profiler"]._set_is_profiler_enabled(False)
    if PARAMETERS["stacks"]:
        sys.setprofile(None)


def at_exit(thread, over):
    """In the main thread, where the job ends meanwhile: has the thread end the profiler first."""
    over.set()
    while thread.is_alive():
        thread.join(0.05)  # Between two of these the main thread ends the profiler.


def stop():
    """Ends the profiler, once, whoever comes first."""
    try:
        profile = RUNNING.pop()
    except IndexError:
        return
    restore()
    for call in AT_EXIT:
        call.cancel()
    while True:
        try:
            profile.__exit__(None, None, None)
            RECORDED.append(profile)
        except Exception as error:
            FAILED.append(error)
        except BaseException as error:
            # Of a handler of the job, such as Ctrl-C. It comes again when this is over.
            RAISED.append(type(error))
            continue
        break
    OVER.set()
    STOPPED.set()


def stop_in_main_thread():
    """Has the main thread end the profiler between two bytecodes, where it is in no operator. Returns what must be kept until then."""
    called = threading.Event()

    def call(_argument):
        stop()
        called.set()
        return 0

    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
    # Not as an attribute, which would stay there.
    add = ctypes.pythonapi["Py_AddPendingCall"]
    while add(function, None) != 0:
        time.sleep(0.01)  # The list of calls is full.
    if not STOPPED.wait(PARAMETERS["late"]):
        stop()  # The main thread is in a long call, and another one runs the loop.
    STOPPED.wait()
    return function, called, call.__code__


def write(profile):
    """Writes the trace, which appears whole or not at all."""
    os.close(os.open(PART, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        profile.export_chrome_trace(PART)
        with open(PART, "rb") as file:
            file.seek(max(0, os.path.getsize(PART) - 16))
            is_whole = file.read().rstrip().endswith(b"}")
        if not is_whole:
            # torch says nothing where it cannot write.
            disk = os.statvfs(PART)
            free = disk.f_bavail * disk.f_frsize >> 20
            raise OSError("torch wrote only a part of the trace to a disk with %d MiB free" % free)
        os.rename(PART, TRACE)
    except BaseException:
        for name in (PART, PART + ".tmp"):
            if os.path.exists(name):
                os.unlink(name)
        raise


def end():
    """In a thread: waits until the window is over, ends the profiler, and writes the trace."""
    kept = None
    try:
        BEGUN.wait()
        try:
            os.unlink(SCRIPT)
        except OSError:
            pass  # trainmon has given up.
        over = time.monotonic() + PARAMETERS["seconds"]
        while RUNNING and awaited() and (left := over - time.monotonic()) > 0 and not OVER.wait(min(left, 0.02)):
            pass
        if RUNNING:
            kept = stop_in_main_thread()
        STOPPED.wait()
        if FAILED:
            tell("failed", FAILED[0])
        elif awaited():
            write(RECORDED[0])
            tell("written")
    except BaseException as error:
        stop()
        tell("failed", error)
    speak()
    RECORDED.clear()
    COUNTED["step"] = None
    for name in IMPORTED:
        package, _, last = name.rpartition(".")
        if sys.modules.pop(name, None) is not None:
            delattr(sys.modules[package], last)
    if not awaited():
        remove()
    if kept:
        function, called, code = kept
        # The memory of a call must be there until the call has returned.
        called.wait()
        while any(is_in(frame, code) for thread, frame in sys._current_frames().items() if thread == MAIN):
            time.sleep(0.01)
    if RAISED:
        ctypes.pythonapi["PyThreadState_SetAsyncExc"](ctypes.c_ulong(MAIN), ctypes.py_object(RAISED[0]))
    globals().clear()


def is_in(frame, code):
    """Whether a function runs in a thread."""
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


def of_run():
    """What the trace says of the run, as torch.profiler would."""
    said = {"record_shapes": "1"}
    if PARAMETERS["stacks"]:
        said["with_stack"] = "1"
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        numbers = (distributed.get_backend(), distributed.get_rank(), distributed.get_world_size())
        said["distributedInfo"] = '{"backend": "%s", "rank": %d, "world_size": %d}' % numbers
    return said


def start(torch, profiler):
    """Starts the profiler, and changes what must be changed while it records."""
    device = next((name for name in ("cuda", "xpu") if hasattr(torch, name) and getattr(torch, name).is_initialized()), None)
    profile = profiler.profile(
        use_kineto=True,
        use_device=device,
        record_shapes=True,
        with_stack=bool(PARAMETERS["stacks"]),
        # The loop may run in any thread.
        experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),
    )
    find_level(torch)
    hush()
    RUNNING.append(profile)
    profile._prepare_trace()
    hush()
    profile._start_trace()
    for key, value in of_run().items():
        torch.autograd._add_metadata_json(key, value)
    # The job's own profiler goes first.
    prepare = profiler._prepare_profiler
    change(profiler, "_prepare_profiler", lambda *args, **kwargs: (stop(), prepare(*args, **kwargs))[1])
    if PARAMETERS["steps"]:
        optimizer = sys.modules["torch.optim.optimizer"]
        hooks = optimizer._global_optimizer_post_hooks
        change(optimizer, "_global_optimizer_post_hooks", type(hooks)([*hooks.items(), ("trainmon", count)]))
    util = sys.modules["multiprocessing.util"]
    # It goes with the event.
    util.register_after_fork(OVER, in_fork)
    # Torch crashes where the interpreter ends with a profiler of all threads.
    AT_EXIT.append(util.Finalize(None, at_exit, (ENDING, OVER), exitpriority=1000))


def begin():
    """In the main thread: starts the profiler, and the thread that ends it. Returns whether there is that thread."""
    torch, profiler = sys.modules.get("torch"), sys.modules.get("torch.autograd.profiler")
    if profiler is None or not hasattr(torch, "optim"):
        tell("no-torch")
        return False
    if profiler._is_profiler_enabled or torch.autograd._profiler_enabled():
        tell("profiled")
        return False
    if TRACER not in sys.modules:
        IMPORTED.append(TRACER)
    global ctypes, threading, time, OVER, STOPPED, BEGUN, MAIN, ENDING
    # Torch has imported these.
    import ctypes
    import threading
    import time

    OVER, STOPPED, BEGUN = threading.Event(), threading.Event(), threading.Event()
    MAIN = threading.get_ident()
    ENDING = threading.Thread(target=end, name="trainmon", daemon=True)
    ENDING.start()
    try:
        start(torch, profiler)
        tell("began")
    except BaseException as error:
        FAILED.append(error)
        if not isinstance(error, Exception):
            RAISED.append(type(error))
        OVER.set()
        if not RUNNING:
            STOPPED.set()
    BEGUN.set()
    return True


if os.getpid() == PARAMETERS["pid"]:  # No fork of the job.
    if not awaited():
        remove()
        globals().clear()
    elif not begin():
        globals().clear()

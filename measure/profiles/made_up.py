"""Writes traces of any size, as Kineto writes them: one made-up training step, again and again, later each time, with new IDs.

The file has the sections that Kineto's have, each in order of time: the operators, the Python functions, then the calls of the runtime with
kernels, copies and arrows. About 40% of the events are operators with shapes, 15% Python functions, 30% arrows.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

PID, LOOP, AUTOGRAD, STREAM = 4515, 4515, 4688, 7
#: The first event, microseconds; torch counts them from its baseTimeNanoseconds.
STARTS_US = 4_906_671_918_656
#: Groups of operators in a step, one half of them forward; microseconds from one to the next.
GROUPS, GROUP_US = 40, 100
#: How long the loop waits for a batch, and how long it waits for the GPU at the end.
BATCH_US, SYNC_US = 800, 200
STEP_US = BATCH_US + GROUPS * GROUP_US + SYNC_US + 100
#: IDs from one step to the next, of which not all are used; the number of the first step.
IDS, FIRST_STEP = 1000, 10
HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    { "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "numSms": 132 }
  ],
  "with_stack": 1, "record_shapes": 1,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
LAST = """  {
    "name": "process_name", "ph": "M", "ts": 4906671918656.008, "pid": 4515, "tid": 0,
    "args": {
      "name": "python"
    }
  }
  ],
  "traceName": "made-up.json"
}
"""
KERNELS = (
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4::Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, at::native::"
    "CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*, float const*, float const*,"
    " float*, float*, float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
)
MODULES = ("Linear", "GELU", "LayerNorm", "Embedding", "Dropout")


@dataclass
class Section:
    """Events of one step, as a format whose numbers move on from step to step."""

    texts: list[str] = field(default_factory=list)
    #: The numbers of the first step, and what each gains in a step.
    numbers: list[int] = field(default_factory=list)
    gains: list[int] = field(default_factory=list)

    def add(self, text: str, *numbers: tuple[int, int]) -> None:
        self.texts.append(text)
        for first, gain in numbers:
            self.numbers.append(first)
            self.gains.append(gain)

    def steps(self, count: int, first: int = 0) -> Iterator[str]:
        form = ",\n".join(self.texts) + ",\n"
        both = list(zip(self.numbers, self.gains))
        for step in range(first, first + count):
            yield form % tuple(number + step * gain for number, gain in both)


class Step:
    """The events of one step; `sections` are in the order of the file."""

    def __init__(self) -> None:
        self.operators, self.functions, self.runtime = self.sections = (Section(), Section(), Section())
        self.draw = random.Random(0)
        self.events = 0
        self.next_id = 1
        self._write()

    def _id(self) -> tuple[int, int]:
        self.next_id += 1
        return self.next_id, IDS

    def _event(
        self, section: Section, category: str, name: str, thread: int, begin: int, lasts: float, args: str, *ids: tuple[int, int], process: int = PID
    ) -> None:
        """`args` is JSON without its braces. Each `@` in it is the next one of `ids`; one in the name is the number of the step."""
        self.events += 1
        args, name = (text.replace("%", "%%").replace("@", "%d") for text in (args, name))
        time = f'"ts": %d.{self.draw.randrange(1000):03}, "dur": {lasts:.3f}'
        section.add(
            f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {process}, "tid": {thread},\n    {time},\n'
            f'    "args": {{\n      {args}\n    }}\n  }}',
            *[(FIRST_STEP, 1)] * name.count("%d"), (STARTS_US + begin, STEP_US), *ids,
        )  # fmt: skip

    def _arrow(self, phase: str, number: tuple[int, int], process: int, thread: int, begin: int) -> None:
        self.events += 1
        more = ', "bp": "e"' if phase == "f" else ""
        self.runtime.add(
            f'  {{\n    "ph": "{phase}", "id": %d, "pid": {process}, "tid": {thread}, "ts": %d.000,\n    "cat": "ac2g", "name": "ac2g"{more}\n  }}',
            number, (STARTS_US + begin, STEP_US),
        )  # fmt: skip

    def _operator(self, name: str, thread: int, begin: int, lasts: float) -> tuple[int, int]:
        number, rows = self._id(), self.draw.choice((64, 512, 4096))
        args = (
            f'"External id": @,"Record function id": 0, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", '
            f'"Scalar", "Scalar"], "Input Strides": [[1], [1024, 1], [1, 1024], [], []], "Input Dims": [[1024], [{rows}, 1024], [1024, 1024], '
            f'[], []], "Ev Idx": {self.events}'
        )
        self._event(self.operators, "cpu_op", name, thread, begin, lasts, args, number)
        return number

    def _function(self, name: str, begin: int, lasts: float) -> None:
        args = f'"Python parent id": @, "Python id": @, "Ev Idx": {self.events}'
        self._event(self.functions, "python_function", name, LOOP, begin, lasts, args, self._id(), self._id())

    def _launch(self, operator: tuple[int, int], thread: int, begin: int, lasts: float, kernel: int) -> None:
        number = self._id()
        args = '"External id": @, "cbid": 211, "correlation": @'
        self._event(self.runtime, "cuda_runtime", "cudaLaunchKernel", thread, begin, lasts, args, operator, number)
        self._arrow("s", number, PID, thread, begin)
        args = (
            '"External id": @, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": @,\n      "registers per thread": 128,'
            '\n      "shared memory": 98304,\n      "blocks per SM": 7.757576,\n      "warps per SM": 31.030303,\n      "grid": [8, 128, 1],\n'
            '      "block": [128, 1, 1],\n      "est. achieved occupancy %": 25'
        )
        name = KERNELS[kernel % len(KERNELS)]
        self._event(self.runtime, "kernel", name, STREAM, begin + 20, 62.5, args, operator, number, process=0)
        self._arrow("f", number, 0, STREAM, begin + 20)

    def _write(self) -> None:
        args = '"External id": @, "Ev Idx": 0'
        self._event(self.operators, "user_annotation", "ProfilerStep#@", LOOP, 0, STEP_US - 1, args, self._id())
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        self._event(self.operators, "user_annotation", name, LOOP, 10, BATCH_US - 20, args, self._id())
        self._function("train.py(41): train", 2, STEP_US - 5)
        for group in range(GROUPS):
            at = BATCH_US + group * GROUP_US
            (self._forward if group < GROUPS // 2 else self._backward)(group, at)
        at = BATCH_US + GROUPS * GROUP_US
        number = self._id()
        item = self._operator("aten::item", LOOP, at, SYNC_US + 10)
        self._event(self.runtime, "cuda_runtime", "cudaStreamSynchronize", LOOP, at + 5, SYNC_US, '"External id": @, "correlation": @', item, number)
        copied = self._id()
        args = '"External id": @, "device": 0, "context": 1,\n      "stream": 7, "correlation": @,\n      "bytes": 4,\n      "memory bandwidth (GB/s)": 0.002'
        self._event(self.runtime, "cuda_runtime", "cudaMemcpyAsync", LOOP, at + 1, 3, '"External id": @, "correlation": @', item, copied)
        self._event(self.runtime, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", STREAM, at + 90, 1.5, args, item, copied, process=0)

    def _forward(self, group: int, at: int) -> None:
        module = MODULES[group % len(MODULES)]
        for depth, name in enumerate((f"nn.Module: {module}_{group}", "torch/nn/modules/module.py(1762): _call_impl", "model.py(88): forward")):
            self._function(name, at + depth, 96 - 2 * depth)
        self._operator("aten::linear", LOOP, at + 5, 80)
        self._operator("aten::t", LOOP, at + 6, 6)
        self._operator("aten::transpose", LOOP, at + 7, 4)
        self._launch(self._operator("aten::addmm", LOOP, at + 20, 60), LOOP, at + 50, 9.5, group)

    def _backward(self, group: int, at: int) -> None:
        for depth, name in enumerate(("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "aten::t", "aten::transpose")):
            self._operator(name, AUTOGRAD, at + depth, 90 - 2 * depth if depth < 2 else 10 - 2 * depth)
        self._launch(self._operator("aten::mm", AUTOGRAD, at + 20, 60), AUTOGRAD, at + 50, 9.5, group)

    def size(self) -> int:
        return sum(len(text) for section in self.sections for text in section.steps(1))


def write(file: IO[bytes] | gzip.GzipFile, steps: int) -> int:
    """Writes a trace of so many steps; its bytes."""
    step, total = Step(), 0

    def put(text: str) -> None:
        nonlocal total
        total += file.write(text.encode())

    put(HEAD)
    for section in step.sections:
        for text in section.steps(steps):
            put(text)
    put(LAST)
    return total


def steps_of(bytes_wanted: int, compressed: bool) -> int:
    """How many steps make a file of about this size."""
    if not compressed:
        return max(1, bytes_wanted // Step().size())
    tried = 40
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        write(file, tried)
    return max(1, tried * bytes_wanted // packed.tell())


def write_to(path: str, steps: int) -> int:
    """Writes a trace, compressed if the name says so; the bytes of its JSON."""
    if path.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=6) as file:
            return write(file, steps)
    with open(path, "wb") as plain:
        return write(plain, steps)

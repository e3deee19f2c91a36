//! Traces as torch.profiler writes them, made up: steps of a loop that waits for data, then launches one kernel.

use serde_json::{Value, json};

/// What a made-up trace holds.
pub struct MadeTrace<'a> {
    /// Length of each step, milliseconds.
    pub steps_ms: &'a [f64],
    /// How long the loop waits for data in each, milliseconds. The rest of the step but a millisecond is one kernel.
    pub wait_ms: f64,
    /// The kernel's name.
    pub kernel: &'a str,
    /// The operator that launches it.
    pub operator: &'a str,
}

impl MadeTrace<'_> {
    /// The trace as JSON.
    pub fn text(&self) -> String {
        let event = |category: &str, name: &str, at_ms: f64, length_ms: f64, arguments: Value| {
            let on_gpu = category == "kernel";
            let (pid, tid) = if on_gpu { (0, 7) } else { (100, 100) };
            json!({
                "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at_ms * 1000.0, "dur": length_ms * 1000.0,
                "args": arguments,
            })
        };
        let mut events = Vec::new();
        let mut begin = 1000.0;
        for (number, length) in (1..).zip(self.steps_ms) {
            let work = begin + self.wait_ms;
            let launch = json!({ "correlation": number });
            let on_gpu = json!({ "correlation": number, "device": 0, "stream": 7, "grid": [1, 1, 1] });
            let next = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
            events.extend([
                event("user_annotation", &format!("ProfilerStep#{number}"), begin, *length, json!({})),
                event("user_annotation", next, begin, self.wait_ms, json!({})),
                event("cpu_op", self.operator, work, 0.5, json!({ "External id": number })),
                event("cuda_runtime", "cudaLaunchKernel", work + 0.1, 0.3, launch),
                event("kernel", self.kernel, work + 0.5, length - self.wait_ms - 1.0, on_gpu),
            ]);
            begin += length;
        }
        json!({
            "schemaVersion": 1,
            "deviceProperties": [{ "id": 0, "name": "Tesla V100", "numSms": 80 }],
            "traceEvents": events,
        })
        .to_string()
    }
}

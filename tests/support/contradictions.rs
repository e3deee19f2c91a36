//! Where a verdict's own numbers do not agree with each other, in words.
//!
//! As a program it reads verdicts (`trainmon diagnose --json`, one object after the other) on standard input and prints a JSON
//! array of sentences for each: empty where the verdict agrees with itself.
#![allow(dead_code, missing_docs, clippy::indexing_slicing, reason = "a module of several tests, and a program")]

use std::io::{Read, Write};

use serde_json::Value;

/// Shares are sampled: two that are measured apart may differ by as much.
const TOLERANCE: f64 = 0.06;
/// What is one sum, or one number shown twice, differs by rounding at most.
const ROUNDING: f64 = 0.011;
/// Workers that are called busy all the time are on a CPU for this share at least.
const BUSY_ALL_THE_TIME: f64 = 0.85;
/// Steps a second from which on a loop steps.
const STEPS: f64 = 0.05;

struct Check<'v> {
    verdict: &'v Value,
    found: Vec<String>,
}

/// What contradicts in a verdict, as `--json` prints it.
pub fn contradictions(verdict: &Value) -> Vec<String> {
    let mut check = Check { verdict, found: Vec::new() };
    check.shares();
    check.gpu_idle();
    check.chain();
    check.evidence();
    check.sentence();
    check.workers();
    check.found
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key)?.as_f64()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The numbers of an object.
fn numbers(value: &Value) -> impl Iterator<Item = (&str, f64)> {
    value.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_f64()?)))
}

impl Check<'_> {
    fn share(&self, key: &str) -> Option<f64> {
        number(self.verdict.get("shares")?, key)
    }

    fn differ(&mut self, what: &str, (a, b): (f64, f64), tolerance: f64) {
        if (a - b).abs() > tolerance {
            self.found.push(format!("{what}: {a:.3} and {b:.3}"));
        }
    }

    fn sums(&mut self, what: &str, of: &Value, total: f64) {
        let parts: Vec<(&str, f64)> = numbers(of).filter(|(key, _)| *key != "total").collect();
        if parts.is_empty() {
            return;
        }
        for (key, value) in &parts {
            if !(-ROUNDING..=1.0 + ROUNDING).contains(value) {
                self.found.push(format!("{what}: {key} is {value:.3}"));
            }
        }
        self.differ(&format!("{what} add up to"), (parts.iter().map(|(_, value)| value).sum(), total), ROUNDING);
    }

    fn shares(&mut self) {
        self.sums("the shares of the loop's time", &self.verdict["shares"], 1.0);
        self.sums("the activities of the stacks", &self.verdict["main_thread"]["activities"], 1.0);
        for rank in list(self.verdict, "ranks") {
            self.sums("the shares of a rank's time", &rank["shares"], 1.0);
        }
    }

    /// What is idle during a part of the time is no longer than that part and the idle time, and no shorter than their overlap.
    fn gpu_idle(&mut self) {
        let idle = &self.verdict["gpu_idle"];
        let Some(total) = number(idle, "total") else { return };
        self.sums("the parts of the GPU's idle time", idle, total);
        let rest = self.share("checkpoint").zip(self.share("other")).map(|(saves, other)| saves + other);
        for (key, share) in [
            ("while_input_wait", self.share("input_wait")),
            ("while_host_busy", self.share("host_busy")),
            ("while_sync", self.share("device_sync")),
            ("while_other", rest),
        ] {
            let Some((part, share)) = number(idle, key).zip(share) else { continue };
            if part > share.min(total) + TOLERANCE || part < (share + total - 1.0).max(0.0) - TOLERANCE {
                self.found.push(format!("the GPU idles {total:.3}, {part:.3} of it {key}, which takes {share:.3}"));
            }
        }
    }

    fn chain(&mut self) {
        let nodes = list(self.verdict, "chain");
        let Some(root) = nodes.first() else { return };
        let share = |node: &Value| number(node, "share").unwrap_or(0.0);
        let own =
            || nodes.iter().skip(1).filter(|node| text(node, "name") == "loop" && text(node, "kind") == "thread");
        self.differ(
            "the roots of the chain add up to",
            (share(root) + own().map(share).sum::<f64>(), 1.0),
            TOLERANCE,
        );
        let works: f64 = own().filter(|node| text(node, "state") == "cpu").map(share).sum();
        // The chain is that of one rank.
        let rank = list(self.verdict, "ranks").iter().find(|rank| rank["pid"] == root["pid"]);
        let host = rank.map_or_else(|| self.share("host_busy"), |rank| number(&rank["shares"], "host_busy"));
        if let Some(host) = host {
            self.differ("the loop's own work in the chain and in its shares", (works, host), TOLERANCE);
        }
        for node in nodes {
            let below = list(node, "waits_for");
            let children: f64 = nodes.iter().filter(|child| below.contains(&child["node"])).map(share).sum();
            if !below.is_empty() {
                self.differ(
                    &format!("node {} of the chain and its children", node["node"]),
                    (share(node), children),
                    TOLERANCE,
                );
            }
        }
    }

    /// A number that is shown twice is the same.
    fn evidence(&mut self) {
        let (shares, idle) = (&self.verdict["shares"], &self.verdict["gpu_idle"]);
        for line in list(self.verdict, "evidence") {
            let (signal, Some(value)) = (text(line, "signal"), number(line, "value")) else { continue };
            if value < 0.0 {
                self.found.push(format!("evidence {signal} is {value:.3}"));
            }
            let other = match signal {
                "lost_wait" => number(idle, "while_input_wait"),
                _ => number(shares, signal),
            };
            if let Some(other) = other {
                self.differ(&format!("{signal} as evidence and as a share"), (value, other), ROUNDING);
            }
            if signal == "sync_lines" && idle.is_null() && text(&self.verdict["seen"], "nvml") == "ok" {
                self.found.push("lines that wait for a GPU, and none is in use".into());
            }
        }
    }

    /// The sentence agrees with the numbers beside it.
    fn sentence(&mut self) {
        let (summary, phase) = (text(self.verdict, "summary"), text(self.verdict, "phase"));
        if let Some(rate) = number(&self.verdict["steps"], "per_s").filter(|rate| *rate > STEPS) {
            let still = ["no steps", "is starting"];
            if matches!(phase, "init" | "compile" | "validation" | "idle" | "hung")
                || still.iter().any(|words| self.verdict.to_string().contains(words))
            {
                self.found.push(format!("{rate:.2} steps/s, and phase {phase}: {summary}"));
            }
        }
        let busy: Vec<f64> =
            list(self.verdict, "workers").iter().filter_map(|worker| number(worker, "busy")).collect();
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        if summary.contains("busy all the time") && !busy.is_empty() && mean < BUSY_ALL_THE_TIME {
            self.found.push(format!("workers busy {mean:.3} of the time: {summary}"));
        }
        // Percentages that the sentence shares with a number of their own.
        for (words, share) in [
            ("the loop waits for data ", self.share("input_wait")),
            ("The loop waits for data ", self.share("input_wait")),
            ("The GPU idles ", number(&self.verdict["gpu_idle"], "total")),
            ("The loop is saving ", self.share("checkpoint")),
            ("The loop works ", self.share("host_busy")),
        ] {
            let told =
                summary.split_once(words).and_then(|(_, rest)| rest.split([' ', '%']).next()?.parse::<f64>().ok());
            if let Some((told, share)) = told.zip(share) {
                self.differ(&format!("`{words}…` in the sentence and its number"), (told / 100.0, share), ROUNDING);
            }
        }
    }

    fn workers(&mut self) {
        for worker in list(self.verdict, "workers") {
            let parts = ["busy", "io_wait", "runnable", "idle"].map(|key| number(worker, key));
            if let [Some(a), Some(b), Some(c), Some(d)] = parts {
                self.differ("the shares of a worker's time add up to", (a + b + c + d, 1.0), TOLERANCE);
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut verdicts = String::new();
    std::io::stdin().read_to_string(&mut verdicts)?;
    let mut out = std::io::stdout().lock();
    for verdict in serde_json::Deserializer::from_str(&verdicts).into_iter::<Value>() {
        writeln!(out, "{}", Value::from(contradictions(&verdict?)))?;
    }
    out.flush()
}

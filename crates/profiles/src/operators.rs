//! Operators and modules by their names.

use std::collections::HashMap;

use super::account::{IdleReason, ModuleRow, OperatorRow};
use super::gpu_time::GpuTime;
use super::host_time::OperatorTime;
use super::intervals::{Intervals, Lengths};
use super::names::NameId;
use super::parts::AccountParts;

/// Most rows.
const ROWS: usize = 100;
/// Times of an operator or a module.
#[derive(Debug, Default, Clone, Copy)]
struct Times {
    of_host: OperatorTime,
    gpu: i64,
    idle: i64,
}

/// The rows of operators and of modules, those with most time on the GPU first, then on the host.
pub fn rows(parts: &AccountParts<'_>) -> (Vec<OperatorRow>, Vec<ModuleRow>) {
    let (scope, host) = (&parts.scope, &parts.host);
    let mut operators = RowsByName::new(parts, &host.operators);
    let mut modules = RowsByName::new(parts, &host.modules);
    if let Some(gpu) = parts.gpus.first() {
        for span in parts.spans(gpu) {
            let Some(call) = host.call_of(span.link, span.external) else { continue };
            let length = span.end.min(scope.window.1) - span.start.max(scope.window.0);
            operators.add(call.operator, |times| times.gpu += length);
            modules.add(call.module, |times| times.gpu += length);
        }
        for (operator, idle) in idle_within(parts, gpu) {
            operators.add(Some(operator), |times| times.idle += idle);
        }
    }
    let ms = |ns: i64| ns as f64 / 1e6;
    let operators = operators.sorted().into_iter().map(|(name, times)| OperatorRow {
        name,
        count: times.of_host.count,
        device_ms: ms(times.gpu),
        host_ms: ms(times.of_host.host),
        idle_ms: ms(times.idle),
    });
    let modules = modules.sorted().into_iter().map(|(name, times)| ModuleRow {
        name: name.strip_prefix("nn.Module: ").unwrap_or(&name).to_owned(),
        count: times.of_host.count,
        device_ms: ms(times.gpu),
        host_ms: ms(times.of_host.host),
    });
    (operators.collect(), modules.collect())
}

/// Idle time while a thread was in an operator, and in none of the calls that wait: by launches and by the operator's own work.
fn idle_within(parts: &AccountParts<'_>, gpu: &GpuTime) -> HashMap<NameId, i64> {
    let idle = [IdleReason::Launch, IdleReason::Operator].map(|reason| gpu.idle_by.get(reason.index()));
    let idle = Intervals::union(idle.into_iter().flatten().flat_map(Intervals::iter), parts.scope.window);
    let idle = Lengths::new(&idle);
    let mut found = HashMap::new();
    for lane in &parts.scope.threads {
        parts.walk(*lane).each(|(begin, end), level| {
            if let Some(operator) = level.operator
                && matches!(level.reason(), IdleReason::Launch | IdleReason::Operator)
            {
                *found.entry(operator.name).or_default() += idle.within(begin, end);
            }
        });
    }
    found
}

/// Times by the name that is told.
struct RowsByName<'a> {
    parts: &'a AccountParts<'a>,
    times: HashMap<String, Times>,
}

impl<'a> RowsByName<'a> {
    fn new(parts: &'a AccountParts<'a>, of_host: &HashMap<NameId, OperatorTime>) -> Self {
        let mut names = Self { parts, times: HashMap::new() };
        for (name, time) in of_host {
            names.add(Some(*name), |times| {
                times.of_host.count += time.count;
                times.of_host.host += time.host;
            });
        }
        names
    }

    fn add(&mut self, name: Option<NameId>, add: impl FnOnce(&mut Times)) {
        if let Some(name) = name {
            add(self.times.entry(self.parts.shown(name)).or_default());
        }
    }

    fn sorted(self) -> Vec<(String, Times)> {
        let mut all: Vec<_> = self.times.into_iter().collect();
        all.retain(|(_, times)| times.of_host.count > 0 || times.of_host.host > 0 || times.gpu > 0);
        all.sort_by(|(a, of_a), (b, of_b)| {
            of_b.gpu.cmp(&of_a.gpu).then(of_b.of_host.host.cmp(&of_a.of_host.host)).then_with(|| a.cmp(b))
        });
        all.truncate(ROWS);
        all
    }
}

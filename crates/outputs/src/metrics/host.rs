//! Metrics of trainmon itself and of the machine.

use std::sync::Arc;

use super::{ExportedMachine, count, metrics, ratio};
use trainmon_base::stats::mean;
use trainmon_waits::Frame;

metrics! {
    /// Of trainmon itself.
    OWN of ExportedMachine {
        /// trainmon runs, and every job that it follows answers (1), or one does not (0)
        Gauge up "", |machine, out| {
            out.value(f64::from(u8::from(machine.jobs.iter().all(|job| job.answers))));
        };
        /// version of trainmon; always 1
        Gauge build_info "" ["version"], |_, out| out.labeled([env!("CARGO_PKG_VERSION")], 1.0);
        /// jobs that are followed
        Gauge followed_jobs "", |machine, out| out.value(machine.jobs.len() as f64);
        /// training processes that are not followed, because there are too many
        Gauge left_out_jobs "", |machine, out| out.value(machine.left_out_jobs as f64);
        /// CPU time of trainmon
        Counter process_cpu "seconds", |machine, out| out.value(machine.own.cpu_s);
        /// resident memory of trainmon
        Gauge process_resident_memory "bytes", |machine, out| out.value(count(machine.own.rss_bytes));
        /// open file descriptors of trainmon
        Gauge process_open_fds "", |machine, out| out.value(count(machine.own.descriptors));
        /// when trainmon was started, since 1970
        Gauge process_start_time "seconds", |machine, out| out.value(machine.own.started_unix_s);
    }
}

metrics! {
    /// What is missing from the rest.
    LEFT_OUT of usize {
        /// series that are left out, because a machine has at most 2,000
        Gauge left_out_series "", |left_out, out| out.value(*left_out as f64);
    }
}

metrics! {
    /// Of the machine, while a job is followed.
    HOST of Arc<Frame> {
        /// share of the time of all CPUs that was used
        Gauge host_cpu_used "ratio", |frame, out| {
            out.value(ratio(mean(frame.host.cpus.iter().map(|cpu| Some(f64::from(cpu.busy_pct))))));
        };
        /// share of the job's CPUs that the hypervisor took
        Gauge host_cpu_steal "ratio", |frame, out| out.value(ratio(frame.host.steal_pct));
        /// pressure stall information: share of the time in which some task waited for the resource
        Gauge host_pressure "ratio" ["resource"], |frame, out| {
            out.labeled(["cpu"], ratio(frame.host.psi_cpu_some_pct));
            out.labeled(["io"], ratio(frame.host.psi_io_some_pct));
            out.labeled(["memory"], ratio(frame.host.psi_memory_some_pct));
        };
        /// memory available without swapping
        Gauge host_memory_available "bytes", |frame, out| out.value(count(frame.host.memory_available_bytes));
        /// memory fitted
        Gauge host_memory_total "bytes", |frame, out| out.value(count(frame.host.memory_total_bytes));
        /// bytes per second received on all interfaces except loopback
        Gauge host_network_receive "bytes_per_second", |frame, out| out.value(frame.host.net_rx_bytes_per_s);
        /// bytes per second sent on all interfaces except loopback
        Gauge host_network_transmit "bytes_per_second", |frame, out| out.value(frame.host.net_tx_bytes_per_s);
    }
}

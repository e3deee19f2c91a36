//! The few messages of Perfetto's trace format that a trace here is made of, with the fields that it sets. Names and numbers
//! are those of `protos/perfetto/trace/*.proto`; a number never changes its meaning there.

use prost::{Enumeration, Message};

/// `BUILTIN_CLOCK_REALTIME`, `BUILTIN_CLOCK_MONOTONIC` and `BUILTIN_CLOCK_BOOTTIME` (builtin_clock.proto).
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;
/// `SEQ_INCREMENTAL_STATE_CLEARED` (trace_packet.proto).
pub(super) const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`.
pub(super) const NEEDS_STATE: u32 = 2;
/// `CHILD_TRACKS_ORDERING` of track_descriptor.proto: by `sibling_order_rank`.
pub(super) const EXPLICIT: i32 = 3;
/// `UNIT_COUNT` (counter_descriptor.proto).
pub(super) const COUNT: i32 = 2;

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Counter = 4,
}

/// Messages: a row is a field, with its type here and its kind and number there.
macro_rules! messages {
    ($($(#[$about:meta])* $Name:ident { $($(#[$doc:meta])* $field:ident: $Type:ty = ($($kind:tt)*);)+ })+) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $Name {
            $($(#[$doc])* #[prost($($kind)*)] pub(super) $field: $Type,)+
        }
    )+};
}

messages! {
    /// trace.proto: a trace is nothing but packets, so one packet after another makes one.
    #[cfg(test)]
    Trace {
        packet: Vec<TracePacket> = (message, repeated, tag = "1");
    }

    /// trace_packet.proto.
    TracePacket {
        clock_snapshot: Option<ClockSnapshot> = (message, optional, tag = "6");
        timestamp: Option<u64> = (uint64, optional, tag = "8");
        trusted_packet_sequence_id: Option<u32> = (uint32, optional, tag = "10");
        track_event: Option<TrackEvent> = (message, optional, tag = "11");
        sequence_flags: Option<u32> = (uint32, optional, tag = "13");
        trace_packet_defaults: Option<TracePacketDefaults> = (message, optional, tag = "59");
        track_descriptor: Option<TrackDescriptor> = (message, optional, tag = "60");
        first_packet_on_sequence: Option<bool> = (bool, optional, tag = "87");
    }

    /// trace_packet_defaults.proto.
    TracePacketDefaults {
        timestamp_clock_id: Option<u32> = (uint32, optional, tag = "58");
    }

    /// clock_snapshot.proto.
    ClockSnapshot {
        clocks: Vec<ClockReading> = (message, repeated, tag = "1");
        primary_trace_clock: Option<u32> = (uint32, optional, tag = "2");
    }

    /// `ClockSnapshot.Clock`.
    ClockReading {
        clock_id: Option<u32> = (uint32, optional, tag = "1");
        timestamp: Option<u64> = (uint64, optional, tag = "2");
    }

    /// track_descriptor.proto.
    TrackDescriptor {
        uuid: Option<u64> = (uint64, optional, tag = "1");
        name: Option<String> = (string, optional, tag = "2");
        process: Option<ProcessDescriptor> = (message, optional, tag = "3");
        thread: Option<ThreadDescriptor> = (message, optional, tag = "4");
        parent_uuid: Option<u64> = (uint64, optional, tag = "5");
        counter: Option<CounterDescriptor> = (message, optional, tag = "8");
        child_ordering: Option<i32> = (int32, optional, tag = "11");
        sibling_order_rank: Option<i32> = (int32, optional, tag = "12");
        description: Option<String> = (string, optional, tag = "14");
    }

    /// process_descriptor.proto.
    ProcessDescriptor {
        pid: Option<i32> = (int32, optional, tag = "1");
        cmdline: Vec<String> = (string, repeated, tag = "2");
        process_name: Option<String> = (string, optional, tag = "6");
    }

    /// thread_descriptor.proto.
    ThreadDescriptor {
        pid: Option<i32> = (int32, optional, tag = "1");
        tid: Option<i64> = (int64, optional, tag = "2");
        thread_name: Option<String> = (string, optional, tag = "5");
    }

    /// counter_descriptor.proto.
    CounterDescriptor {
        unit: Option<i32> = (int32, optional, tag = "3");
        unit_name: Option<String> = (string, optional, tag = "6");
        y_axis_share_key: Option<String> = (string, optional, tag = "7");
    }

    /// track_event.proto.
    TrackEvent {
        debug_annotations: Vec<DebugAnnotation> = (message, repeated, tag = "4");
        r#type: Option<i32> = (enumeration = "EventType", optional, tag = "9");
        track_uuid: Option<u64> = (uint64, optional, tag = "11");
        name: Option<String> = (string, optional, tag = "23");
        double_counter_value: Option<f64> = (double, optional, tag = "44");
        flow_ids: Vec<u64> = (fixed64, repeated, packed = "false", tag = "47");
        terminating_flow_ids: Vec<u64> = (fixed64, repeated, packed = "false", tag = "48");
    }

    /// debug_annotation.proto.
    DebugAnnotation {
        double_value: Option<f64> = (double, optional, tag = "5");
        string_value: Option<String> = (string, optional, tag = "6");
        name: Option<String> = (string, optional, tag = "10");
    }
}

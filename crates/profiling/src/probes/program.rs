//! The three programs that count inside the kernel, and the assembler that writes them (docs.kernel.org, BPF instruction set).
//!
//! A program runs where a call enters or returns. It adds to the row of its thread and call, and can neither wait nor loop.
//!
//! ```text
//! call     hits += 1; if counting: rows[thread, call].calls += 1
//! enter    hits += 1; inside[thread]: one deeper, or if counting: since now, rows[thread, call].calls += 1
//! leave    hits += 1; inside[thread]: one less deep; out of the outermost: rows[thread, call].waited += now - since
//! ```

use std::os::fd::{AsFd, AsRawFd};

/// Registers: `R0` has results, `R1` to `R5` arguments, and calls keep `R6` to `R9`. `FP` is the end of the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R6: u8 = 6;
const R7: u8 = 7;
const R8: u8 = 8;
const R9: u8 = 9;
const FP: u8 = 10;

/// Helper functions of the kernel (linux/bpf.h).
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const NANOSECONDS: i32 = 5;
const PROCESS_AND_THREAD: i32 = 14;
const IDS_IN_NAMESPACE: i32 = 120;
const COOKIE: i32 = 174;

/// Where things lie on the stack: the key of a row (thread, call), the IDs in a namespace, the value of a new row or call.
const KEY: i16 = -8;
const KEY_CALL: i16 = -4;
const IDS: i16 = -16;
const VALUE: i16 = -40;

/// A place in a program that is jumped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JumpLabel {
    Known,
    Row,
    Tid,
    Lost,
    End,
}

/// A program on its way.
#[derive(Debug, Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, JumpLabel)>,
    labels: Vec<(usize, JumpLabel)>,
}

impl Assembler {
    fn push(&mut self, opcode: u8, target: u8, source: u8, offset: i16, immediate: i32) -> &mut Self {
        let registers = u64::from(target | source << 4) << 8;
        let offset = u64::from(offset.cast_unsigned()) << 16;
        self.code.push(u64::from(opcode) | registers | offset | u64::from(immediate.cast_unsigned()) << 32);
        self
    }

    fn set(&mut self, register: u8, value: i32) -> &mut Self {
        self.push(0xb7, register, 0, 0, value)
    }

    fn copy(&mut self, register: u8, from: u8) -> &mut Self {
        self.push(0xbf, register, from, 0, 0)
    }

    fn add(&mut self, register: u8, value: i32) -> &mut Self {
        self.push(0x07, register, 0, 0, value)
    }

    /// The address of something on the stack.
    fn stack(&mut self, register: u8, at: i16) -> &mut Self {
        self.copy(register, FP).add(register, i32::from(at))
    }

    fn load(&mut self, register: u8, base: u8, at: i16) -> &mut Self {
        self.push(0x79, register, base, at, 0)
    }

    fn load_word(&mut self, register: u8, base: u8, at: i16) -> &mut Self {
        self.push(0x61, register, base, at, 0)
    }

    fn store(&mut self, base: u8, at: i16, register: u8) -> &mut Self {
        self.push(0x7b, base, register, at, 0)
    }

    fn store_word(&mut self, base: u8, at: i16, register: u8) -> &mut Self {
        self.push(0x63, base, register, at, 0)
    }

    /// Adds a register to memory that other threads add to as well.
    fn add_shared(&mut self, base: u8, at: i16, register: u8) -> &mut Self {
        self.push(0xdb, base, register, at, 0)
    }

    fn wide(&mut self, register: u8, kind: u8, low: u32, high: u32) -> &mut Self {
        self.push(0x18, register, kind, 0, low.cast_signed()).push(0, 0, 0, 0, high.cast_signed())
    }

    fn set_wide(&mut self, register: u8, value: u64) -> &mut Self {
        self.wide(register, 0, value as u32, (value >> 32) as u32)
    }

    /// A map, for the helper functions.
    fn map(&mut self, register: u8, map: &impl AsFd) -> &mut Self {
        self.wide(register, 1, map.as_fd().as_raw_fd() as u32, 0)
    }

    /// The first value of an array, by its address.
    fn first_value(&mut self, register: u8, map: &impl AsFd) -> &mut Self {
        self.wide(register, 2, map.as_fd().as_raw_fd() as u32, 0)
    }

    fn call(&mut self, helper: i32) -> &mut Self {
        self.push(0x85, 0, 0, 0, helper)
    }

    fn jump(&mut self, to: JumpLabel) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, 0, 0, 0, 0)
    }

    fn jump_if_zero(&mut self, register: u8, to: JumpLabel) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.push(0x15, register, 0, 0, 0)
    }

    fn jump_unless_zero(&mut self, register: u8, to: JumpLabel) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.push(0x55, register, 0, 0, 0)
    }

    fn label(&mut self, label: JumpLabel) -> &mut Self {
        self.labels.push((self.code.len(), label));
        self
    }

    fn assembled(mut self) -> Vec<u64> {
        for (from, label) in self.jumps {
            let to = self.labels.iter().find(|(_, name)| *name == label).map_or(from, |(to, _)| *to);
            // A jump is relative to the instruction after it. No program is longer than a few dozen.
            let distance = (to as i64 - from as i64 - 1) as i16;
            if let Some(code) = self.code.get_mut(from) {
                *code |= u64::from(distance.cast_unsigned()) << 16;
            }
        }
        self.code
    }

    /// `hits += 1`, with the tally's address in `R7`.
    fn hit(&mut self, tables: &KernelTables<impl AsFd>, hits: Tally) -> &mut Self {
        self.copy(R6, R1).first_value(R7, tables.tally).set(R1, 1).add_shared(R7, hits.place(), R1)
    }

    /// The thread's ID as this process knows it, in the key.
    fn thread(&mut self, (number, inode): (u64, u64)) -> &mut Self {
        self.set_wide(R1, number).set_wide(R2, inode).stack(R3, IDS).set(R4, 8).call(IDS_IN_NAMESPACE);
        self.load_word(R1, FP, IDS).jump_if_zero(R0, JumpLabel::Tid);
        // The thread is in a namespace below this one, which then is the first of all.
        self.call(PROCESS_AND_THREAD).copy(R1, R0);
        self.label(JumpLabel::Tid).store_word(FP, KEY, R1)
    }

    /// The call, in the key.
    fn cookie(&mut self) -> &mut Self {
        self.copy(R1, R6).call(COOKIE).store_word(FP, KEY_CALL, R0)
    }

    /// Goes to the end unless calls are counted.
    fn counting(&mut self, tables: &KernelTables<impl AsFd>, switch: Switch) -> &mut Self {
        self.first_value(R1, tables.switches).load(R1, R1, switch.place()).jump_if_zero(R1, JumpLabel::End)
    }

    fn find(&mut self, map: &impl AsFd) -> &mut Self {
        self.map(R1, map).stack(R2, KEY).call(MAP_LOOKUP)
    }

    /// `rows[key].calls += 1`.
    fn count(&mut self, tables: &KernelTables<impl AsFd>) -> &mut Self {
        self.find(tables.rows).jump_unless_zero(R0, JumpLabel::Row);
        self.set(R1, 0).store(FP, VALUE, R1).store(FP, VALUE + 8, R1);
        self.map(R1, tables.rows).stack(R2, KEY).stack(R3, VALUE).set(R4, 1).call(MAP_UPDATE);
        self.find(tables.rows).jump_if_zero(R0, JumpLabel::Lost);
        self.label(JumpLabel::Row).set(R1, 1).add_shared(R0, 0, R1).jump(JumpLabel::End);
        self.label(JumpLabel::Lost).set(R1, 1).add_shared(R7, Tally::Lost.place(), R1)
    }

    fn end(mut self) -> Vec<u64> {
        self.label(JumpLabel::End).set(R0, 0).push(0x95, 0, 0, 0, 0);
        self.assembled()
    }
}

/// Where a program finds its tables.
#[derive(Debug)]
pub(super) struct KernelTables<'a, M: AsFd> {
    /// (thread, call) → calls, nanoseconds inside.
    pub rows: &'a M,
    /// Thread → since when it is inside a call, how deep, and which call.
    pub inside: &'a M,
    /// [`Tally`].
    pub tally: &'a M,
    /// [`Switch`].
    pub switches: &'a M,
    /// Number and inode of this process's PID namespace, as stat(2) has them.
    pub namespace: (u64, u64),
}

/// Numbers that all threads add to, 8 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tally {
    /// Hits of probes on calls that are counted.
    Calls,
    /// Hits of probes on calls that wait.
    Waits,
    /// Calls that found no room in the table.
    Lost,
}

impl Tally {
    pub(super) const BYTES: usize = 24;

    fn place(self) -> i16 {
        8 * self as i16
    }
}

/// What is being counted, 8 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// Calls.
    Calls,
    /// Calls that wait.
    Waits,
}

impl Switch {
    pub(super) const BYTES: usize = 16;

    fn place(self) -> i16 {
        8 * self as i16
    }
}

/// Counts a call.
pub(super) fn call(tables: &KernelTables<impl AsFd>) -> Vec<u64> {
    let mut program = Assembler::default();
    program.hit(tables, Tally::Calls).counting(tables, Switch::Calls);
    program.cookie().thread(tables.namespace).count(tables);
    program.end()
}

/// Counts a call that waits, and notes its begin.
pub(super) fn enter(tables: &KernelTables<impl AsFd>) -> Vec<u64> {
    let mut program = Assembler::default();
    program.hit(tables, Tally::Waits).cookie().thread(tables.namespace);
    // A call of the runtime that goes on into the driver.
    program.find(tables.inside).jump_if_zero(R0, JumpLabel::Known);
    program.load(R1, R0, 8).add(R1, 1).store(R0, 8, R1).jump(JumpLabel::End);
    program.label(JumpLabel::Known).counting(tables, Switch::Waits);
    program.call(NANOSECONDS).store(FP, VALUE, R0).set(R1, 1).store(FP, VALUE + 8, R1);
    program.load_word(R1, FP, KEY_CALL).store(FP, VALUE + 16, R1);
    program.map(R1, tables.inside).stack(R2, KEY).stack(R3, VALUE).set(R4, 0).call(MAP_UPDATE);
    program.count(tables);
    program.end()
}

/// Adds how long a call took.
pub(super) fn leave(tables: &KernelTables<impl AsFd>) -> Vec<u64> {
    let mut program = Assembler::default();
    program.hit(tables, Tally::Waits).thread(tables.namespace);
    program.find(tables.inside).jump_if_zero(R0, JumpLabel::End).copy(R8, R0);
    program.load(R1, R8, 8).add(R1, -1).store(R8, 8, R1).jump_unless_zero(R1, JumpLabel::End);
    program.call(NANOSECONDS).copy(R9, R0).load(R1, R8, 0).push(0x1f, R9, R1, 0, 0);
    program.load(R1, R8, 16).store_word(FP, KEY_CALL, R1);
    program.map(R1, tables.inside).stack(R2, KEY).call(MAP_DELETE);
    program.find(tables.rows).jump_if_zero(R0, JumpLabel::End).add_shared(R0, 8, R9);
    program.end()
}

//! Which GPU a row of nvidia-smi is about where it has no index: by what else tells GPUs apart, or by the rounds in which
//! nvidia-smi asks them. It asks one after the other, a few milliseconds each, waits, and begins again with the first.

use std::collections::HashMap;

use trainmon_sample::GpuReading;

/// A row of the table.
#[derive(Debug)]
pub(super) struct SmiRow {
    pub unix_ms: i64,
    pub gpu: GpuReading,
    /// What else than the index tells its GPU apart.
    pub key: Option<Box<str>>,
    /// The first row below a header: nvidia-smi was started for it.
    pub first: bool,
}

/// Within a round, rows follow each other in less than this part of the pause between two rounds.
const WITHIN: f64 = 0.5;
/// They never take longer than this, milliseconds …
const ANSWER_MS: i64 = 500;
/// … and usually this long at most: then a single pause, or a header, shows the rounds.
const AT_ONCE_MS: i64 = 100;
/// More GPUs are in no machine whose rows lack an index.
const ROUND_MAX: usize = 64;

/// Gives each row the index of its GPU, in the order in which they come. Says how it was found out, if that is a guess.
pub(super) fn number_gpus(rows: &mut [SmiRow]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    if rows.iter().all(|row| row.key.is_some()) {
        by_name(rows, |row| row.key.clone().unwrap_or_default());
        return None;
    }
    let length = blocks(rows).map(<[SmiRow]>::len).max().unwrap_or_default().min(ROUND_MAX);
    match (2..=length).find(|count| are_rounds(rows, *count)) {
        Some(count) => {
            let mut next = 0;
            for row in rows.iter_mut() {
                let at = if row.first { 0 } else { next };
                row.gpu.index = u32::try_from(at).unwrap_or(u32::MAX);
                next = (at + 1) % count;
            }
        }
        None => by_name(rows, |row| row.gpu.name.as_deref().unwrap_or_default().into()),
    }
    let most = rows.iter().map(|row| row.gpu.index).max().unwrap_or_default();
    let taken = match most {
        0 => "taken for one GPU".to_owned(),
        _ => format!("taken for {} GPUs in turn", u64::from(most) + 1),
    };
    Some(format!("its rows do not say which GPU they are of: {taken}; `--query-gpu=timestamp,index,…` says it"))
}

/// Numbers the GPUs by a name, in the order in which the names come.
fn by_name(rows: &mut [SmiRow], name: impl Fn(&SmiRow) -> Box<str>) {
    let mut indexes: HashMap<Box<str>, u32> = HashMap::new();
    for row in rows {
        let new = u32::try_from(indexes.len()).unwrap_or(u32::MAX);
        row.gpu.index = *indexes.entry(name(row)).or_insert(new);
    }
}

/// What each header is followed by.
fn blocks(rows: &[SmiRow]) -> impl Iterator<Item = &[SmiRow]> {
    rows.chunk_by(|_, next| !next.first)
}

/// Whether the rows come in rounds of so many: short times within each, and a pause after it.
fn are_rounds(rows: &[SmiRow], count: usize) -> bool {
    let (mut within, mut between) = (Vec::new(), Vec::new());
    for block in blocks(rows) {
        let gaps = block.iter().zip(block.iter().skip(1));
        for (at, (before, row)) in gaps.enumerate() {
            let gap = row.unix_ms.saturating_sub(before.unix_ms);
            if (at + 1) % count == 0 { between.push(gap) } else { within.push(gap) }
        }
    }
    // A slow answer here and there changes nothing.
    let Some(longest) = part(&mut within, 0.9).filter(|longest| *longest <= ANSWER_MS) else { return false };
    match part(&mut between, 0.25) {
        Some(shortest) => (between.len() > 1 || longest <= AT_ONCE_MS) && shortest as f64 * WITHIN > longest as f64,
        None => {
            let are_alike = blocks(rows).all(|block| block.len() == count);
            are_alike && longest <= if blocks(rows).count() > 1 { AT_ONCE_MS } else { 0 }
        }
    }
}

/// The value below which this part of them is.
fn part(values: &mut [i64], part: f64) -> Option<i64> {
    values.sort_unstable();
    values.get(((values.len().saturating_sub(1)) as f64 * part).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows at these times; a negative one is the first below a header.
    fn rows(times_ms: &[i64]) -> Vec<SmiRow> {
        let row = |at: &i64| SmiRow { unix_ms: at.abs(), gpu: GpuReading::default(), key: None, first: *at < 0 };
        times_ms.iter().map(row).collect()
    }

    fn indexes(times_ms: &[i64]) -> (Vec<u32>, Option<String>) {
        let mut rows = rows(times_ms);
        let note = number_gpus(&mut rows);
        (rows.iter().map(|row| row.gpu.index).collect(), note)
    }

    #[test]
    fn gpus_are_asked_one_after_the_other() {
        let (found, note) = indexes(&[1000, 1003, 1007, 2004, 2006, 2011, 3010, 3013, 3015, 4012, 4016]);
        assert_eq!(found, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1], "the last round was cut off");
        assert!(note.unwrap().contains("taken for 3 GPUs in turn"));
        // A slow driver, a hang of ten seconds, and a round that was cut off.
        let (found, _) = indexes(&[0, 90, 1000, 1080, 2100, 2180, 12_000, 12_090, 13_000, 13_095, 14_000, 14_090]);
        assert_eq!(found, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        // Rows of one time, as older drivers write them.
        assert_eq!(indexes(&[5, 5, 5]).0, [0, 1, 2]);
        // A command that is run every minute and writes its header each time.
        assert_eq!(indexes(&[-10, 12, -60_010, 60_013]).0, [0, 1, 0, 1]);
    }

    #[test]
    fn one_gpu_stays_one() {
        let steady: Vec<i64> = (0..50).map(|at| at * 1000 + at % 3).collect();
        let (found, note) = indexes(&steady);
        assert!(found.iter().all(|index| *index == 0));
        assert!(note.unwrap().contains("taken for one GPU"));
        // It hung for a while, twice.
        let hung: Vec<i64> = steady.iter().map(|at| at + 30_000 * (at / 15_000)).collect();
        assert!(indexes(&hung).0.iter().all(|index| *index == 0));
        // As fast as it can.
        let fast: Vec<i64> = (0..200).map(|at| at * 17 + (at * at) % 5).collect();
        assert!(indexes(&fast).0.iter().all(|index| *index == 0));
        assert_eq!(indexes(&[]).1, None);
    }

    #[test]
    fn a_name_tells_them_apart_where_times_do_not() {
        let mut rows = rows(&[0, 1000, 2000, 3000]);
        for (row, name) in rows.iter_mut().zip(["A100", "T4", "A100", "T4"]) {
            row.gpu.name = Some(name.into());
        }
        number_gpus(&mut rows);
        assert_eq!(rows.iter().map(|row| row.gpu.index).collect::<Vec<_>>(), [0, 1, 0, 1]);
        for (row, key) in rows.iter_mut().zip(["GPU-b", "GPU-a", "GPU-a", "GPU-b"]) {
            row.key = Some(key.into());
        }
        assert_eq!(number_gpus(&mut rows), None);
        assert_eq!(rows.iter().map(|row| row.gpu.index).collect::<Vec<_>>(), [0, 1, 1, 0]);
    }
}

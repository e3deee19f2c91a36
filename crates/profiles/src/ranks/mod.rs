//! Several ranks of one run: their traces, read one after the other, become one table. Which rank enters collectives late, what it
//! does meanwhile, how long the others wait, and what the collectives take without that.
//!
//! Pure, like all of `profiles`. What a verdict makes of it belongs to `diagnosis`.

mod activities;
mod matching;
mod side_by_side;
#[cfg(test)]
mod tests;
pub mod trace;

use std::collections::HashMap;

use matching::Matching;
use side_by_side::RankSums;
use trace::{COLLECTIVES_MAX, RankTrace};

use super::account::ProfileAccount;
use super::ranks_account::{RankActivity, RankRow, RanksAccount};

/// Most traces.
pub const RANKS_MAX: usize = 1_024;

/// The name of a file, with what was read from it.
pub type NamedTrace = (String, RankTrace);

/// The same, with the number of the rank.
type Numbered<'a> = (u32, &'a NamedTrace);

/// Why traces are not compared, in one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RanksError {
    /// Too many.
    #[error("{0} traces are too many: at most {RANKS_MAX} ranks are compared")]
    TooMany(usize),
    /// Runs of different sizes.
    #[error("{0} is of a run of {1} ranks and {2} of one of {3}: give the traces of one run")]
    OtherRun(String, u32, String, u32),
    /// One rank twice.
    #[error(
        "{0} and {1} are both of rank {2}: give one trace of each rank, or compare the two with trainmon compare"
    )]
    SameRank(String, String, u32),
    /// Nothing that they did together.
    #[error(
        "no collective of {0} is in {1}: give the traces of one run over the same time, or compare two runs: \
         trainmon compare {0} {1}"
    )]
    NothingInCommon(String, String),
    /// Nothing says that they are ranks.
    #[error(
        "{0} and {1} do not say which rank they are of, and have no collective: to compare two runs: \
         trainmon compare {0} {1}"
    )]
    NoRanks(String, String),
}

/// Puts the ranks side by side. `traces` are the names of the files with what was read from them.
///
/// # Errors
/// They are not of one run.
pub fn across(traces: &[NamedTrace]) -> Result<RanksAccount, RanksError> {
    if traces.len() > RANKS_MAX {
        return Err(RanksError::TooMany(traces.len()));
    }
    let mut account = RanksAccount { world_size: world_size(traces)?, ..RanksAccount::default() };
    let by_files = numbers(traces)?;
    let are_numbered = by_files.is_some();
    if !are_numbered {
        account.notes.push(
            "Some files do not say which rank they are of: the ranks are numbered in the order given.".to_owned(),
        );
    }
    let numbers = by_files.unwrap_or_else(|| (0..).take(traces.len()).collect());
    let mut order: Vec<Numbered<'_>> = numbers.into_iter().zip(traces).collect();
    order.sort_by_key(|(number, _)| *number);
    let ranks: Vec<&RankTrace> = order.iter().map(|(_, (_, trace))| trace).collect();
    account.ranks = order.iter().map(|(number, (file, trace))| row(*number, file, trace)).collect();
    let matching = matching::matched(&ranks);
    if let ([(first, _), (second, _), ..], true) = (traces, matching.collectives.is_empty()) {
        let pair = (first.clone(), second.clone());
        if ranks.iter().any(|rank| !rank.collectives.is_empty()) {
            return Err(RanksError::NothingInCommon(pair.0, pair.1));
        }
        if !are_numbered {
            return Err(RanksError::NoRanks(pair.0, pair.1));
        }
    }
    RankSums { account: &mut account, ranks: &ranks, matching: &matching }.fill();
    notes(&mut account, &ranks, &matching);
    Ok(account)
}

/// The account of the rank that the others wait for, or else of the first, with all of them side by side.
///
/// # Errors
/// As [`across`].
pub fn side_by_side(traces: Vec<NamedTrace>) -> Result<ProfileAccount, RanksError> {
    let across = across(&traces)?;
    let shown = across.straggler.as_ref().map_or(0, |late| late.index);
    let file = across.ranks.get(shown).map(|row| row.file.clone());
    let trace = traces.into_iter().find(|(name, _)| Some(name) == file.as_ref());
    let account = trace.map(|(_, trace)| trace.account).unwrap_or_default();
    Ok(ProfileAccount { file: file.or(account.file), across_ranks: Some(across), ..account })
}

/// Ranks of the run, if the files say it.
fn world_size(traces: &[NamedTrace]) -> Result<Option<u32>, RanksError> {
    let mut found: Option<(&str, u32)> = None;
    for (file, trace) in traces {
        let Some(size) = trace.account.world_size else { continue };
        let (other, of) = *found.get_or_insert((file, size));
        if of != size {
            return Err(RanksError::OtherRun(other.to_owned(), of, file.clone(), size));
        }
    }
    Ok(found.map(|(_, size)| size))
}

/// The numbers of the ranks: as the files say it, else by their names; `None` where these do not tell all apart.
fn numbers(traces: &[NamedTrace]) -> Result<Option<Vec<u32>>, RanksError> {
    let mut known: HashMap<u32, &str> = HashMap::new();
    for (file, trace) in traces {
        if let Some(rank) = trace.account.rank
            && let Some(other) = known.insert(rank, file)
        {
            return Err(RanksError::SameRank(other.to_owned(), file.clone(), rank));
        }
    }
    let by_file = |(file, trace): &NamedTrace| trace.account.rank.or_else(|| number_in(file));
    let found: Vec<u32> = traces.iter().filter_map(by_file).collect();
    let distinct: std::collections::HashSet<u32> = found.iter().copied().collect();
    Ok((distinct.len() == traces.len()).then_some(found))
}

/// `trace_rank-12.json.gz` → 12.
fn number_in(file: &str) -> Option<u32> {
    let name = file.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    let after = ["rank", "worker"].iter().find_map(|word| name.rsplit_once(word)).map(|(_, after)| after)?;
    let after = after.trim_start_matches(['-', '_', '.', '=']);
    after.get(..after.bytes().take_while(u8::is_ascii_digit).count())?.parse().ok()
}

fn row(rank: u32, file: &str, trace: &RankTrace) -> RankRow {
    let account = &trace.account;
    let window_ns = (account.window_ms * 1e6).max(1.0);
    let share = |activity| (trace.activities.total(activity) / window_ns).min(1.0);
    let gpu = account.devices.first();
    RankRow {
        rank,
        file: file.to_owned(),
        host: trace.host.clone(),
        window_ms: account.window_ms,
        step_ms: account.step_ms,
        compute: gpu.map_or_else(|| share(RankActivity::Compute), |gpu| gpu.compute),
        exposed: match gpu {
            Some(gpu) if gpu.communication > 0.0 => gpu.exposed,
            _ => share(RankActivity::Collective),
        },
        collectives: trace.collectives.len() as u64,
        ..RankRow::default()
    }
}

/// What makes the comparison partial.
fn notes(account: &mut RanksAccount, ranks: &[&RankTrace], matching: &Matching) {
    let mut note = |sentence: String| account.notes.push(sentence);
    let (here, all) =
        (ranks.len(), account.world_size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default());
    if ranks.iter().all(|rank| rank.collectives.is_empty()) {
        note("No trace has a collective: which rank waits for which is unknown.".to_owned());
        return;
    }
    if here < all {
        note(format!("{here} of {all} ranks have a trace: another rank may enter later than these."));
    }
    let without = ranks.iter().filter(|rank| rank.collectives.is_empty()).count();
    if without > 0 {
        note(format!("{without} of {here} traces have no collective."));
    }
    if matching.unmatched > matching.sends {
        let missing = matching.unmatched - matching.sends;
        let total: usize = ranks.iter().map(|rank| rank.collectives.len()).sum();
        note(format!("{missing} of {total} collectives have no counterpart in another trace and are left out."));
    }
    if matching.sends > 0 {
        note(format!("{} sends and receives between two ranks are not compared.", matching.sends));
    }
    if matching.alone > 0 {
        note(format!("{} collectives are of groups with a single trace and are left out.", matching.alone));
    }
    if matching.unset > 0 {
        note(format!("Ranks that share no collective with the first one keep their own clocks: {}.", matching.unset));
    }
    if ranks.iter().any(|rank| rank.left_out > 0) {
        note(format!("Only the first {COLLECTIVES_MAX} collectives of each rank are compared."));
    }
}

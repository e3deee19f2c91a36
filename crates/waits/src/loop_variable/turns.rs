//! How fast a number counts, from its values at several moments: pure functions of values.
//!
//! A counter may begin anew, and a value that was read while the program wrote it may be anything.

use trainmon_rates::levels::{BEYOND_CHANCE, BY_CHANCE, CLEARLY, EACH_MS, NEARLY_ALL, SHORT_INTERVAL_S};

/// The rate covers the readings of this long, nanoseconds: about all that are kept while they come often.
const RATE_SPAN_NS: u64 = 16_000_000_000;
/// Between readings this far apart a loop takes a step, or a few, nanoseconds.
const APART_NS: u64 = 700_000_000;
/// A counter must have risen between at least this many pairs of readings.
const RISES: usize = 3;
/// The same for a variable that is known to count.
const KNOWN_RISES: usize = 2;
/// A variable that begins anew between a larger part of the readings may do so several times between two of them.
const BEGINS_ANEW: f64 = 0.25;
/// The same where it is known at which number it begins anew: between two readings it must not count a larger part of it.
const LARGEST_PART_OF_LAP: f64 = 0.5;
/// A loop that never got further runs within a step: over parts of a batch, or only once.
const SHORT_LOOP: i64 = 4;
/// Laps are counted from at least this many pairs of close readings, in which it turned at least this often …
const LAP_PAIRS: usize = 8;
const LAP_TURNS: i64 = 16;
/// … where most of them are shorter than half a lap, and those up to this long rise as fast as the others, seconds: otherwise a lap may
/// have ended unseen.
const VERY_CLOSE_S: f64 = 0.1;
/// So many turns are few enough to be counted from the first rise to the last one.
const SLOW_TURNS: i64 = 3;
const MOST_SLOW_TURNS: i64 = 40;
/// At least this many turns of the loop must have been seen.
const LEAST_TURNS: i64 = 6;
/// The smallest part of the pairs in which a counter must rise: one that restarts every two seconds rises in half of
/// them.
const RISING: f64 = 0.4;
/// Larger than any step count; seconds since 1970 are larger.
pub(crate) const LARGEST_COUNT: i64 = 1_000_000_000;
/// Median number of turns between two readings for a counter that restarts now and then; below this, one that cycles
/// through a few numbers looks the same.
const LONG_RUN: f64 = 5.0;
/// A few turns: this many must lie between two close readings before an unmoved variable shows that it rises in lumps,
/// and the newest value is believed only up to this many times the median rate.
const FEW_TURNS: f64 = 3.0;

/// Between two readings.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ended_ns: u64,
    seconds: f64,
    rise: i64,
}

impl Pair {
    fn rate(self) -> f64 {
        self.rise as f64 / self.seconds
    }

    /// The rise if it began anew after `lap` turns where it fell.
    fn rise_over(self, lap: i64) -> i64 {
        if self.rise < 0 { self.rise.saturating_add(lap) } else { self.rise }
    }

    /// The moment between the two readings, seconds.
    fn middle_s(self) -> f64 {
        self.ended_ns as f64 / 1e9 - self.seconds / 2.0
    }

    /// Whether the readings are close enough to show if the variable rises by ones or in lumps.
    fn is_close(self) -> bool {
        self.seconds < SHORT_INTERVAL_S
    }
}

/// Turns and seconds of these pairs together.
fn sum(pairs: impl Iterator<Item = Pair>) -> (i64, f64) {
    pairs.fold((0, 0.0), |(turns, seconds), pair| (turns + pair.rise, seconds + pair.seconds))
}

/// Those of the pairs that cover all of the time, once each. Close ones are of moments in which the counter was there: pauses have none.
fn over_all_time(pairs: impl Iterator<Item = Pair> + Clone) -> impl Iterator<Item = Pair> {
    let has_far = pairs.clone().any(|pair| !pair.is_close());
    pairs.filter(move |pair| !has_far || !pair.is_close())
}

/// Counted per second by a variable that is known to count, up to `total` if that is known, and then anew; `None` before it rose a few
/// times, or if it begins anew too often to tell how far it came in between.
pub(super) fn rate_of_counter(values: &[(u64, i64)], total: Option<i64>) -> Option<f64> {
    let newest_ns = values.last()?.0;
    let mut pairs = pairs(values)?;
    pairs.retain(|pair| newest_ns.saturating_sub(pair.ended_ns) <= RATE_SPAN_NS);
    let lap = total.or_else(|| lap(values));
    let per_s =
        rate_of_pairs(pairs.clone(), lap).filter(|per_s| lap.is_none() || agrees_at_close_range(&pairs, *per_s))?;
    Some(exact_if_slow(values, per_s))
}

fn rate_of_pairs(mut pairs: Vec<Pair>, lap: Option<i64>) -> Option<f64> {
    let all = pairs.len();
    pairs.iter_mut().for_each(|pair| pair.rise = pair.rise_over(lap.unwrap_or(0)));
    pairs.retain(|pair| pair.rise >= 0);
    let mut rates: Vec<f64> = pairs.iter().filter(|pair| pair.rise > 0).map(|pair| pair.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let middle = *rates.get(rates.len() / 2)?;
    // What counts in lumps rises fastest several times; a value that was read half written rises by far too much, once.
    let fast = rates.iter().rev().nth(1).map_or(middle, |second| second.max(middle));
    pairs.retain(|pair| pair.rate() <= FEW_TURNS * (fast + 1.0 / pair.seconds));
    let longest_s = pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let is_lap_too_short = lap.is_some_and(|lap| middle * longest_s > LARGEST_PART_OF_LAP * lap as f64);
    let begins_too_often = (all - pairs.len()) as f64 > BEGINS_ANEW * all as f64;
    let (turns, seconds) = sum(over_all_time(pairs.iter().copied()));
    let is_known = rates.len() >= KNOWN_RISES && seconds > 0.0 && !begins_too_often && !is_lap_too_short;
    is_known.then(|| turns as f64 / seconds)
}

/// Turns per second of a loop that begins anew after `lap` turns, faster than it is read, by readings close to each other; `None` if a lap may
/// have ended unseen between two of them.
pub(super) fn rate_of_laps(values: &[(u64, i64)], lap: i64) -> Option<f64> {
    let newest_ns = values.last()?.0;
    // Where laps are short, values between smaller ones are usual.
    let mut close = consecutive(values);
    close.retain(|pair| pair.is_close() && newest_ns.saturating_sub(pair.ended_ns) <= RATE_SPAN_NS);
    let by_ones = has_no_unit(&close);
    close.iter_mut().for_each(|pair| pair.rise = pair.rise_over(lap));
    let (very_close, others): (Vec<Pair>, Vec<Pair>) = close.iter().partition(|pair| pair.seconds < VERY_CLOSE_S);
    let ((turns, seconds), (few, briefly)) = (sum(others.iter().copied()), sum(very_close.iter().copied()));
    let expected = turns as f64 / seconds * briefly;
    let agrees = (few as f64 - expected).abs() <= (CLEARLY * expected).max(FEW_TURNS);
    let within_half = others.iter().filter(|pair| 2 * pair.rise <= lap).count();
    let is_known = others.len() >= LAP_PAIRS
        && very_close.len() >= LAP_PAIRS
        && turns >= LAP_TURNS
        && within_half as f64 >= NEARLY_ALL * others.len() as f64
        && by_ones;
    (is_known && agrees).then(|| (turns + few) as f64 / (seconds + briefly))
}

/// Counted per second by a variable of calls, over the time in them and between them: `None` stands for a moment between two calls. A
/// call counts from zero. Readings so far apart that a call may have ended unseen between them are left out; `None` before a few calls
/// were seen to end between the others.
pub(super) fn rate_of_calls(values: &[(u64, Option<i64>)]) -> Option<f64> {
    let within: Vec<(u64, i64)> = values.iter().filter_map(|(at_ns, value)| Some((*at_ns, (*value)?))).collect();
    let rising = consecutive(&within).into_iter().filter(|pair| pair.is_close() && pair.rise > 0);
    let (counted, briefly) = sum(rising);
    let (per_s, lap) = (counted as f64 / briefly, within.iter().map(|(_, value)| *value).max()?);
    let (mut turns, mut seconds, mut calls, mut pairs) = (0.0, 0.0, 0, 0);
    for pair in values.windows(2) {
        let [(began_ns, before), (ended_ns, after)] = *pair else { continue };
        let length = ended_ns.checked_sub(began_ns)? as f64 / 1e9;
        if per_s * length > LARGEST_PART_OF_LAP * lap as f64 {
            continue;
        }
        let is_over = before.is_some_and(|before| after.is_none_or(|after| after < before));
        // How much was left of the call that ended is not known: no more than of the longest, and than it counts in that time.
        let rest =
            |before: i64| (per_s * length - after.unwrap_or(0) as f64).clamp(0.0, (lap - before).max(0) as f64);
        turns += match before {
            Some(before) if is_over => rest(before) + after.unwrap_or(0) as f64,
            Some(before) => (after? - before) as f64,
            None => after.unwrap_or(0) as f64,
        };
        (calls, pairs, seconds) = (calls + usize::from(is_over), pairs + 1, seconds + length);
    }
    (calls >= RISES && pairs >= 2 * LAP_PAIRS && turns > 0.0).then(|| turns / seconds)
}

/// Turns per second of a loop that begins anew with each turn of the `outer` one, which counts the laps that end unseen; `None` if it
/// does not, as readings close to each other show.
pub(super) fn rate_of_nested(values: &[(u64, i64)], outer: &[(u64, i64)]) -> Option<f64> {
    let (lap, each) = (lap(values)?, unit_of(outer));
    let mut outer = outer.iter().copied().peekable();
    let mut both = |(at_ns, value): &(u64, i64)| {
        while outer.next_if(|(other_ns, _)| other_ns < at_ns).is_some() {}
        let (_, laps) = outer.next_if(|(other_ns, _)| other_ns == at_ns)?;
        Some((*at_ns, (laps / each).checked_mul(lap)?.checked_add(*value)?))
    };
    let counted: Vec<(u64, i64)> = values.iter().filter_map(&mut both).collect();
    let pairs = consecutive(&counted);
    let forward = pairs.iter().filter(|pair| pair.rise >= 0).count();
    // What is outside may begin anew itself, now and then: it falls by far more than a turn that was counted late.
    let (turns, seconds) = sum(pairs.iter().copied().filter(|pair| pair.rise > -lap.saturating_mul(2)));
    let per_s = turns as f64 / seconds;
    let is_nested = forward as f64 >= NEARLY_ALL * pairs.len() as f64 && has_no_unit(&consecutive(values));
    // Pauses between laps make it slower than it is within one, and nothing makes it faster.
    let (seen, briefly) = sum(consecutive(values).into_iter().filter(|pair| pair.is_close() && pair.rise >= 0));
    let is_nested = is_nested && per_s * briefly <= (1.0 + CLEARLY) * seen as f64;
    let is_known = turns >= LAP_TURNS && seconds > 0.0 && turns >= 2 * lap && is_nested;
    (is_known && seen >= LEAST_TURNS && agrees_at_close_range(&pairs, per_s)).then_some(per_s)
}

/// Turns per second of the loop counted by this variable; `None` if it is not a counter.
pub(crate) fn rate(values: &[(u64, i64)]) -> Option<f64> {
    let mut pairs = pairs(values)?;
    let far: Vec<Pair> = pairs.iter().copied().filter(|pair| !pair.is_close()).collect();
    let mut rates: Vec<f64> = far.iter().filter(|pair| pair.rise > 0).map(|pair| pair.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let middle = *rates.get(rates.len() / 2)?;

    let begins_anew = pairs.iter().any(|pair| pair.rise < 0);
    let newest_ns = pairs.last()?.ended_ns;
    let is_whole = |pair: &Pair| {
        // Further from the median, the counter restarted in between, unless it is off by whole steps.
        let spread = (CLEARLY * middle).max(BY_CHANCE / pair.seconds);
        let sudden = pair.ended_ns == newest_ns && pair.rate() > FEW_TURNS * (middle + 1.0 / pair.seconds);
        pair.rise >= 0 && !sudden && (!begins_anew || (pair.rate() - middle).abs() <= spread)
    };
    let whole: Vec<Pair> = pairs.iter().copied().filter(is_whole).collect();

    let rises: Vec<i64> =
        whole.iter().filter(|pair| !pair.is_close() && pair.rise > 0).map(|pair| pair.rise).collect();
    let turns: i64 = rises.iter().sum();
    let often = rises.len() >= RISES && turns >= LEAST_TURNS && rises.len() as f64 >= RISING * far.len() as f64;
    let long_runs = !begins_anew || turns as f64 >= LONG_RUN * rises.len() as f64;
    let counts = often && long_runs && middle <= EACH_MS && rises_by_ones(&whole, middle);
    if !counts || !begins_anew {
        return counts.then(|| exact_if_slow(values, recent_rate(&whole)));
    }
    let (all, lap) = (pairs.clone(), lap(values));
    let longest_s = pairs.iter().map(|pair| pair.seconds).fold(0.0, f64::max);
    let per_s = match lap.filter(|lap| middle * longest_s <= LARGEST_PART_OF_LAP * *lap as f64) {
        // No lap ends unseen: where it rose less, the loop waited, often because a lap ended.
        Some(lap) => {
            pairs.iter_mut().for_each(|pair| pair.rise = pair.rise_over(lap));
            pairs.retain(|pair| pair.rate() <= middle + (CLEARLY * middle).max(BY_CHANCE / pair.seconds));
            recent_rate(&pairs)
        }
        None => recent_rate(&whole),
    };
    if agrees_at_close_range(&all, per_s) { Some(per_s) } else { rate_of_laps(values, lap?) }
}

/// The rate of these values, about `per_s`: from rise to rise if that is nearer than what a turn at each end makes of few turns.
fn exact_if_slow(values: &[(u64, i64)], per_s: f64) -> f64 {
    let is_near = |exact: &f64| (exact / per_s - 1.0).abs() <= CLEARLY;
    rate_between_rises(values).filter(is_near).unwrap_or(per_s)
}

/// Whether readings close to each other show about this rate, too, as far as there are enough: otherwise a counter began anew unseen
/// between those further apart.
fn agrees_at_close_range(pairs: &[Pair], per_s: f64) -> bool {
    let (turns, seconds) = sum(pairs.iter().copied().filter(|pair| pair.is_close() && pair.rise >= 0));
    turns < LAP_TURNS || (turns as f64 - per_s * seconds).abs() <= (CLEARLY * per_s * seconds).max(FEW_TURNS)
}

/// How many turns a loop takes before it begins anew; `None` before it did so twice: one fall alone may be from a value that was read half
/// written. A turn at an end of the lap may not have been seen: if the largest or the least number was seen only once, about so much is
/// missing there as lies between any two of the numbers.
pub(super) fn lap(values: &[(u64, i64)]) -> Option<i64> {
    let possible = || values.iter().map(|(_, value)| *value).filter(|value| (0..=LARGEST_COUNT).contains(value));
    let (largest, least) = possible().max().zip(possible().min())?;
    let fell = possible().zip(possible().skip(1)).filter(|(before, after)| after < before && 2 * before >= largest);
    let seen = largest - least;
    let once =
        [largest, least].into_iter().filter(|end| possible().filter(|value| value == end).count() == 1).count();
    // As for the largest of a row of numbers of which some were drawn: about as much is beyond it as lies between two of them.
    let beyond = (seen as f64 / values.len() as f64 - 1.0).max(0.0);
    let unseen = (once as f64 * beyond).round() as i64;
    (fell.count() > 1).then_some(seen + unseen + 1)
}

/// Whether a loop turns at all.
pub(crate) fn moves(values: &[(u64, i64)]) -> bool {
    values.iter().any(|(_, value)| Some(*value) != values.first().map(|(_, first)| *first))
}

/// Whether it does not begin anew.
pub(super) fn never_falls(values: &[(u64, i64)]) -> bool {
    values.is_sorted_by_key(|(_, value)| *value)
}

/// Whether a loop gets beyond a few turns.
pub(super) fn is_long(values: &[(u64, i64)]) -> bool {
    let of_values = || values.iter().map(|(_, value)| *value);
    of_values()
        .max()
        .zip(of_values().min())
        .is_some_and(|(largest, least)| largest.saturating_sub(least) > SHORT_LOOP)
}

/// Whether a counter moved over the last three readings: two of them have a window of the sampler in between.
pub(super) fn rises_still(values: &[(u64, i64)]) -> bool {
    let newest = values.iter().rev().take(3).map(|(_, value)| value);
    newest.clone().min() < newest.max()
}

/// The pairs of readings close to each other, and of consecutive ones further apart; `None` if too many values cannot be counts.
fn pairs(values: &[(u64, i64)]) -> Option<Vec<Pair>> {
    let mut possible: Vec<(u64, i64)> =
        values.iter().copied().filter(|(_, value)| (0..=LARGEST_COUNT).contains(value)).collect();
    // py-spy does not stop the program, so now and then it reads a half-written value.
    if (values.len() - possible.len()) as f64 > BEYOND_CHANCE * values.len() as f64 {
        return None;
    }
    without_peaks(&mut possible);
    let mut pairs = consecutive(&possible);
    pairs.retain(|pair| pair.is_close());
    let mut apart: Vec<(u64, i64)> = Vec::new();
    for value in possible {
        if apart.last().is_none_or(|last| value.0.saturating_sub(last.0) >= APART_NS) {
            apart.push(value);
        }
    }
    pairs.extend(consecutive(&apart));
    pairs.sort_by_key(|pair| pair.ended_ns);
    Some(pairs)
}

fn consecutive(values: &[(u64, i64)]) -> Vec<Pair> {
    let pair = |pair: &[(u64, i64)]| {
        let [(began_ns, before), (ended_ns, after)] = *pair else { return None };
        let seconds = ended_ns.checked_sub(began_ns)? as f64 / 1e9;
        (seconds > 0.0).then_some(Pair { ended_ns, seconds, rise: after - before })
    };
    values.windows(2).filter_map(pair).collect()
}

/// The number by which something counts: a batch's rows, or the environments of a vector.
pub(super) fn unit_of(values: &[(u64, i64)]) -> i64 {
    let moved = values.windows(2).filter_map(|pair| pair.last()?.1.checked_sub(pair.first()?.1)?.checked_abs());
    moved.fold(0, greatest_common_divisor).max(1)
}

/// Whether no number but one divides all rises, of which laps are no part.
fn has_no_unit(pairs: &[Pair]) -> bool {
    let rises = pairs.iter().map(|pair| pair.rise).filter(|rise| *rise > 0);
    rises.fold(0, greatest_common_divisor) == 1
}

/// Whether no number divides all rises, and the value rises steadily, not in lumps.
fn rises_by_ones(whole: &[Pair], middle: f64) -> bool {
    let close = whole.iter().filter(|pair| pair.is_close() && pair.seconds * middle >= FEW_TURNS);
    let (unmoved, all) = close.fold((0, 0), |(unmoved, all), pair| (unmoved + usize::from(pair.rise == 0), all + 1));
    has_no_unit(whole) && (unmoved < 2 || 2 * unmoved <= all)
}

/// Counted per second from the first rise to the last one, for a counter so slow that one turn more or less is a good part of them; `None`
/// for others.
fn rate_between_rises(values: &[(u64, i64)]) -> Option<f64> {
    let newest_ns = values.last()?.0;
    let recent = values.iter().copied().skip_while(|(at_ns, _)| newest_ns.saturating_sub(*at_ns) > RATE_SPAN_NS);
    let recent: Vec<(u64, i64)> = recent.collect();
    let mut rises = consecutive(&recent).into_iter().filter(|pair| pair.rise > 0);
    let (first, last) = (rises.next()?, rises.next_back()?);
    let turns = recent.last()?.1 - recent.iter().find(|(at_ns, _)| *at_ns == first.ended_ns)?.1;
    // It rose at any moment between two readings.
    let seconds = last.middle_s() - first.middle_s();
    let is_slow = (SLOW_TURNS..=MOST_SLOW_TURNS).contains(&turns);
    (is_slow && never_falls(&recent) && seconds > 0.0).then(|| turns as f64 / seconds)
}

/// Turns per second over the newest of the pairs, which have nonzero lengths.
fn recent_rate(whole: &[Pair]) -> f64 {
    let newest_ns = whole.last().map_or(0, |pair| pair.ended_ns);
    let recent = whole.iter().rev().take_while(|pair| newest_ns.saturating_sub(pair.ended_ns) <= RATE_SPAN_NS);
    let (turns, seconds) = sum(over_all_time(recent.copied()));
    turns as f64 / seconds
}

/// Removes values between two others that are both smaller and in order: they were half written.
fn without_peaks(values: &mut Vec<(u64, i64)>) {
    let mut at = 1;
    while let Some([(_, before), (_, value), (_, after)]) =
        values.get(at - 1..at + 2).and_then(|three| three.first_chunk())
    {
        if value > after && before <= after {
            values.remove(at);
        } else {
            at += 1;
        }
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

//! How often verdicts are right at each confidence of the rules.
//!
//! Each factor of a rule is set for what that rule may confuse. Multiplied with the others, they are a little too careful. On
//! the labeled programs and on other people's, with stacks and without, verdicts were right with 2.1 times the odds that the
//! rules gave them (measure/calibration.csv; `python measure calibrate` fits it again). On the labeled ones alone it is
//! more, because the rules were made with them in sight. What the rules do not call sure does not become so.

use super::causes::Judgment;
use super::class::Class;
use super::thresholds::*;

thresholds! {
    ODDS = 2.1, "times the odds", "logistic regression on the rules' log-odds finds this shift, with a slope of 0.94 (Platt scaling)";
    CALLED_SURE = 0.80, "confidence", "what a person acts on without looking further";
    NOT_SURE = 0.79, "confidence", "the most below it";
}

/// The confidence of a judgment as the part of such verdicts that is right, 0–1. A verdict that claims nothing keeps its own.
pub(super) fn calibrated(judgment: &Judgment) -> f64 {
    if judgment.class == Class::Unknown {
        return judgment.confidence;
    }
    of_rules(judgment.confidence)
}

fn of_rules(confidence: f64) -> f64 {
    let part = ODDS.value * confidence / (ODDS.value - 1.0).mul_add(confidence, 1.0);
    let most = if confidence < CALLED_SURE.value { NOT_SURE } else { CERTAIN };
    // Certain verdicts stay certain.
    part.min(most.value).max(confidence.min(CERTAIN.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sure_by_the_rules_stays_so_and_the_order_stays() {
        let all: Vec<f64> = (0..=99_u32).map(|percent| of_rules(f64::from(percent) / 100.0)).collect();
        assert!(all.windows(2).all(|pair| matches!(pair, [a, b] if a <= b)), "{all:?}");
        for (percent, calibrated) in all.iter().enumerate() {
            assert_eq!(*calibrated >= 0.8, percent >= 80, "{percent}%: {calibrated}");
            assert!(*calibrated * 100.0 >= percent as f64 - 1e-9 && *calibrated <= 0.99, "{percent}%: {calibrated}");
        }
        // Even odds become those of the factor.
        assert!((of_rules(0.5) - ODDS.value / (ODDS.value + 1.0)).abs() < 1e-9 && of_rules(0.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_claimed_of_what_is_unknown() {
        let judgment = |class| Judgment { class, confidence: 0.3, ..Judgment::default() };
        assert!((calibrated(&judgment(Class::Unknown)) - 0.3).abs() < 1e-9);
        assert!((calibrated(&judgment(Class::Io)) - of_rules(0.3)).abs() < 1e-9 && of_rules(0.3) > 0.3);
    }
}

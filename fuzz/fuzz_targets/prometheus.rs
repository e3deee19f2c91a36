//! What Prometheus answers to `trainmon fleet`.
#![no_main]

use std::time::Duration;

use trainmon_diagnosis::fleet::answer;
use trainmon_diagnosis::fleet::join::Answers;
use trainmon_diagnosis::fleet::query::FleetQuery;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((series, warnings)) = answer::read(bytes) {
        let series = FleetQuery::ALL.into_iter().map(|query| (query, series.clone())).collect();
        let _ = Answers { series, warnings }.fleet(Duration::from_secs(300));
    }
});

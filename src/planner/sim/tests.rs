//! Many seeds, and proof that the simulator can fail.

use super::*;

#[test]
fn every_promise_is_kept_under_faults() {
    let mut replaced = 0;
    for seed in std::env::var("SEED").map_or(0..200, |seed| { let seed = seed.parse().unwrap(); seed..seed + 1 }) {
        let report = simulate(seed, 1_500);
        replaced += report.replaced_count;
        if let Some(text) = report.failure_text() {
            panic!("{text}");
        }
    }
    assert!(replaced > 200, "the schedules replaced only {replaced} copies and prove little");
}

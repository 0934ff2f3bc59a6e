//! Rates and their ratios as people read them.

/// Operations a second: whole, or to three digits where they are few.
pub(super) fn rate(per_sec: f64) -> String {
    let decimals = match per_sec {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{per_sec:.decimals$}")
}

/// How many times as much: `1.04`, `3.2`, `12`.
pub(super) fn times(factor: f64) -> String {
    let decimals = match factor {
        ..1.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    format!("{factor:.decimals$}")
}

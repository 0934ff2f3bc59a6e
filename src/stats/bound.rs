//! What nothing lost means.

/// How likely a loss at each cut may still be, at 95 % confidence, after zero losses in `cuts` random cuts:
/// 1 - 0.05^(1/n), the exact one-sided (Clopper-Pearson) bound. 1 for no cuts at all.
pub fn bound_95(cuts: u64) -> f64 {
    // With p above this, n cuts without a loss have probability (1 - p)^n < 0.05. By logarithms, since
    // 0.05^(1/n) is too near to 1 to be subtracted from it where n is large.
    -(0.05_f64.ln() / cuts as f64).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_the_manual() {
        // (1 - 0.4507)^5 = 0.5493^5 = 0.0500; (1 - 0.009936)^300 = e^(-300 * 0.0099857) = e^-2.9957 = 0.0500.
        assert!((bound_95(5) - 0.4507).abs() < 1e-4, "{}", bound_95(5));
        assert!((bound_95(300) - 0.009_936).abs() < 1e-6, "{}", bound_95(300));
        assert!((bound_95(1) - 0.95).abs() < 1e-12);
    }

    #[test]
    fn no_cuts_prove_nothing_and_many_never_prove_everything() {
        assert!((bound_95(0) - 1.0).abs() < f64::EPSILON);
        // The rule of three: close to -ln(0.05)/n = 2.9957/n for large n.
        let many = bound_95(1_000_000_000_000);
        assert!((many * 1e12 - 2.9957).abs() < 1e-3, "{many}");
    }
}

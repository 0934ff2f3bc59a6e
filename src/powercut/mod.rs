//! Floor 4: Ledger, cuts, images, checks, verdicts.

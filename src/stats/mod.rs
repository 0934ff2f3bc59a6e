//! Floor 1: Samples, quantiles, the paired interval: numbers in, numbers out. It imports nothing that acts: no file, clock, thread or random choice.

//! Floor 3: How long a restore will take: laws, schedule, interval. Pure.

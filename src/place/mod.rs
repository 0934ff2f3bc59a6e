//! Floor 4: A directory or a drive as a place of work: run directory with its marker, device counters, idling.

//! What every run writes at the head of its document: the machine, the places, what is known of them.

use crate::place::Place;
use crate::results::{Document, Host, Kind};
use crate::storage;
use crate::sys::clock;
use crate::sys::host::host_facts;

/// A document of now and of this machine.
pub fn begun(kind: Kind, argv: &[String]) -> Document {
    let facts = host_facts();
    let (kernel, cpus) = (facts.kernel, facts.cpus);
    Document {
        started_at: clock::utc_now(),
        argv: argv.to_vec(),
        host: Host { kernel, cpus, memory_bytes: facts.memory_bytes, load_1m: facts.load_1m },
        ..Document::new(kind)
    }
}

/// The document before the first arm.
pub(super) fn head(kind: Kind, argv: &[String], places: &[Place]) -> Document {
    let records: Vec<_> = places.iter().map(Place::record).collect();
    Document {
        simulated: records.iter().any(|place| place.simulated),
        notes: storage::preloaded().into_iter().chain(places.iter().flat_map(Place::notes)).collect(),
        places: records,
        ..begun(kind, argv)
    }
}

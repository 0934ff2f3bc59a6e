//! Which part of a load takes how long, and what it waits for, seen from outside: what the sessions in the database are
//! doing, asked for several times a second. So it holds for psql and for `pg_restore -j` alike, and costs the load next to
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::results::Phases;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::sql::literal;
use crate::sys::clock::now_ns;

/// A long load is asked about less often than a short one: each time after a part of what has passed, within these bounds.
const PART: u64 = 20;
const SHORTEST_NS: u64 = 10_000_000;
const LONGEST_NS: u64 = 250_000_000;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    by_part: BTreeMap<&'static str, u64>,
    by_wait: BTreeMap<(&'static str, &'static str), u64>,
    indexes: BTreeMap<String, u64>,
}

/// What a session was seen doing.
struct Look {
    query: String,
    wait_type: String,
    wait: String,
}

/// Looks on until it is told that the load is over: by `over`, and an unpark of its thread, for a trial ends no later for it.
pub fn watch(session: &mut Session, database: &str, over: &AtomicBool) -> Result<Seen, ServerError> {
    let version = session.value("SHOW server_version_num")?.parse().unwrap_or(0);
    let sql = question(version, database);
    let began_ns = now_ns();
    let (mut seen, mut last_ns) = (Seen::default(), began_ns);
    while !over.load(Ordering::Relaxed) {
        let rows = session.rows(&sql)?;
        let now = now_ns();
        let (mut looks, mut checkpointing) = (Vec::new(), false);
        for row in rows {
            let Ok([kind, query, wait_type, wait]) = <[String; 4]>::try_from(row) else { continue };
            if kind == CHECKPOINTER {
                checkpointing = wait_type == "IO";
            } else {
                looks.push(Look { query, wait_type, wait });
            }
        }
        seen.add(&looks, checkpointing, now - last_ns);
        last_ns = now;
        let pause_ns = ((now - began_ns) / PART).clamp(SHORTEST_NS, LONGEST_NS);
        std::thread::park_timeout(Duration::from_nanos(pause_ns));
    }
    Ok(seen)
}

const CHECKPOINTER: &str = "checkpointer";

/// Sessions at work in a database, and the checkpointer: 9.6 has wait events, 10 shows who is what. It asks what
/// `pg_stat_activity` is a view of (system_views.sql), for the view takes three times as long.
fn question(version: u32, database: &str) -> String {
    let (kind, checkpointer) = match version {
        100_000.. => ("backend_type", " OR backend_type = 'checkpointer'"),
        _ => ("''", ""),
    };
    let waits = match version {
        90_600.. => "coalesce(wait_event_type, ''), coalesce(wait_event, '')",
        _ => "'', ''",
    };
    format!(
        "SELECT {kind}, pg_catalog.left(query, 300), {waits} FROM pg_catalog.pg_stat_get_activity(NULL) \
         WHERE (datid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = {}) AND state = 'active')\
         {checkpointer}",
        literal(database)
    )
}

/// What a session is held up by. A device that a checkpoint writes to at the same time is the checkpoint's.
fn held_up_by(look: &Look, checkpointing: bool, sessions: usize) -> &'static str {
    match (look.wait_type.as_str(), look.wait.as_str()) {
        ("", _) if sessions == 1 => "one-cpu",
        ("", _) => "cpu",
        // One session syncs the WAL, others wait for it.
        ("IO", _) | ("LWLock", "WALWrite" | "WALWriteLock") if checkpointing => "checkpoint",
        ("IO", _) | ("LWLock", "WALWrite" | "WALWriteLock") => "device",
        ("Client", _) => "client",
        ("Lock" | "BufferPin", _) => "lock",
        _ => "other",
    }
}

impl Seen {
    /// So long these sessions did this; each gets its share.
    fn add(&mut self, looks: &[Look], checkpointing: bool, interval_ns: u64) {
        let share_ns = interval_ns / looks.len().max(1) as u64;
        let mut building = BTreeSet::new();
        for look in looks {
            let (part, index) = part(&look.query);
            *self.by_part.entry(part).or_default() += share_ns;
            let wait = held_up_by(look, checkpointing, looks.len());
            *self.by_wait.entry((part, wait)).or_default() += share_ns;
            building.extend(index);
        }
        // An index that is built beside others takes the whole interval, however many sessions build it.
        for index in building {
            *self.indexes.entry(index).or_default() += interval_ns;
        }
    }

    /// By part of the load, without `_ns`: how long what held it up, in nanoseconds.
    pub fn waits_ns(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut waits: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for ((part, wait), ns) in &self.by_wait {
            let part = part.trim_end_matches("_ns").to_owned();
            waits.entry(part).or_default().insert((*wait).to_owned(), *ns);
        }
        waits
    }

    /// The parts of a load that took so long in all; nothing where nothing was seen.
    pub fn phases(&self, load_ns: u64) -> Phases {
        let all_ns: u64 = self.by_part.values().sum();
        // A part of `load_ns`, which fits.
        let scaled = |ns: u64| {
            u64::try_from(u128::from(ns) * u128::from(load_ns) / u128::from(all_ns.max(1))).unwrap_or(load_ns)
        };
        self.by_part.iter().map(|(part, ns)| ((*part).to_owned(), scaled(*ns))).collect()
    }

    /// The index that took longest, and how long, in nanoseconds.
    pub fn slowest_index(&self) -> Option<(String, u64)> {
        self.indexes.iter().max_by_key(|(_, ns)| **ns).map(|(name, ns)| (name.clone(), *ns))
    }
}

/// The part of a load to which a statement belongs, and the index it builds.
fn part(query: &str) -> (&'static str, Option<String>) {
    let words: Vec<&str> = query.split_whitespace().collect();
    let at = |word: &str| words.iter().position(|known| known.eq_ignore_ascii_case(word));
    let behind = |word: &str| at(word).and_then(|index| words.get(index + 1)).map(|name| (*name).to_owned());
    match words.first().map(|word| word.to_uppercase()).as_deref() {
        Some("COPY" | "INSERT" | "TRUNCATE") => ("tables_ns", None),
        Some("CREATE") if at("INDEX").is_some_and(|index| index <= 2) => ("indexes_ns", behind("INDEX")),
        Some("ALTER") if at("CONSTRAINT").is_some() => {
            if ["PRIMARY", "UNIQUE", "EXCLUDE"].iter().any(|word| at(word).is_some()) {
                ("indexes_ns", behind("CONSTRAINT"))
            } else {
                ("constraints_ns", None)
            }
        }
        _ => ("schema_ns", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(query: &str, wait_type: &str, wait: &str) -> Look {
        let [query, wait_type, wait] = [query, wait_type, wait].map(str::to_owned);
        Look { query, wait_type, wait }
    }

    #[test]
    fn a_session_is_held_up_by_what_it_waits_for() {
        for (wait_type, wait, checkpointing, sessions, expected) in [
            ("", "", false, 1, "one-cpu"),
            ("", "", true, 2, "cpu"),
            ("IO", "WALSync", false, 1, "device"),
            ("IO", "WALSync", true, 1, "checkpoint"),
            ("LWLock", "WALWrite", false, 4, "device"),
            ("LWLock", "BufferContent", false, 4, "other"),
            ("Client", "ClientRead", true, 1, "client"),
            ("Lock", "transactionid", false, 2, "lock"),
        ] {
            let look = look("COPY t", wait_type, wait);
            assert_eq!(held_up_by(&look, checkpointing, sessions), expected, "{wait_type} {wait}");
        }
    }

    #[test]
    fn statements_of_a_dump_belong_to_its_parts() {
        for (query, expected, index) in [
            ("COPY public.t (a) FROM stdin;", "tables_ns", None),
            ("CREATE INDEX t_a ON public.t USING btree (a);", "indexes_ns", Some("t_a")),
            ("CREATE UNIQUE INDEX t_b ON public.t (b)", "indexes_ns", Some("t_b")),
            (
                "ALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_pkey PRIMARY KEY (id);",
                "indexes_ns",
                Some("t_pkey"),
            ),
            ("ALTER TABLE ONLY t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u(b)", "constraints_ns", None),
            ("CREATE TABLE public.t (a int)", "schema_ns", None),
            ("", "schema_ns", None),
        ] {
            assert_eq!(part(query), (expected, index.map(str::to_owned)), "{query}");
        }
    }

    #[test]
    fn parts_exclude_each_other_and_add_up_to_the_load() {
        let mut seen = Seen::default();
        let at = |query: &str, wait_type: &str| look(query, wait_type, "");
        seen.add(&[at("COPY a", ""), at("CREATE INDEX i ON a", "IO")], false, 100);
        seen.add(&[at("CREATE INDEX i ON a", "")], true, 50);
        seen.add(&[], false, 50);
        let phases = seen.phases(300);
        assert_eq!((phases["tables_ns"], phases["indexes_ns"]), (100, 200));
        assert_eq!(seen.slowest_index(), Some(("i".to_owned(), 150)));
        let worker = || at("CREATE INDEX i ON a", "");
        let mut parallel = Seen::default();
        parallel.add(&[worker(), worker()], false, 40);
        assert_eq!(parallel.slowest_index(), Some(("i".to_owned(), 40)));
        assert!(Seen::default().phases(10).is_empty());
        let waits = seen.waits_ns();
        assert_eq!(waits["tables"], [("cpu".to_owned(), 50)].into());
        assert_eq!(waits["indexes"], [("device".to_owned(), 50), ("one-cpu".to_owned(), 50)].into());
    }
}

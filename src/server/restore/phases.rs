//! Which part of a load takes how long, seen from outside: what the sessions in the database are doing, asked for several
//! times a second. So it holds for psql and for `pg_restore -j` alike, and costs the load next to nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::results::Phases;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::sql::literal;
use crate::sys::clock::now_ns;

/// A long load is asked about less often than a short one.
const ASKED_EVERY: Duration = Duration::from_millis(100);
const AT_FIRST: Duration = Duration::from_millis(10);
const AT_FIRST_NS: u64 = 2_000_000_000;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    by_part: BTreeMap<&'static str, u64>,
    indexes: BTreeMap<String, u64>,
}

/// Looks on until it is told that the load is over.
pub fn watch(session: &mut Session, database: &str, over: &AtomicBool) -> Result<Seen, ServerError> {
    let sql = format!(
        "SELECT pg_catalog.left(query, 300) FROM pg_catalog.pg_stat_activity WHERE datname = {} AND state = 'active'",
        literal(database)
    );
    let began_ns = now_ns();
    let (mut seen, mut last_ns) = (Seen::default(), began_ns);
    while !over.load(Ordering::Relaxed) {
        let queries = session.rows(&sql)?;
        let now = now_ns();
        seen.add(queries.iter().flatten().map(String::as_str), now - last_ns);
        last_ns = now;
        let pause = if now - began_ns < AT_FIRST_NS { AT_FIRST } else { ASKED_EVERY };
        std::thread::sleep(pause);
    }
    Ok(seen)
}

impl Seen {
    /// So long these queries ran; each gets its share.
    fn add<'a>(&mut self, queries: impl Iterator<Item = &'a str>, interval_ns: u64) {
        let parts: Vec<(&str, Option<String>)> = queries.map(part).collect();
        let share_ns = interval_ns / parts.len().max(1) as u64;
        for (part, index) in parts {
            *self.by_part.entry(part).or_default() += share_ns;
            if let Some(index) = index {
                // An index that is built beside others takes the whole interval.
                *self.indexes.entry(index).or_default() += interval_ns;
            }
        }
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
        seen.add(["COPY a", "CREATE INDEX i ON a"].into_iter(), 100);
        seen.add(["CREATE INDEX i ON a"].into_iter(), 50);
        seen.add([].into_iter(), 50);
        let phases = seen.phases(300);
        assert_eq!((phases["tables_ns"], phases["indexes_ns"]), (100, 200));
        assert_eq!(seen.slowest_index(), Some(("i".to_owned(), 150)));
        assert!(Seen::default().phases(10).is_empty());
    }
}

//! Dirty buffers of another database: what the checkpoint before a FILE_COPY has to write on a busy server.

use super::trial::Subject;
use crate::server::connect::Session;
use crate::server::error::ServerError;
use crate::server::sql::identifier;

/// Rows are so long that three lie on a page of 8 kB, with room for their next versions: an UPDATE dirties every page and
/// makes none.
const ROWS_PER_PAGE: u64 = 3;
const PAGE_BYTES: u64 = 8192;

/// A table of a size, to be dirtied as a whole.
#[derive(Debug)]
pub struct Dirt {
    session: Session,
    /// Its database.
    pub name: String,
}

impl Dirt {
    /// Makes the database and the table.
    pub fn make(
        session: &mut Session,
        subject: Subject<'_>,
        n: usize,
        size_bytes: u64,
    ) -> Result<Self, ServerError> {
        let name = subject.names.name(n);
        subject.announce(std::slice::from_ref(&name))?;
        session.run(&format!("CREATE DATABASE {} TEMPLATE template0", identifier(&name)))?;
        subject.names.mark(session, &name)?;
        let mut inside = session.another(&name)?;
        let rows = size_bytes.div_ceil(PAGE_BYTES) * ROWS_PER_PAGE;
        inside.run(
            "CREATE TABLE dirt (n integer, filler text) WITH (fillfactor = 45, autovacuum_enabled = off)",
        )?;
        inside.run("ALTER TABLE dirt ALTER filler SET STORAGE PLAIN")?;
        inside.run(&format!(
            "INSERT INTO dirt SELECT 0, repeat('x', 1180) FROM generate_series(1::bigint, {rows}::bigint)"
        ))?;
        Ok(Self { session: inside, name })
    }

    /// Dirties every page.
    pub fn spread(&mut self) -> Result<(), ServerError> {
        self.session.run("UPDATE dirt SET n = n + 1")
    }

    /// Connects again, for a server that was restarted.
    pub fn reconnect(&mut self, session: &Session) -> Result<(), ServerError> {
        self.session = session.another(&self.name)?;
        Ok(())
    }

    /// Bytes of the table.
    pub fn size_bytes(&mut self) -> Result<u64, ServerError> {
        Ok(self.session.value("SELECT pg_catalog.pg_relation_size('dirt')")?.parse().unwrap_or(0))
    }
}

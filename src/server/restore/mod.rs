//! A dump loaded into a database by the programs that everybody uses: `pg_dump | psql`, psql from a file, pg_restore.
//! What is loaded is looked through before; `pipe` is what stands between two programs, `phases` looks on from outside.

mod error;
mod phases;
mod pipe;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub use error::RestoreError;
pub use phases::Seen;

use self::pipe::{Text, Trouble};
use super::clients::{self, Clients, LIMIT};
use super::connect::Session;
use super::dump::Contents;
use super::error::ServerError;
use crate::sys::error::{SysError, shown};
use crate::sys::tools::{End, Finished, Tool, Usage};
use crate::sys::watch::Watch;

/// What is loaded.
#[derive(Debug)]
pub enum Dump {
    /// A database that is dumped for every trial.
    Database(Box<Session>),
    /// Text in a file, packed or not.
    Plain {
        /// The file.
        path: PathBuf,
        /// The program that unpacks it.
        unpack: Option<&'static str>,
    },
    /// For pg_restore: custom, tar, or a directory.
    Archive {
        /// A file or directory.
        path: PathBuf,
        /// What pg_dump calls its form.
        format: &'static str,
    },
}

/// How files begin, and what unpacks them. Sources: gzip RFC 1952, zstd RFC 8878, xz-file-format.txt, lz4 Frame Format.
const PACKED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "gzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
];

/// Where the magic of a tar file lies (POSIX.1-1988, ustar).
const TAR_MAGIC_AT: usize = 257;

impl Dump {
    /// A file or directory, by how it begins.
    pub fn at(path: &Path) -> Result<Self, RestoreError> {
        let at = RestoreError::file("read file", path);
        let path = path.to_path_buf();
        let toc = path.join("toc.dat");
        if toc.is_file() {
            return Ok(Self::Archive { path, format: "directory" });
        }
        let mut start = Vec::new();
        let file = File::open(&path).map_err(&at)?;
        file.take(TAR_MAGIC_AT as u64 + 5).read_to_end(&mut start).map_err(&at)?;
        if start.starts_with(b"PGDMP") {
            return Ok(Self::Archive { path, format: "custom" });
        }
        if start.get(TAR_MAGIC_AT..) == Some(b"ustar") {
            return Ok(Self::Archive { path, format: "tar" });
        }
        let unpack = PACKED.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, program)| *program);
        Ok(Self::Plain { path, unpack })
    }

    /// As reports call it.
    pub fn name(&self) -> String {
        match self {
            Self::Database(session) => format!("database \"{}\"", session.database),
            Self::Plain { path, .. } | Self::Archive { path, .. } => shown(path),
        }
    }

    /// `pg_dump of a server`, `plain`, `custom`.
    pub fn form(&self) -> String {
        match self {
            Self::Database(_) => "pg_dump | psql".to_owned(),
            Self::Plain { unpack: None, .. } => "plain".to_owned(),
            Self::Plain { unpack: Some(program), .. } => format!("plain, {program}"),
            Self::Archive { format, .. } => (*format).to_owned(),
        }
    }

    /// Reads a dump through, once and outside any clock: what it holds, and whether it may be loaded. Of a database that
    /// is dumped for every trial this is known only as it streams by.
    pub fn survey(&self, clients: &Clients, watch: &dyn Watch) -> Result<Option<Contents>, RestoreError> {
        let text = match self {
            Self::Database(_) => return Ok(None),
            Self::Plain { path, unpack } => text_of(path, *unpack)?,
            Self::Archive { path, .. } => {
                let program = clients.find("pg_restore", 0, watch)?;
                let tool = Tool::new(program).limit(LIMIT);
                Text::Program(Box::new(tool.args(["--no-owner", "--no-privileges", "-f", "-"]).arg(path)))
            }
        };
        let piped = pipe::run(text, None, 0, watch);
        Ok(Some(piped.map_err(|trouble| self.explained(trouble))?.contents))
    }

    /// The programs that load it into a server of a major version, none older than the server it works on.
    pub fn programs(
        &self,
        clients: &Clients,
        server: u32,
        watch: &dyn Watch,
    ) -> Result<Programs, RestoreError> {
        let (dumps, loads) = match self {
            Self::Archive { .. } => (None, "pg_restore"),
            Self::Plain { .. } => (None, "psql"),
            Self::Database(source) => (Some(clients.find("pg_dump", version(source)?, watch)?), "psql"),
        };
        Ok(Programs { dumps, loads: clients.find(loads, server, watch)? })
    }

    fn explained(&self, trouble: Trouble) -> RestoreError {
        match trouble {
            Trouble::Stopped(stop) => ServerError::Stopped(stop).into(),
            Trouble::Danger(danger) => RestoreError::Danger { dump: self.name(), danger },
            Trouble::Sys(error) => error.into(),
            Trouble::Pipe(source) => RestoreError::Pipe { source },
        }
    }
}

fn text_of(path: &Path, unpack: Option<&'static str>) -> Result<Text, RestoreError> {
    let file = File::open(path).map_err(RestoreError::file("open file", path))?;
    Ok(match unpack {
        None => Text::File(file),
        Some(program) => {
            Text::Program(Box::new(Tool::new(program).arg("-dc").stdin(file.into()).limit(LIMIT)))
        }
    })
}

/// The programs of a load, found before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    dumps: Option<PathBuf>,
    loads: PathBuf,
}

/// A dump, a database to load it into, and how.
pub struct Load<'a> {
    /// What is loaded.
    pub dump: &'a Dump,
    /// What was found when it was looked through.
    pub contents: Option<&'a Contents>,
    /// What loads it.
    pub programs: &'a Programs,
    /// Sessions of pg_restore.
    pub jobs: usize,
    /// For progress; 0 if not known.
    pub total_bytes: u64,
}

/// What loading took.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Of all programs together.
    pub usage: Usage,
    /// What was loaded.
    pub contents: Contents,
    /// Errors that pg_restore met and went on.
    pub errors_ignored: u64,
    /// What the sessions did meanwhile.
    pub seen: Seen,
}

/// The programs of a load, ready to start.
enum Ready {
    /// pg_restore.
    Archive(Tool),
    /// psql, and what it reads.
    Text(Text, Tool),
}

impl Load<'_> {
    /// Loads the dump into a database of the session's server; the session looks on meanwhile.
    pub fn run(
        &self,
        session: &mut Session,
        database: &str,
        watch: &dyn Watch,
    ) -> Result<Loaded, RestoreError> {
        let ready = self.ready(session, database)?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let looking = scope.spawn(|| phases::watch(session, database, &over));
            let loaded = match ready {
                Ready::Archive(tool) => self.pg_restore(tool, watch),
                Ready::Text(text, psql) => self.psql(text, psql, watch),
            };
            over.store(true, Ordering::Relaxed);
            looking.thread().unpark();
            let seen = looking.join().unwrap_or(Err(ServerError::WorkerDied));
            // A load that failed tells more than a look that failed with it.
            let loaded = loaded?;
            Ok(Loaded { seen: seen?, ..loaded })
        })
    }

    fn ready(&self, session: &Session, database: &str) -> Result<Ready, RestoreError> {
        let loads = tool(&self.programs.loads, session, database);
        let text = match self.dump {
            Dump::Archive { path, .. } => {
                let jobs = self.jobs.to_string();
                let loads = loads.args(["--no-owner", "--no-privileges", "-j", &jobs, "-d", database]);
                return Ok(Ready::Archive(loads.arg(path)));
            }
            _ if self.jobs > 1 => return Err(RestoreError::NotParallel),
            Dump::Plain { path, unpack } => text_of(path, *unpack)?,
            Dump::Database(source) => {
                let program = self.programs.dumps.as_deref().unwrap_or(Path::new("pg_dump"));
                let tool = tool(program, source, &source.database);
                // Whose things are and who may use them has no part in how long loading takes.
                Text::Program(Box::new(tool.args(["--no-owner", "--no-privileges"])))
            }
        };
        let loads = loads.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]).args(["-o", "/dev/null", "-f", "-"]);
        Ok(Ready::Text(text, loads))
    }

    fn psql(&self, text: Text, psql: Tool, watch: &dyn Watch) -> Result<Loaded, RestoreError> {
        let piped = pipe::run(text, Some(psql), self.total_bytes, watch);
        let piped = piped.map_err(|trouble| self.dump.explained(trouble))?;
        Ok(Loaded { usage: piped.usage, contents: piped.contents, ..Loaded::default() })
    }

    fn pg_restore(&self, pg_restore: Tool, watch: &dyn Watch) -> Result<Loaded, RestoreError> {
        let finished = pg_restore.run(watch).map_err(|error| match error {
            SysError::Stopped { stop, .. } => ServerError::Stopped(stop).into(),
            error => RestoreError::from(error),
        })?;
        let errors_ignored = errors_ignored(&finished.stderr);
        let usage = finished.usage;
        if finished.end != End::Exit(1) || errors_ignored == 0 {
            finished.success()?;
        }
        Ok(Loaded {
            usage,
            contents: self.contents.cloned().unwrap_or_default(),
            errors_ignored,
            ..Loaded::default()
        })
    }
}

/// A program that asks for no password.
fn tool(program: &Path, session: &Session, database: &str) -> Tool {
    clients::tool(program, session, database).arg("-w")
}

/// The N of `errors ignored on restore: N`, pg_restore's last word where it went on after errors.
fn errors_ignored(stderr: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(stderr);
    let number = text.rsplit_once("errors ignored on restore: ").map(|(_, number)| number.trim());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Dumps a database once: text for psql, or with several jobs a directory for `pg_restore -j`.
pub fn dump_once(
    source: &Session,
    target: &Path,
    clients: &Clients,
    jobs: usize,
    watch: &dyn Watch,
) -> Result<(), RestoreError> {
    let program = clients.find("pg_dump", version(source)?, watch)?;
    let tool = tool(&program, source, &source.database).args(["--no-owner", "--no-privileges"]);
    let tool = if jobs > 1 { tool.args(["-Fd", "-j", &jobs.to_string()]) } else { tool };
    tool.arg("-f").arg(target).run(watch).and_then(Finished::success)?;
    Ok(())
}

/// The major version of a session's server.
fn version(session: &Session) -> Result<u32, ServerError> {
    let mut session = session.another(&session.database)?;
    Ok(session.value("SHOW server_version_num")?.parse::<u32>().unwrap_or(0) / 10_000)
}

/// Every table holds as many rows as its dump. Not asked of tables that an ignored error may have left out.
pub fn check_rows(session: &mut Session, contents: &Contents) -> Result<(), RestoreError> {
    for (table, dumped) in &contents.tables {
        let found = session.value(&format!("SELECT count(*) FROM {table}"))?.parse().unwrap_or(0);
        if found != *dumped {
            return Err(RestoreError::RowsDiffer { table: table.clone(), found, dumped: *dumped });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_errors_are_counted_as_pg_restore_says() {
        let said = b"pg_restore: error: could not execute query\npg_restore: warning: errors ignored on restore: 12\n";
        assert_eq!(errors_ignored(said), 12);
        assert_eq!(errors_ignored(b"pg_restore: error: input file is too short (read 0, expected 5)\n"), 0);
    }

    #[test]
    fn files_are_known_by_how_they_begin() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut tar = vec![0; TAR_MAGIC_AT];
        tar.extend_from_slice(b"ustar\0");
        for (start, form) in [
            (&b"PGDMP\x01"[..], "custom"),
            (&tar, "tar"),
            (&[0x1f, 0x8b, 8], "plain, gzip"),
            (&[0x28, 0xb5, 0x2f, 0xfd], "plain, zstd"),
            (b"--\n", "plain"),
            (b"", "plain"),
        ] {
            let path = directory.path().join("dump");
            std::fs::write(&path, start).expect("a file");
            assert_eq!(Dump::at(&path).expect("readable").form(), form);
        }
        std::fs::write(directory.path().join("toc.dat"), "").expect("a file");
        assert_eq!(Dump::at(directory.path()).expect("readable").form(), "directory");
    }
}

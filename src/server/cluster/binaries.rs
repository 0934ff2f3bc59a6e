//! A server's programs in a directory, and which version they are.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::server::error::ServerError;
use crate::sys::tools::Tool;
use crate::sys::user::User;
use crate::sys::watch::Watch;

/// A version as the programs print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// 15; 9.6 is 9.
    pub major: u32,
    /// Everything behind `(PostgreSQL) `: `15.18 (Debian 15.18-0+deb12u1)`, `19devel`.
    pub text: String,
}

impl Version {
    /// From the output of `postgres --version`.
    pub fn parse(output: &str) -> Option<Self> {
        let text = output.trim().strip_prefix("postgres (PostgreSQL) ")?;
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self { major: digits.parse().ok()?, text: text.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text.split_whitespace().next().unwrap_or_default())
    }
}

/// Where a server's programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// What the arm is called.
    pub name: String,
    /// Holds `postgres`, `initdb`, `pg_ctl`.
    pub directory: PathBuf,
    /// Of `postgres`.
    pub version: Version,
}

impl Binaries {
    /// The programs in DIR or DIR/bin, as `--bin [NAME=]DIR` names them; without a name they are called by their version.
    ///
    /// They are run as `user`, who must be able to: a build in a home directory often cannot be read by others.
    pub fn find(argument: &str, user: Option<&User>, watch: &dyn Watch) -> Result<Self, ServerError> {
        let (name, path) = split_name(argument);
        let directory = [path.to_path_buf(), path.join("bin")]
            .into_iter()
            .find(|directory| directory.join("postgres").exists())
            .ok_or_else(|| ServerError::NoBinaries { directory: path.to_path_buf() })?;
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        for program in ["initdb", "pg_ctl"] {
            if !directory.join(program).exists() {
                return Err(ServerError::NoProgram { directory, program });
            }
        }
        let mut tool = Tool::new(directory.join("postgres")).arg("--version").directory("/");
        if let Some(user) = user {
            tool = tool.as_user(user);
        }
        let finished = tool.run(watch).and_then(crate::sys::tools::Finished::success);
        let output = finished.map_err(|source| ServerError::Unusable {
            directory: directory.clone(),
            user: user.map(|user| user.name.to_string_lossy().into_owned()),
            source,
        })?;
        let version = Version::parse(&output.text()).ok_or_else(|| ServerError::UnknownVersion {
            directory: directory.clone(),
            said: output.text(),
        })?;
        let name = name.map_or_else(|| version.to_string(), str::to_owned);
        Ok(Self { name, directory, version })
    }

    /// One of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// `NAME=DIR`; a `/` before the `=` makes it part of the directory.
fn split_name(argument: &str) -> (Option<&str>, &Path) {
    match argument.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !name.contains('/') => {
            (Some(name), Path::new(directory))
        }
        _ => (None, Path::new(argument)),
    }
}

/// Where servers of distributions are found when nobody names one: the newest of Debian's, else `postgres` in PATH.
pub fn installed() -> Option<PathBuf> {
    let listed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let newest = listed
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, directory)| directory.join("postgres").exists())
        .max();
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| directory.join("postgres").exists())
    };
    newest.map(|(_, directory)| directory).or_else(in_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_print_them() {
        for (output, major, shown) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", 15, "15.18"),
            ("postgres (PostgreSQL) 19devel", 19, "19devel"),
            ("postgres (PostgreSQL) 9.6.24", 9, "9.6.24"),
            ("postgres (PostgreSQL) 18beta2", 18, "18beta2"),
        ] {
            let version = Version::parse(output).expect(output);
            assert_eq!((version.major, version.to_string().as_str()), (major, shown));
        }
        assert_eq!(Version::parse("postgres (EnterpriseDB) 15.1"), None);
    }

    #[test]
    fn a_name_ends_at_the_first_equals_sign_unless_it_is_a_path() {
        assert_eq!(split_name("patch=/opt/a=b"), (Some("patch"), Path::new("/opt/a=b")));
        assert_eq!(split_name("/opt/a=b"), (None, Path::new("/opt/a=b")));
        assert_eq!(split_name("./x"), (None, Path::new("./x")));
    }
}

//! The files that libpq reads: `.pgpass` and `pg_service.conf`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::ConninfoError;
use super::keywords::keyword;
use super::text::Pairs;
use crate::sys::error::shown;

/// What was passed over, and why; printed as libpq prints it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Caution {
    /// A password file that others may read is not used.
    #[error(
        "password file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
        shown(.0)
    )]
    PassfileAccess(PathBuf),
    /// A password file that is no file is not used.
    #[error("password file \"{}\" is not a plain file", shown(.0))]
    PassfileKind(PathBuf),
}

/// What a line of a password file must match.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// As given; `localhost` for the default socket directory.
    pub host: &'a str,
    /// As given, or 5432.
    pub port: &'a str,
    /// The database.
    pub database: &'a str,
    /// The role.
    pub user: &'a str,
}

/// The lines of a password file; a file that is not there has none, one that libpq distrusts has none and a caution.
pub fn read_passfile(path: &Path) -> (Vec<String>, Option<Caution>) {
    let Ok(found) = fs::metadata(path) else { return (Vec::new(), None) };
    if !found.is_file() {
        return (Vec::new(), Some(Caution::PassfileKind(path.to_path_buf())));
    }
    if found.mode() & 0o077 != 0 {
        return (Vec::new(), Some(Caution::PassfileAccess(path.to_path_buf())));
    }
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    (text.lines().map(str::to_owned).collect(), None)
}

/// The password of the first line that matches.
pub fn password(lines: &[String], wanted: Wanted<'_>) -> Option<String> {
    lines.iter().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [host, port, database, user, password, ..] = fields.as_slice() else { return None };
        let asked = [wanted.host, wanted.port, wanted.database, wanted.user];
        let matches = [host, port, database, user]
            .into_iter()
            .zip(asked)
            .all(|(field, wanted)| field.raw == "*" || field.text == wanted);
        matches.then(|| password.text.clone())
    })
}

/// A field as it stands, and with its escapes taken away: an escaped `*` matches itself only.
#[derive(Default)]
struct Field {
    raw: String,
    text: String,
}

fn fields(line: &str) -> Vec<Field> {
    let mut fields = vec![Field::default()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let last = fields.len() - 1;
        match c {
            ':' if fields.len() < 5 => fields.push(Field::default()),
            '\\' => {
                if let Some(escaped) = characters.next() {
                    fields[last].raw.extend(['\\', escaped]);
                    fields[last].text.push(escaped);
                }
            }
            c => {
                fields[last].raw.push(c);
                fields[last].text.push(c);
            }
        }
    }
    fields
}

/// What a service file says of a service; nothing where it does not name it.
pub fn read_service(path: &Path, service: &str) -> Result<Option<Pairs>, ConninfoError> {
    let bytes = fs::read(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => ConninfoError::ServiceFileNotFound { path: path.to_path_buf() },
        _ => ConninfoError::Read { path: path.to_path_buf(), source },
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let mut pairs: Option<Pairs> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            if pairs.is_some() {
                break;
            }
            if heading.strip_prefix(service).is_some_and(|rest| rest.starts_with(']')) {
                pairs = Some(Pairs::new());
            }
        } else if let Some(pairs) = &mut pairs {
            pairs.push(service_line(line, path, index + 1)?);
        }
    }
    Ok(pairs)
}

fn service_line(line: &str, path: &Path, number: usize) -> Result<(&'static str, String), ConninfoError> {
    let syntax = || ConninfoError::ServiceSyntax { path: path.to_path_buf(), line: number };
    let (name, value) = line.split_once('=').ok_or_else(syntax)?;
    if name == "service" {
        return Err(ConninfoError::NestedService { path: path.to_path_buf(), line: number });
    }
    Ok((keyword(name).ok_or_else(syntax)?.name, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_first_matching_line_gives_the_password() {
        let file = lines(
            "# h:1:d:u:comment\nh:1:d:u:one\nh:*:*:u:two:with colon\n*:*:*:a\\:b:th\\\\ree\n\\*:1:d:x:no\n",
        );
        let wanted = |host, port, user| Wanted { host, port, database: "d", user };
        for (asked, expected) in [
            (wanted("h", "1", "u"), Some("one")),
            (wanted("h", "2", "u"), Some("two:with colon")),
            (wanted("g", "1", "a:b"), Some("th\\ree")),
            (wanted("g", "1", "x"), None),
            (wanted("*", "1", "x"), Some("no")),
        ] {
            assert_eq!(password(&file, asked).as_deref(), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_password_file_that_others_can_read_is_not_used() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("pgpass");
        fs::write(&path, "*:*:*:*:x\n").expect("file");
        for (mode, used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
            let (lines, caution) = read_passfile(&path);
            assert_eq!((lines.len() == 1, caution.is_none()), (used, used), "{mode:o}");
        }
        assert_eq!(
            read_passfile(directory.path()).1,
            Some(Caution::PassfileKind(directory.path().to_path_buf()))
        );
        assert_eq!(read_passfile(&directory.path().join("none")), (Vec::new(), None));
    }

    #[test]
    fn a_service_is_its_section_and_a_broken_line_is_named() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("pg_service.conf");
        let check = |text: &str, expected: &str| {
            fs::write(&path, text).expect("file");
            let shown = match read_service(&path, "mine") {
                Ok(None) => "none".to_owned(),
                Ok(Some(pairs)) => format!("{pairs:?}"),
                Err(error) => error.to_string().replace(&shown(&path), "F"),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check("[other]\nhost=no\n", "none");
        check(
            "# c\n[other]\nhost=no\n [mine]\n  host=a=b\n\nport=1 \n[mine]\nport=2\n",
            r#"[("host", "a=b"), ("port", "1")]"#,
        );
        check("[mine]\nhost\n", "syntax error in service file \"F\", line 2");
        check("[mine]\nhots=a\n", "syntax error in service file \"F\", line 2");
        check(
            "[mine]\nservice=a\n",
            "nested \"service\" specifications not supported in service file \"F\", line 2",
        );
    }
}

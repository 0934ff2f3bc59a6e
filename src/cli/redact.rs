//! Passwords never reach a results file: the command line as it is recorded.

use std::ffi::OsString;

/// What stands in the place of a password.
const STARS: &str = "***";

/// The arguments as text, passwords in URIs and connection strings replaced, bytes that are no text escaped.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<String> {
    given.into_iter().map(|argument| redacted(&shown(&argument))).collect()
}

fn shown(argument: &OsString) -> String {
    match argument.to_str() {
        Some(text) => text.to_owned(),
        None => argument.as_encoded_bytes().escape_ascii().to_string(),
    }
}

fn redacted(argument: &str) -> String {
    in_parameters(&in_authority(argument))
}

/// `scheme://user:password@host`: the password ends at the last `@` before the path.
fn in_authority(text: &str) -> String {
    let Some(start) = text.find("://").map(|found| found + 3) else { return text.to_owned() };
    let end = text[start..].find(['/', '?']).map_or(text.len(), |found| start + found);
    // A `/` within a password is wrong in a URI and yet typed: everything up to the last `@` is then hidden.
    let at = text[start..end].rfind('@').map(|found| start + found).or_else(|| text.rfind('@'));
    match (at, text[start..].find(':').map(|found| start + found)) {
        (Some(at), Some(colon)) if colon < at => format!("{}:{STARS}{}", &text[..colon], &text[at..]),
        _ => text.to_owned(),
    }
}

/// `password=…` and `sslpassword=…`, as words of a connection string or parameters of a URI, quoted or not.
fn in_parameters(text: &str) -> String {
    const NAME: &str = "password";
    let lower = text.to_ascii_lowercase();
    let mut out = String::new();
    let mut rest = 0;
    while let Some(found) = lower[rest..].find(NAME).map(|found| rest + found + NAME.len()) {
        let after_name = found + (text[found..].len() - text[found..].trim_start().len());
        if !text[after_name..].starts_with('=') {
            out += &text[rest..found];
            rest = found;
            continue;
        }
        let equals = after_name + 1;
        let value = equals + (text[equals..].len() - text[equals..].trim_start().len());
        out += &text[rest..value];
        out += STARS;
        rest = value + value_length(&text[value..]);
    }
    out + &text[rest..]
}

/// Bytes of a value: up to the closing quote, else up to white space or the next parameter of a URI.
fn value_length(text: &str) -> usize {
    let Some(quoted) = text.strip_prefix('\'') else {
        return text.find([' ', '\t', '\n', '&']).unwrap_or(text.len());
    };
    let mut escaped = false;
    for (at, letter) in quoted.char_indices() {
        match letter {
            '\'' if !escaped => return at + 2,
            letter => escaped = letter == '\\' && !escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left() {
        let cases = [
            ("postgresql://me:secret@host/db?sslmode=require", "postgresql://me:***@host/db?sslmode=require"),
            ("postgres://me:se:c@ret@host", "postgres://me:***@host"),
            ("postgres://me:sec/ret@host/db", "postgres://me:***@host/db"),
            (
                "postgresql://host/db?user=me&password=secret&sslmode=prefer",
                "postgresql://host/db?user=me&password=***&sslmode=prefer",
            ),
            ("host=h password=secret user=me", "host=h password=*** user=me"),
            ("host=h password = 'it\\'s secret' user=me", "host=h password = *** user=me"),
            ("PASSWORD=secret sslpassword='s e c'", "PASSWORD=*** sslpassword=***"),
            ("password='unterminated secret", "password=***"),
            ("a=host=h password=secret", "a=host=h password=***"),
        ];
        for (given, expected) in cases {
            assert_eq!(redacted(given), expected);
        }
    }

    #[test]
    fn what_is_no_password_stays() {
        for given in [
            "copy",
            "--into",
            "/mnt/password",
            "postgresql://me@host:5432/db",
            "http://host:1/x",
            "sim:7200rpm",
        ] {
            assert_eq!(redacted(given), given);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        use std::os::unix::ffi::OsStringExt;
        assert_eq!(arguments([OsString::from_vec(b"a\xff".to_vec())]), ["a\\xff"]);
    }
}

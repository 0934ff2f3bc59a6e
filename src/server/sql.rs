//! Names and values as SQL takes them.

/// An identifier: quoted whatever it holds, so that no name is too odd.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string: quotes doubled, backslashes too where there are any, so that it reads the same under every setting.
pub fn literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if value.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// What a configuration file takes between quotes.
pub fn configured(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_stay_what_they_are() {
        assert_eq!(identifier("x\"y"), "\"x\"\"y\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\b'"), "E'a\\\\b'''");
        assert_eq!(configured("a\\b'"), "'a\\\\b'''");
    }
}

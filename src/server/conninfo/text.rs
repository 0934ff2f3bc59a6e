//! The two text forms of connection parameters: `key = 'value' …` and `postgresql://…`, read as libpq reads them.

use super::error::ConninfoError;
use super::keywords::keyword;

/// Parameters in the order in which they stand; a later one wins.
pub type Pairs = Vec<(&'static str, String)>;

/// Whether a database name is really connection parameters, as psql decides.
pub fn is_conninfo(text: &str) -> bool {
    uri_rest(text).is_some() || text.contains('=')
}

/// Either form.
pub fn parse(text: &str) -> Result<Pairs, ConninfoError> {
    match uri_rest(text) {
        Some(rest) => Uri { whole: text }.parse(rest),
        None => parse_words(text),
    }
}

fn uri_rest(text: &str) -> Option<&str> {
    text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"))
}

fn known(name: &str) -> Result<&'static str, ConninfoError> {
    keyword(name)
        .map(|keyword| keyword.name)
        .ok_or_else(|| ConninfoError::UnknownOption { name: name.to_owned() })
}

fn parse_words(text: &str) -> Result<Pairs, ConninfoError> {
    let mut pairs = Pairs::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let name = &rest[..end];
        let Some(after) = rest[end..].trim_start().strip_prefix('=') else {
            return Err(ConninfoError::MissingEquals { name: name.to_owned() });
        };
        let (value, left) = parse_value(after.trim_start())?;
        pairs.push((known(name)?, value));
        rest = left.trim_start();
    }
    Ok(pairs)
}

/// A value and what follows it: up to white space, or in single quotes; a backslash takes the next character as it is.
fn parse_value(text: &str) -> Result<(String, &str), ConninfoError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            c if !quoted && c.is_ascii_whitespace() => return Ok((value, &body[at..])),
            c => value.push(c),
        }
    }
    if quoted { Err(ConninfoError::UnterminatedQuote) } else { Ok((value, "")) }
}

struct Uri<'a> {
    whole: &'a str,
}

impl Uri<'_> {
    fn parse(&self, rest: &str) -> Result<Pairs, ConninfoError> {
        let mut pairs = Pairs::new();
        let authority_end = rest.find('/').unwrap_or(rest.len());
        let rest = match rest[..authority_end].find('@') {
            Some(at) => {
                let (user, password) = split_at_first(&rest[..at], ':');
                push_decoded(&mut pairs, "user", user)?;
                push_decoded(&mut pairs, "password", password.unwrap_or_default())?;
                &rest[at + 1..]
            }
            None => rest,
        };
        let rest = self.hosts(rest, &mut pairs)?;
        let (path, query) = split_at_first(rest, '?');
        push_decoded(&mut pairs, "dbname", path.strip_prefix('/').unwrap_or_default())?;
        for parameter in query.unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
            pairs.push(parse_parameter(parameter)?);
        }
        Ok(pairs)
    }

    /// `host[:port],…`; what follows it.
    fn hosts<'t>(&self, text: &'t str, pairs: &mut Pairs) -> Result<&'t str, ConninfoError> {
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        let mut rest = text;
        loop {
            let (host, after) = self.host(rest)?;
            let (port, after) = match after.strip_prefix(':') {
                Some(port) => port.split_at(port.find(['/', '?', ',']).unwrap_or(port.len())),
                None => ("", after),
            };
            hosts.push(decode(host)?);
            ports.push(decode(port)?);
            let Some(next) = after.strip_prefix(',') else {
                rest = after;
                break;
            };
            rest = next;
        }
        if hosts.iter().any(|host| !host.is_empty()) {
            pairs.push(("host", hosts.join(",")));
        }
        if ports.iter().any(|port| !port.is_empty()) {
            pairs.push(("port", ports.join(",")));
        }
        Ok(rest)
    }

    fn host<'t>(&self, text: &'t str) -> Result<(&'t str, &'t str), ConninfoError> {
        let Some(bracketed) = text.strip_prefix('[') else {
            return Ok(text.split_at(text.find([':', '/', '?', ',']).unwrap_or(text.len())));
        };
        let Some((address, after)) = bracketed.split_once(']') else {
            return Err(ConninfoError::UnterminatedAddress { uri: self.shown() });
        };
        match after.chars().next() {
            _ if address.is_empty() => Err(ConninfoError::EmptyAddress { uri: self.shown() }),
            None | Some(':' | '/' | '?' | ',') => Ok((address, after)),
            Some(found) => Err(ConninfoError::UnexpectedCharacter { found, uri: self.shown() }),
        }
    }

    /// The URI for a message: without what may be a password.
    fn shown(&self) -> String {
        uri_rest(self.whole).map_or_else(String::new, |rest| redacted_uri(self.whole, rest))
    }
}

/// A URI without what may be a password in it.
fn redacted_uri(text: &str, rest: &str) -> String {
    let scheme = &text[..text.len() - rest.len()];
    let (before_query, query) = split_at_first(rest, '?');
    let authority_end = before_query.find('/').unwrap_or(before_query.len());
    let mut shown = scheme.to_owned();
    match before_query[..authority_end].find('@') {
        Some(at) => {
            let (user, password) = split_at_first(&before_query[..at], ':');
            shown.push_str(user);
            if password.is_some() {
                shown.push_str(":***");
            }
            shown.push_str(&before_query[at..]);
        }
        None => shown.push_str(before_query),
    }
    if let Some(query) = query {
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, _)) if decode(name).is_ok_and(|name| is_secret(&name)) => format!("{name}=***"),
                _ => parameter.to_owned(),
            })
            .collect();
        shown.push('?');
        shown.push_str(&parameters.join("&"));
    }
    shown
}

fn is_secret(name: &str) -> bool {
    matches!(name, "password" | "sslpassword" | "scram_client_key" | "scram_server_key")
}

/// A value as it stands in a connection string.
pub fn quoted(value: &str) -> String {
    if !value.is_empty() && value.chars().all(|c| !c.is_ascii_whitespace() && c != '\'' && c != '\\') {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn split_at_first(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn push_decoded(pairs: &mut Pairs, name: &'static str, value: &str) -> Result<(), ConninfoError> {
    if !value.is_empty() {
        pairs.push((name, decode(value)?));
    }
    Ok(())
}

fn parse_parameter(parameter: &str) -> Result<(&'static str, String), ConninfoError> {
    let Some((name, value)) = parameter.split_once('=') else {
        return Err(ConninfoError::MissingSeparator { name: parameter.to_owned() });
    };
    if value.contains('=') {
        return Err(ConninfoError::ExtraSeparator { name: name.to_owned() });
    }
    let (name, value) = (decode(name)?, decode(value)?);
    if (name.as_str(), value.as_str()) == ("ssl", "true") {
        return Ok(("sslmode", "require".to_owned()));
    }
    match keyword(&name) {
        Some(keyword) => Ok((keyword.name, value)),
        None => Err(ConninfoError::UnknownUriParameter { name }),
    }
}

fn decode(token: &str) -> Result<String, ConninfoError> {
    let invalid = || ConninfoError::PercentEncoding { token: token.to_owned() };
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits =
            after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(invalid)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        match u8::from_str_radix(digits, 16) {
            Ok(0) => return Err(ConninfoError::PercentZero { token: token.to_owned() }),
            Ok(decoded) => bytes.push(decoded),
            Err(_) => return Err(invalid()),
        }
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(pairs) => {
                pairs.iter().map(|(name, value)| format!("{name}=[{value}]")).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn words_are_read_with_their_quotes_and_escapes() {
        check("host=a port = 5", "host=[a] port=[5]");
        check(r"password='it\'s \\ here' user=x\ y", r"password=[it's \ here] user=[x y]");
        check("dbname='' host=b", "dbname=[] host=[b]");
        check("host", "missing \"=\" after \"host\" in connection info string");
        check("password='x", "unterminated quoted string in connection info string");
        check("hots=a", "invalid connection option \"hots\"");
    }

    #[test]
    fn uris_are_read_with_lists_addresses_and_encoded_parts() {
        check("postgresql://", "");
        check(
            "postgres://u%40x:p%3a@h:1,[::1]:2,k/d%20b?sslmode=require",
            "user=[u@x] password=[p:] host=[h,::1,k] port=[1,2,] dbname=[d b] sslmode=[require]",
        );
        check("postgresql:///db?host=%2Ftmp&ssl=true", "dbname=[db] host=[/tmp] sslmode=[require]");
        check("postgresql://%2Fvar%2Frun/x", "host=[/var/run] dbname=[x]");
        check("postgresql://h?port=7", "host=[h] port=[7]");
    }

    #[test]
    fn broken_uris_say_what_is_wrong_and_never_show_the_password() {
        check("postgresql://h/?x=1", "invalid URI query parameter: \"x\"");
        check("postgresql://h/?port", "missing key/value separator \"=\" in URI query parameter: \"port\"");
        check("postgresql://h/?port=1=2", "extra key/value separator \"=\" in URI query parameter: \"port\"");
        check("postgresql://h/%zz", "invalid percent-encoded token: \"%zz\"");
        check("postgresql://h/a%00", "forbidden value %00 in percent-encoded value: \"a%00\"");
        check(
            "postgresql://u:pw@[::1/",
            "end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"postgresql://u:***@[::1/\"",
        );
        check("postgresql://[]/", "IPv6 host address may not be empty in URI: \"postgresql://[]/\"");
        check(
            "postgresql://[::1]x/",
            "unexpected character \"x\" in URI (expected \":\" or \"/\"): \"postgresql://[::1]x/\"",
        );
    }
}

//! The common name of a certificate, which rustls does not look at and PostgreSQL's documentation tells people to set.

/// The first common name of the subject; nothing where there is none or it is no text.
///
/// X.509 (RFC 5280, 4.1): Certificate = SEQUENCE { TBSCertificate = SEQUENCE { \[0\] version, serial, signature, issuer,
/// validity, subject, … } … }; a name is a SEQUENCE of SETs of SEQUENCEs of an object identifier and a string.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
    let certificate = Element::first(certificate)?.content;
    let mut fields = elements(Element::first(certificate)?.content);
    let has_version = Element::first(Element::first(certificate)?.content)?.tag == 0xa0;
    let subject = fields.nth(if has_version { 5 } else { 4 })?;
    elements(subject.content).flat_map(|set| elements(set.content)).find_map(|attribute| {
        let mut parts = elements(attribute.content);
        let (kind, value) = (parts.next()?, parts.next()?);
        (kind.content == COMMON_NAME).then(|| String::from_utf8(value.content.to_vec()).ok())?
    })
}

/// As libpq: equal without regard to case, or a `*.` in front that stands for one label.
pub fn matches(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(suffix) = pattern.strip_prefix('*').filter(|suffix| suffix.starts_with('.')) else {
        return false;
    };
    let Some(label_end) = host.len().checked_sub(suffix.len()).filter(|end| host.is_char_boundary(*end))
    else {
        return false;
    };
    let (label, rest) = host.split_at(label_end);
    !label.is_empty() && !label.contains('.') && rest.eq_ignore_ascii_case(suffix)
}

/// One element of DER.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (&tag, rest) = bytes.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = if short < 0x80 {
            (usize::from(short), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            let length = digits.iter().try_fold(0_usize, |length, digit| {
                length.checked_mul(256).map(|length| length | usize::from(*digit))
            })?;
            (length, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        Some(Self { tag, content, rest })
    }
}

fn elements(bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let element = Element::first(rest)?;
        rest = element.rest;
        Some(element)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        for (pattern, host, expected) in [
            ("db.example.com", "DB.example.com", true),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.db.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*", "db", false),
            ("d*.example.com", "db.example.com", false),
        ] {
            assert_eq!(matches(pattern, host), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn the_common_name_is_found_behind_the_other_fields() {
        // SEQUENCE { SEQUENCE { [0] {}, serial, signature, issuer, validity, subject { SET { SEQUENCE { 2.5.4.3, "db" } } } } }
        let name = [0x30, 0x0d, 0x31, 0x0b, 0x30, 0x09, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x02, b'd', b'b'];
        let mut fields = vec![0xa0, 0, 0x02, 1, 1, 0x30, 0, 0x30, 0, 0x30, 0];
        fields.extend(name);
        let mut certificate = vec![0x30, 0x82, 0, 0x1c, 0x30, 0x81, 0x1a];
        certificate.extend(&fields);
        certificate[3] = u8::try_from(fields.len() + 3).expect("short");
        certificate[6] = u8::try_from(fields.len()).expect("short");
        assert_eq!(common_name(&certificate).as_deref(), Some("db"));
        for end in 0..certificate.len() {
            assert_eq!(common_name(&certificate[..end]), None, "cut at {end}");
        }
    }
}

//! What goes to stderr, in lines of at most 79 columns.

const WIDTH: usize = 79;

/// The same text with its long lines broken at spaces, further lines indented as the first. What stands in double quotes,
/// and a word of any length, is kept whole: a path is there to be copied.
pub fn wrapped(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn line(text: &str) -> String {
    if width(text) <= WIDTH {
        return text.to_owned();
    }
    let words = text.trim_start();
    let indent = &text[..text.len() - words.len()];
    let mut lines = Vec::new();
    let mut line = indent.to_owned();
    for word in split(words) {
        if line.len() > indent.len() && width(&line) + 1 + width(word) > WIDTH {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// At spaces outside of double quotes; within them a backslash takes the next character as it is.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let between = move |letter: char| {
        let taken = std::mem::take(&mut escaped);
        match letter {
            '"' if !taken => quoted = !quoted,
            '\\' if quoted && !taken => escaped = true,
            _ => {}
        }
        letter == ' ' && !quoted
    };
    text.split(between).filter(|word| !word.is_empty())
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_79_columns_and_paths_are_not() {
        let path = format!("\"/a b/{}\"", "c d/".repeat(30));
        let text = format!("error: could not create {path}: {}\nhint: short", "no space left ".repeat(12));
        let wrapped = wrapped(&text);
        assert!(wrapped.lines().any(|line| line == path || line.ends_with(&format!("{path}:"))), "{wrapped}");
        assert!(wrapped.lines().all(|line| width(line) <= WIDTH || line.contains(&path)), "{wrapped}");
        assert!(wrapped.ends_with("\nhint: short"), "{wrapped}");
    }

    #[test]
    fn further_lines_are_indented_as_the_first() {
        let wrapped = wrapped(&format!("  tip: {}", "word ".repeat(30)));
        assert!(
            wrapped.lines().count() > 1 && wrapped.lines().all(|line| line.starts_with("  ")),
            "{wrapped}"
        );
        assert_eq!(super::wrapped("  as  it is\n"), "  as  it is\n");
    }

    #[test]
    fn a_quote_within_a_quoted_path_ends_nothing() {
        let words: Vec<&str> = split(r#"open "a\" b" now"#).collect();
        assert_eq!(words, ["open", r#""a\" b""#, "now"]);
    }
}

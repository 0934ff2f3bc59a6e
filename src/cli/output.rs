//! What goes to stdout, and whether in colour.

use std::fs::File;
use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use nix::errno::Errno;

use super::problem::Problem;
use crate::sys::error::reason;
use crate::sys::standard::stdout;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR or PG_COLOR say otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// What the option, then NO_COLOR, then PG_COLOR ask for.
    pub fn choice(self, variable: impl Fn(&str) -> Option<String>) -> ColorChoice {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        match self {
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
            Self::Auto if set("NO_COLOR").is_some() => ColorChoice::Never,
            Self::Auto => match set("PG_COLOR").as_deref() {
                Some("always") => ColorChoice::Always,
                Some("never") => ColorChoice::Never,
                _ => ColorChoice::Auto,
            },
        }
    }
}

/// Writes to stdout. A reader that went away has read what it wanted: that is no failure; a full disk is, and a
/// stdout that was closed before the program started.
pub fn print(text: &str, color: ColorChoice) -> Result<(), Problem> {
    // Not by the standard library's stdout, which takes a descriptor that cannot be written for one nobody reads.
    let done = stdout().and_then(|stdout| {
        let mut stdout = AutoStream::new(File::from(stdout), color);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    });
    written(done)
}

/// What writing to stdout came to.
pub fn written(outcome: io::Result<()>) -> Result<(), Problem> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let cause = error
                .raw_os_error()
                .map_or_else(|| error.to_string(), |errno| reason(Errno::from_raw(errno)));
            Err(Problem::failed(format!("could not write to standard output: {cause}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_no_color_and_that_over_pg_color() {
        let with = |no_color: &'static str, pg_color: &'static str| {
            move |name: &str| Some(if name == "NO_COLOR" { no_color } else { pg_color }.to_owned())
        };
        assert_eq!(Color::Always.choice(with("1", "never")), ColorChoice::Always);
        assert_eq!(Color::Auto.choice(with("1", "always")), ColorChoice::Never);
        assert_eq!(Color::Auto.choice(with("", "always")), ColorChoice::Always);
        assert_eq!(Color::Auto.choice(with("", "never")), ColorChoice::Never);
        assert_eq!(Color::Auto.choice(with("", "")), ColorChoice::Auto);
    }
}

//! An image as a word on the command line: `CUT`, then what is not there, `-12,15..40`, then what is torn, `~9@0..4096`.

use std::fmt;
use std::str::FromStr;

use super::cuts::{Image, Torn};

/// A word that is no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no image: expected CUT[-MISSING][~TORN], as in 812-17,20..33~9@0..4096")]
pub struct NoImage(String);

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.cut.to_string();
        let runs = self.missing.chunk_by(|one, next| one + 1 == *next);
        for (number, run) in runs.enumerate() {
            text += if number == 0 { "-" } else { "," };
            text += &run[0].to_string();
            if let [_, .., last] = run {
                text += &format!("..{last}");
            }
        }
        if let Some(torn) = &self.torn {
            text += &format!("~{}@{}..{}", torn.request, torn.start_bytes, torn.end_bytes);
        }
        f.pad(&text)
    }
}

impl FromStr for Image {
    type Err = NoImage;

    fn from_str(text: &str) -> Result<Image, NoImage> {
        parse(text).ok_or_else(|| NoImage(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Image> {
    let (rest, torn) = match text.split_once('~') {
        Some((rest, torn)) => (rest, Some(parse_torn(torn)?)),
        None => (text, None),
    };
    let (cut, list) = rest.split_once('-').map_or((rest, None), |(cut, list)| (cut, Some(list)));
    let mut missing = Vec::new();
    for run in list.into_iter().flat_map(|list| list.split(',')) {
        let (from, upto) = run.split_once("..").unwrap_or((run, run));
        missing.extend(from.parse::<usize>().ok()?..=upto.parse().ok()?);
    }
    missing.sort_unstable();
    Some(Image { cut: cut.parse().ok()?, missing, torn, random: false })
}

fn parse_torn(text: &str) -> Option<Torn> {
    let (request, part) = text.split_once('@')?;
    let (start, end) = part.split_once("..")?;
    Some(Torn {
        request: request.parse().ok()?,
        start_bytes: start.parse().ok()?,
        end_bytes: end.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_as_it_was_written() {
        for text in ["812", "812-17", "0-1,3..5,9", "7~9@0..4096", "7-1..2~9@4096..8192"] {
            assert_eq!(text.parse::<Image>().expect(text).to_string(), text);
        }
        for wrong in ["", "x", "7-", "7-1..", "7~9", "7~9@1", "7-1~9@x..2"] {
            assert!(wrong.parse::<Image>().is_err(), "{wrong}");
        }
    }
}

//! Templates: what is copied. A real directory, which is only read; a shape file; or a built-in shape. The files of a
//! shape are made at each place, outside the clock, with contents from the seed.

pub mod build;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::engine::Skipped;
use super::shape::text::{HEADER, TextError};
use super::shape::{FileShape, Shape, ShapeError};
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault};

const GIB: u64 = 1 << 30;
/// The first object identifier that servers give to a user's table.
const FIRST_RELATION: u32 = 16384;

/// A built-in shape.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// As the command line names it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// A shape file of a real cluster.
    Text(&'static str),
    /// Made for a number; `NAME:N` gives another one.
    Generated { default: u32, shape: fn(u32) -> Shape },
}

/// A row of a cluster's shape file.
macro_rules! cluster {
    ($name:literal, $summary:literal) => {
        BuiltIn {
            name: $name,
            summary: $summary,
            form: Form::Text(include_str!(concat!("../../fixtures/shapes/", $name, ".shape"))),
        }
    };
}

/// Every built-in shape, the default first.
pub const BUILT_IN: &[BuiltIn] = &[
    cluster!("pg15", "template0 of PostgreSQL 15.18"),
    cluster!("pg10", "template1 of PostgreSQL 10.23"),
    cluster!("pg11", "template1 of PostgreSQL 11.22"),
    cluster!("pg12", "template1 of PostgreSQL 12.22"),
    cluster!("pg13", "template1 of PostgreSQL 13.23"),
    cluster!("pg14", "template1 of PostgreSQL 14.23"),
    cluster!("pg16", "template1 of PostgreSQL 16.14"),
    cluster!("pg17", "template1 of PostgreSQL 17.10"),
    cluster!("pg18", "template1 of PostgreSQL 18.4"),
    cluster!("pgbench-s10", "a database after pgbench -i -s 10, PostgreSQL 15.18"),
    BuiltIn {
        name: "many-small",
        summary: "N tables of one page (many-small:N, 100,000 without N)",
        form: Form::Generated { default: 100_000, shape: many_small },
    },
    BuiltIn {
        name: "few-large",
        summary: "a table of N segments of 1 GiB (few-large:N, 2 without N)",
        form: Form::Generated { default: 2, shape: few_large },
    },
];

/// One line of `--list-templates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTemplate {
    /// As the command line names it.
    pub name: &'static str,
    /// Regular files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// What it is.
    pub summary: &'static str,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// As the user named it, escaped where it is not text.
    pub name: String,
    /// Where it lies; absent where its files are still to be made.
    pub tree: Option<PathBuf>,
    /// Its names and sizes.
    pub shape: Shape,
    /// What of the tree will not be copied.
    pub skipped: Vec<Skipped>,
}

/// Why there is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Neither a built-in shape nor a path.
    #[error("there is no template \"{name}\": no built-in shape has that name and no such path exists")]
    NotFound {
        /// As typed, escaped.
        name: String,
    },
    /// Something else than a directory or a regular file.
    #[error("\"{}\" is neither a directory nor a shape file", shown(.path))]
    NeitherTreeNorFile {
        /// As typed.
        path: PathBuf,
    },
    /// The number behind a generated shape's name.
    #[error("\"{name}\" takes a number from 1 to {most} behind the colon")]
    Number {
        /// The shape.
        name: &'static str,
        /// The largest.
        most: u32,
    },
    /// A shape file that cannot be read as one.
    #[error("could not read shape file \"{}\": {source}", shown(.path))]
    Text {
        /// As typed.
        path: PathBuf,
        /// Why not.
        source: TextError,
    },
    /// A tree that cannot be read.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A file that cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A real tree is copied as it is.
    #[error("only shapes can be scaled, and \"{}\" is a directory", shown(.path))]
    ScaledTree {
        /// As typed.
        path: PathBuf,
    },
}

impl TemplateError {
    /// What to do about it, where something can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => {
                let names: Vec<_> = BUILT_IN.iter().map(|built_in| built_in.name).collect();
                Some(format!("built-in shapes: {}", names.join(", ")))
            }
            Self::ScaledTree { path } => Some(format!("fsynclab shape {} > x.shape", shown(path))),
            Self::Text { source: TextError::NotAShape, .. } => {
                Some("fsynclab shape DIR prints a shape".to_owned())
            }
            _ => None,
        }
    }
}

/// The largest number behind a generated shape's name.
const MOST: u32 = 10_000_000;

impl BuiltIn {
    /// The shape for `NAME`.
    fn usual_shape(&self) -> Shape {
        match self.form {
            Form::Text(text) => Shape::from_text(text).expect("a built-in shape is one, as its test says"),
            Form::Generated { default, shape } => shape(default),
        }
    }

    /// The shape for `NAME` or `NAME:N`.
    fn shape(&'static self, number: Option<&str>) -> Result<Shape, TemplateError> {
        match (self.form, number) {
            (Form::Generated { shape, .. }, Some(number)) => match number.parse() {
                Ok(number @ 1..=MOST) => Ok(shape(number)),
                _ => Err(TemplateError::Number { name: self.name, most: MOST }),
            },
            _ => Ok(self.usual_shape()),
        }
    }

    /// The built-in of that text, and the number behind it.
    fn find(text: &str) -> Option<(&'static Self, Option<&str>)> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name)?;
        let takes_number = matches!(built_in.form, Form::Generated { .. });
        (number.is_none() || takes_number).then_some((built_in, number))
    }
}

/// Every built-in shape in the order of the table.
pub fn list_templates() -> Vec<ListedTemplate> {
    let listed = BUILT_IN.iter().map(|built_in| {
        let shape = built_in.usual_shape();
        ListedTemplate {
            name: built_in.name,
            files: shape.files.len() as u64,
            bytes: shape.bytes(),
            summary: built_in.summary,
        }
    });
    listed.collect()
}

impl Template {
    /// A built-in name, else a path: a directory is the template itself, a file is a shape. A shape's files are taken
    /// `scale` times.
    pub fn resolve(text: &OsStr, scale: u32) -> Result<Self, TemplateError> {
        let name = shown(Path::new(text));
        let built_in = text.to_str().and_then(BuiltIn::find);
        let shape = match built_in {
            Some((built_in, number)) => built_in.shape(number)?,
            None => match Self::at(Path::new(text), &name, scale)? {
                Found::Tree(template) => return Ok(template),
                Found::Shape(shape) => shape,
            },
        };
        Ok(Self { name, tree: None, shape: shape.scaled(scale)?, skipped: Vec::new() })
    }

    fn at(path: &Path, name: &str, scale: u32) -> Result<Found, TemplateError> {
        let facts = match fs::metadata(path) {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TemplateError::NotFound { name: name.to_owned() });
            }
            Err(error) => return Err(Fault::of_io(Call::Newfstatat, path)(error).into()),
        };
        if facts.is_dir() {
            if scale > 1 {
                return Err(TemplateError::ScaledTree { path: path.to_path_buf() });
            }
            let scan = Shape::scan(path)?;
            return Ok(Found::Tree(Self {
                name: name.to_owned(),
                tree: Some(path.to_path_buf()),
                shape: scan.shape,
                skipped: scan.skipped,
            }));
        }
        if !facts.is_file() {
            return Err(TemplateError::NeitherTreeNorFile { path: path.to_path_buf() });
        }
        Ok(Found::Shape(read_shape(path)?))
    }
}

enum Found {
    Tree(Template),
    Shape(Shape),
}

/// The first line is judged before the rest is read: somebody may name a large file that is no shape.
fn read_shape(path: &Path) -> Result<Shape, TemplateError> {
    let wrong = |source| TemplateError::Text { path: path.to_path_buf(), source };
    let file = fs::File::open(path).map_err(Fault::of_io(Call::Openat, path))?;
    let mut file = BufReader::new(file);
    let mut bytes = Vec::new();
    let longest = HEADER.len() as u64 + 16;
    let read = file.by_ref().take(longest).read_until(b'\n', &mut bytes);
    read.map_err(Fault::of_io(Call::Read, path))?;
    let stem = HEADER.trim_end_matches('1').as_bytes();
    if !bytes.starts_with(stem) {
        return Err(wrong(TextError::NotAShape));
    }
    file.read_to_end(&mut bytes).map_err(Fault::of_io(Call::Read, path))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let ends = std::str::from_utf8(valid).map_or(0, |text| text.matches('\n').count());
        wrong(TextError::Line { line: ends + 1 })
    })?;
    Shape::from_text(&text).map_err(wrong)
}

/// Tables of one page, as a schema of thousands has them.
fn many_small(files: u32) -> Shape {
    let file = |number: u32| FileShape::dense((FIRST_RELATION + number).to_string().into(), 8192);
    Shape { directories: Vec::new(), files: (0..files).map(file).collect() }
}

/// One table, its segments named as servers name them: 16384, 16384.1, 16384.2, ….
fn few_large(segments: u32) -> Shape {
    let name = |segment: u32| match segment {
        0 => FIRST_RELATION.to_string(),
        segment => format!("{FIRST_RELATION}.{segment}"),
    };
    let file = |segment| FileShape::dense(name(segment).into(), GIB);
    Shape { directories: Vec::new(), files: (0..segments).map(file).collect() }
}

#[cfg(test)]
mod tests;

//! Places as a run is asked for them, and how they are had: directories are looked at first, then drives are made, so
//! that a refusal leaves nothing to undo.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Place, PlaceError};
use crate::simdrive;
use crate::simdrive::mount::{Options, model_of};
use crate::simdrive::spec::Spec;
use crate::sys::error::shown;
use crate::sys::journal::Journal;

/// What a drive's text begins with where a directory could stand too.
const PREFIX: &str = "sim:";

/// A place as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A directory on real storage.
    Directory(PathBuf),
    /// A drive to be made.
    Drive(Spec),
}

impl Asked {
    /// `sim:SPEC` is a drive, anything else a directory.
    pub fn read(text: &OsStr) -> Result<Self, simdrive::Error> {
        let spec = text.to_str().and_then(|text| text.strip_prefix(PREFIX));
        spec.map_or_else(|| Ok(Self::Directory(text.into())), Self::drive)
    }

    /// A drive by its spec, whose model must be known and able to do what is asked of it.
    pub fn drive(spec: &str) -> Result<Self, simdrive::Error> {
        let spec: Spec = spec.parse()?;
        spec.options(&model_of(&spec)?, 0)?;
        Ok(Self::Drive(spec))
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => f.write_str(&shown(directory)),
            Self::Drive(spec) => write!(f, "{PREFIX}{spec}"),
        }
    }
}

/// How the drives of a run are made.
#[derive(Clone, Copy, Debug)]
pub struct Making<'a> {
    /// Decides their angles and what ages their file systems.
    pub seed: u64,
    /// Where their contents lie: real storage.
    pub directory: &'a Path,
    /// Where the one drive records what reaches it.
    pub write_log: Option<&'a Path>,
    /// What is written is recorded too.
    pub log_data: bool,
    /// What must be undone.
    pub journal: &'a Journal,
}

impl<'a> Making<'a> {
    /// The same as the drives' wing takes it.
    pub fn options(&self) -> Options<'a> {
        Options {
            seed: self.seed,
            directory: self.directory.to_owned(),
            aged: true,
            write_log: self.write_log.map(Path::to_owned),
            log_data: self.log_data,
            journal: self.journal,
        }
    }
}

/// The places of a run, directories looked at, drives not made yet.
pub struct Surveyed(Vec<Found>);

enum Found {
    Here(Box<Place>),
    ToMake { id: String, spec: Spec },
}

impl Surveyed {
    /// `p1`, `p2`, … in the order given; refuses directories that must not be written to.
    pub fn new(asked: &[Asked]) -> Result<Self, PlaceError> {
        let found = (1..).zip(asked).map(|(number, asked)| {
            let id = format!("p{number}");
            Ok(match asked {
                Asked::Directory(directory) => Found::Here(Box::new(Place::survey(&id, directory)?)),
                Asked::Drive(spec) => Found::ToMake { id, spec: spec.clone() },
            })
        });
        found.collect::<Result<_, PlaceError>>().map(Self)
    }

    /// Makes the drives; where one cannot be made, none is left.
    pub fn make(self, making: &Making<'_>) -> Result<Vec<Place>, PlaceError> {
        let mut places = Vec::new();
        for found in self.0 {
            let place = match found {
                Found::Here(place) => Ok(*place),
                Found::ToMake { id, spec } => Place::simulate(&id, &spec, making.options()),
            };
            match place {
                Ok(place) => places.push(place),
                Err(error) => {
                    // What made it fail tells more than what follows from that.
                    close(places, making.journal).unwrap_or_default();
                    return Err(error);
                }
            }
        }
        Ok(places)
    }
}

/// Takes the drives among the places apart, last made first; the first error is told, the others go all the same.
pub fn close(places: Vec<Place>, journal: &Journal) -> Result<(), PlaceError> {
    places.into_iter().rev().map(|place| place.close(journal)).fold(Ok(()), Result::and)
}

//! What went wrong, as a document tells it.

use std::path::Path;

use crate::results::Failed;
use crate::sys::error::shown;
use crate::sys::kernel::{Call, Fault};

pub(super) fn failed_call(fault: &Fault) -> Failed {
    Failed {
        text: fault.to_string(),
        errno: Some(fault.errno as i32),
        call: Some(fault.call.name().to_owned()),
        path: Some(shown(&fault.path)),
    }
}

pub(super) fn failed_io(call: Call, path: &Path, error: std::io::Error) -> Failed {
    failed_call(&Fault::of_io(call, path)(error))
}

pub(super) fn failed_otherwise(error: &dyn std::error::Error) -> Failed {
    Failed { text: error.to_string(), errno: None, call: None, path: None }
}

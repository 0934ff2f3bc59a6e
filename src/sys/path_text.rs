//! For `#[serde(with = "path_text")]`: a path of any bytes as text where it is text, else as a list of bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes(Vec<u8>),
}

/// Text or bytes.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let form = match path.to_str() {
        Some(text) => Form::Text(text.to_owned()),
        None => Form::Bytes(path.as_os_str().as_bytes().to_vec()),
    };
    form.serialize(serializer)
}

/// What [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match Form::deserialize(deserializer)? {
        Form::Text(text) => PathBuf::from(text),
        Form::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder(#[serde(with = "crate::sys::path_text")] PathBuf);

    #[test]
    fn a_path_of_any_bytes_comes_back_as_it_was() {
        for bytes in [&b"/mnt/a \"b\"\n"[..], b"/mnt/\xff\xfe"] {
            let holder = Holder(PathBuf::from(OsString::from_vec(bytes.to_vec())));
            let text = serde_json::to_string(&holder).expect("text");
            assert_eq!(serde_json::from_str::<Holder>(&text).expect("path"), holder, "{text}");
        }
    }
}

//! The secret that a witness shares with its writers. It never crosses the wire: both ends prove that they know it by a
//! keyed hash (HMAC-SHA-256) of what the other end has just made up.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ring::hmac;

use super::error::{Attempt, WitnessError};
use crate::sys::files;
use crate::sys::random::fresh_id;

/// The variable that may hold it.
pub const VARIABLE: &str = "FSYNCLAB_WITNESS_TOKEN";
/// The least number of bytes.
const LEAST_BYTES: usize = 16;
/// A file of more is none.
const MOST_BYTES: u64 = 4096;

/// The secret, as a key.
#[derive(Clone, Debug)]
pub struct Token(hmac::Key);

impl Token {
    /// A token by its text.
    pub fn new(text: &str) -> Token {
        Token(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))
    }

    /// From a file that nobody else can read, else from the environment's value; nothing where neither is given.
    pub fn load(file: Option<&Path>, variable: Option<&str>) -> Result<Option<Token>, WitnessError> {
        if let Some(path) = file {
            return Token::read(path).map(Some);
        }
        match variable.map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) if text.len() < LEAST_BYTES => Err(WitnessError::ShortToken { variable: VARIABLE }),
            text => Ok(text.map(Token::new)),
        }
    }

    fn read(path: &Path) -> Result<Token, WitnessError> {
        let found = std::fs::metadata(path).attempt("read file", path)?;
        let wrong = |why| Err(WitnessError::NoToken { path: path.to_owned(), why });
        if found.permissions().mode() & 0o077 != 0 {
            return wrong("others can read it");
        }
        if found.len() > MOST_BYTES {
            return wrong("it is too long");
        }
        let text = std::fs::read_to_string(path).attempt("read file", path)?;
        if text.trim().len() < LEAST_BYTES {
            return wrong("a token has 16 bytes or more");
        }
        Ok(Token::new(text.trim()))
    }

    /// The token of this file, made up where it is not there yet.
    pub fn read_or_make(path: &Path) -> Result<Token, WitnessError> {
        if !path.exists() {
            let mut how = std::fs::OpenOptions::new();
            let file =
                how.append(true).create_new(true).mode(0o600).open(path).attempt("create file", path)?;
            files::append(&file, path, format!("{}{}\n", fresh_id(), fresh_id()).as_bytes())?;
            files::sync_directory(files::directory_of(path))?;
        }
        Token::read(path)
    }

    /// The proof of a role for two numbers used once.
    pub fn proof(&self, role: &str, nonces: [&str; 2]) -> Vec<u8> {
        hmac::sign(&self.0, &text(role, nonces)).as_ref().to_vec()
    }

    /// Whether this is that proof; compared in constant time.
    pub fn proves(&self, role: &str, nonces: [&str; 2], proof: &[u8]) -> bool {
        hmac::verify(&self.0, &text(role, nonces), proof).is_ok()
    }

    /// The key under which frames are sealed once both have proved themselves.
    pub fn session(&self, nonces: [&str; 2]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.proof("session", nonces))
    }
}

fn text(role: &str, nonces: [&str; 2]) -> Vec<u8> {
    format!("fsynclab {role}\n{}\n{}\n", nonces[0], nonces[1]).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_token_its_role_and_its_numbers_only() {
        let token = Token::new("0123456789abcdef");
        let proof = token.proof("writer", ["a", "b"]);
        assert!(token.proves("writer", ["a", "b"], &proof));
        assert!(!token.proves("witness", ["a", "b"], &proof) && !token.proves("writer", ["b", "a"], &proof));
        assert!(!Token::new("0123456789abcdeg").proves("writer", ["a", "b"], &proof));
        assert!(!token.proves("writer", ["a", "b"], &proof[..16]), "a part of it proves nothing");
    }

    #[test]
    fn a_token_that_others_can_read_or_that_is_short_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        Token::read_or_make(&path).expect("one is made");
        let text = std::fs::read_to_string(&path).expect("it is there");
        Token::read_or_make(&path).expect("it is read again");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640))
            .expect("it can be opened to others");
        let error = Token::load(Some(&path), None).expect_err("others can read it");
        assert!(error.to_string().ends_with("others can read it"), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("and closed again");
        std::fs::write(&path, "short\n").expect("it can be written");
        assert!(Token::load(Some(&path), None).is_err());
        assert!(
            Token::load(None, Some("short")).is_err() && Token::load(None, None).is_ok_and(|it| it.is_none())
        );
        assert!(Token::load(None, Some(&text)).is_ok_and(|token| token.is_some()));
    }
}

//! What can be wrong with how a server is named; worded as libpq words it.

use std::io;
use std::path::PathBuf;

use crate::sys::error::shown;

/// Why a connection could not even be tried.
#[derive(Debug, thiserror::Error)]
pub enum ConninfoError {
    /// A word without a value.
    #[error("missing \"=\" after \"{name}\" in connection info string")]
    MissingEquals {
        /// The word.
        name: String,
    },
    /// A quote that does not end.
    #[error("unterminated quoted string in connection info string")]
    UnterminatedQuote,
    /// No such parameter.
    #[error("invalid connection option \"{name}\"")]
    UnknownOption {
        /// Its name.
        name: String,
    },
    /// No such parameter, in a URI.
    #[error("invalid URI query parameter: \"{name}\"")]
    UnknownUriParameter {
        /// Its name.
        name: String,
    },
    /// A query parameter without a value.
    #[error("missing key/value separator \"=\" in URI query parameter: \"{name}\"")]
    MissingSeparator {
        /// Its name.
        name: String,
    },
    /// A query parameter with two of them.
    #[error("extra key/value separator \"=\" in URI query parameter: \"{name}\"")]
    ExtraSeparator {
        /// Its name.
        name: String,
    },
    /// A bracket that does not end.
    #[error("end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"{uri}\"")]
    UnterminatedAddress {
        /// The URI, password left out.
        uri: String,
    },
    /// Brackets around nothing.
    #[error("IPv6 host address may not be empty in URI: \"{uri}\"")]
    EmptyAddress {
        /// The URI, password left out.
        uri: String,
    },
    /// Something else where a port or a path should begin.
    #[error("unexpected character \"{found}\" in URI (expected \":\" or \"/\"): \"{uri}\"")]
    UnexpectedCharacter {
        /// What stands there.
        found: char,
        /// The URI, password left out.
        uri: String,
    },
    /// A `%` without two hexadecimal digits that make text.
    #[error("invalid percent-encoded token: \"{token}\"")]
    PercentEncoding {
        /// The part of the URI.
        token: String,
    },
    /// `%00`.
    #[error("forbidden value %00 in percent-encoded value: \"{token}\"")]
    PercentZero {
        /// The part of the URI.
        token: String,
    },
    /// A parameter has a value that it cannot have.
    #[error("invalid {name} value: \"{value}\"")]
    InvalidValue {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A parameter that protects something this program cannot protect.
    #[error("connection option \"{name}\" is not supported here")]
    Unsupported {
        /// The parameter.
        name: &'static str,
    },
    /// Lists of different lengths.
    #[error("could not match {found} {what} to {hosts} hosts")]
    Mismatch {
        /// `port numbers` or `hostaddr values`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many hosts there are.
        hosts: usize,
    },
    /// No such service.
    #[error("definition of service \"{service}\" not found")]
    ServiceNotFound {
        /// Its name.
        service: String,
    },
    /// The service file that was named is not there.
    #[error("service file \"{}\" not found", shown(.path))]
    ServiceFileNotFound {
        /// The file.
        path: PathBuf,
    },
    /// A line of a service file that cannot be read.
    #[error("syntax error in service file \"{}\", line {line}", shown(.path))]
    ServiceSyntax {
        /// The file.
        path: PathBuf,
        /// Counts from 1.
        line: usize,
    },
    /// A service that names a service.
    #[error("nested \"service\" specifications not supported in service file \"{}\", line {line}", shown(.path))]
    NestedService {
        /// The file.
        path: PathBuf,
        /// Counts from 1.
        line: usize,
    },
    /// A file could not be read.
    #[error("could not read file \"{}\": {source}", shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody knows who runs this.
    #[error("local user with ID {uid} does not exist")]
    NoUser {
        /// The effective user.
        uid: u32,
    },
    /// sslmode=verify-… without a root certificate.
    #[error("root certificate file \"{}\" does not exist", shown(.path))]
    NoRootCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A certificate or a key could not be understood.
    #[error("could not load {what} file \"{}\": {source}", shown(.path))]
    Pem {
        /// `certificate`, `private key`, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// A file without a certificate in it.
    #[error("could not read root certificate file \"{}\": no certificate found", shown(.path))]
    NoCertificateInside {
        /// The file.
        path: PathBuf,
    },
    /// A certificate without its key.
    #[error("certificate present, but not private key file \"{}\"", shown(.path))]
    NoKey {
        /// The key's file.
        path: PathBuf,
    },
    /// A key that others can read.
    #[error("private key file \"{}\" has group or world access", shown(.path))]
    KeyPermissions {
        /// The key's file.
        path: PathBuf,
    },
    /// The certificates do not make a TLS configuration.
    #[error("could not initialize TLS: {0}")]
    Tls(#[source] rustls::Error),
    /// The root or revocation certificates cannot be used.
    #[error("could not initialize TLS: {0}")]
    Verifier(#[source] rustls::client::VerifierBuilderError),
}

impl ConninfoError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoRootCertificate { .. } => Some(
                "provide the file, use the system's trusted roots with sslrootcert=system, or change sslmode to \
                 disable server certificate verification",
            ),
            Self::KeyPermissions { .. } => Some(
                "file must have permissions u=rw (0600) or less if owned by the current user, or permissions \
                 u=rw,g=r (0640) or less if owned by root",
            ),
            Self::Unsupported { .. } => Some("leave it out for this program, or unset its variable"),
            _ => None,
        }
    }
}

//! What the parameters say of encryption: the mode and the files, not yet read.

use std::path::PathBuf;

use super::{ConninfoError, Surroundings, Values};

/// How much encryption and identity are worth, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted only where the server insists.
    Allow,
    /// Encrypted where the server can.
    Prefer,
    /// Encrypted; the certificate's authority is verified where a root certificate is there.
    Require,
    /// Encrypted, the authority verified.
    VerifyCa,
    /// Encrypted, authority and name verified.
    VerifyFull,
}

/// Whether a client certificate is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertMode {
    /// Never.
    Disable,
    /// Where there is one and the server asks.
    Allow,
    /// There must be one.
    Require,
}

/// Encryption as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsWish {
    /// The mode.
    pub mode: SslMode,
    /// TLS from the first byte (servers from 17).
    pub direct: bool,
    /// Certificates of authorities; `None` for the system's.
    pub root: Option<PathBuf>,
    /// Certificates that were withdrawn.
    pub revoked: Option<PathBuf>,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whether it is sent.
    pub certificate_mode: CertMode,
    /// Whether the server's name is sent in the clear.
    pub send_name: bool,
    /// Which versions may be used.
    pub versions: Versions,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// 1.2 and 1.3.
    Both,
    /// 1.2.
    Only12,
    /// 1.3.
    Only13,
}

const MODES: &[(&str, SslMode)] = &[
    ("prefer", SslMode::Prefer),
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

const CERT_MODES: &[(&str, CertMode)] =
    &[("allow", CertMode::Allow), ("disable", CertMode::Disable), ("require", CertMode::Require)];

/// Versions below 1.2 are not spoken here, so they mean 1.2.
const FIRST_VERSION: &[(&str, bool)] =
    &[("TLSv1.2", true), ("TLSv1", true), ("TLSv1.1", true), ("TLSv1.3", false)];

const LAST_VERSION: &[(&str, bool)] = &[("TLSv1.3", true), ("TLSv1.2", false)];

impl TlsWish {
    pub(super) fn read(values: &Values, around: &Surroundings<'_>) -> Result<Self, ConninfoError> {
        let beside = |name: &str| around.home.clone().unwrap_or_default().join(".postgresql").join(name);
        let path =
            |name: &str, default: &str| values.get(name).map_or_else(|| beside(default), PathBuf::from);
        let system_roots = values.get("sslrootcert") == Some("system");
        let direct = values.choice("sslnegotiation", &[("postgres", false), ("direct", true)])?;
        let mut mode = values.choice("sslmode", MODES)?;
        if system_roots && values.get("sslmode").is_none() {
            mode = SslMode::VerifyFull;
        }
        // A public authority certifies everybody, and a weak mode would take a server without TLS: libpq refuses both.
        if (system_roots && mode != SslMode::VerifyFull) || (direct && mode < SslMode::Require) {
            let value = values.get("sslmode").unwrap_or("prefer").to_owned();
            return Err(ConninfoError::InvalidValue { name: "sslmode", value });
        }
        let first_is_12 = values.choice("ssl_min_protocol_version", FIRST_VERSION)?;
        let last_is_13 = values.choice("ssl_max_protocol_version", LAST_VERSION)?;
        let versions = match (first_is_12, last_is_13) {
            (true, true) => Versions::Both,
            (true, false) => Versions::Only12,
            (false, true) => Versions::Only13,
            (false, false) => {
                let (name, value) = ("ssl_max_protocol_version", "TLSv1.2".to_owned());
                return Err(ConninfoError::InvalidValue { name, value });
            }
        };
        let revoked = path("sslcrl", "root.crl");
        Ok(Self {
            mode,
            direct,
            root: (!system_roots).then(|| path("sslrootcert", "root.crt")),
            revoked: revoked.exists().then_some(revoked),
            certificate: path("sslcert", "postgresql.crt"),
            key: path("sslkey", "postgresql.key"),
            certificate_mode: values.choice("sslcertmode", CERT_MODES)?,
            send_name: values.choice("sslsni", &[("1", true), ("0", false)])?,
            versions,
        })
    }
}

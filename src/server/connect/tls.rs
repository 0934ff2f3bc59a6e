//! TLS as libpq does it: a verifier of our own over rustls, for the modes between "any certificate" and "this authority
//! and this name".

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};

use super::names;
use crate::server::conninfo::{CertMode, ConninfoError, SslMode, TlsWish, Versions};

/// Where OpenSSL as distributions build it keeps the authorities everybody trusts.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How to encrypt, from the files as they are now.
pub fn configuration(wish: &TlsWish) -> Result<ClientConfig, ConninfoError> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match wish.versions {
        Versions::Both => &[&version::TLS13, &version::TLS12],
        Versions::Only12 => &[&version::TLS12],
        Versions::Only13 => &[&version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(ConninfoError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(wish, provider)?));
    let mut configuration = match client_certificate(wish)? {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(ConninfoError::Tls)?,
        None => builder.with_no_client_auth(),
    };
    configuration.enable_sni = wish.send_name;
    configuration.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(configuration)
}

type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate(wish: &TlsWish) -> Result<Option<ClientCertificate>, ConninfoError> {
    let wanted = match wish.certificate_mode {
        CertMode::Disable => false,
        CertMode::Allow => wish.certificate.exists(),
        CertMode::Require => true,
    };
    if !wanted {
        return Ok(None);
    }
    let chain = certificates(&wish.certificate, "certificate")?;
    if !wish.key.exists() {
        return Err(ConninfoError::NoKey { path: wish.key.clone() });
    }
    check_key_permissions(&wish.key)?;
    let key = PrivateKeyDer::from_pem_file(&wish.key).map_err(|source| ConninfoError::Pem {
        what: "private key",
        path: wish.key.clone(),
        source,
    })?;
    Ok(Some((chain, key)))
}

/// As libpq: 0600 or less, or 0640 or less if root owns it.
fn check_key_permissions(path: &Path) -> Result<(), ConninfoError> {
    let found =
        fs::metadata(path).map_err(|source| ConninfoError::Read { path: path.to_path_buf(), source })?;
    let forbidden = if found.uid() == 0 { 0o037 } else { 0o077 };
    if found.mode() & forbidden != 0 {
        return Err(ConninfoError::KeyPermissions { path: path.to_path_buf() });
    }
    Ok(())
}

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, ConninfoError> {
    let at = |source| ConninfoError::Pem { what, path: path.to_path_buf(), source };
    CertificateDer::pem_file_iter(path).map_err(at)?.collect::<Result<_, _>>().map_err(at)
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Absent where no root certificate is there and none is needed: any certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    roots: Vec<CertificateDer<'static>>,
    names_matter: bool,
}

impl Verifier {
    fn new(wish: &TlsWish, provider: Arc<CryptoProvider>) -> Result<Self, ConninfoError> {
        let path = wish.root.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_ROOTS));
        let names_matter = wish.mode == SslMode::VerifyFull;
        if !path.exists() {
            if wish.mode >= SslMode::VerifyCa {
                return Err(ConninfoError::NoRootCertificate { path });
            }
            return Ok(Self { provider, chain: None, roots: Vec::new(), names_matter });
        }
        let roots = certificates(&path, "root certificate")?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(roots.iter().cloned());
        if added == 0 {
            return Err(ConninfoError::NoCertificateInside { path });
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
            .with_crls(revoked(wish)?)
            .allow_unknown_revocation_status()
            .build()
            .map_err(ConninfoError::Verifier)?;
        Ok(Self { provider, chain: Some(chain), roots, names_matter })
    }

    /// Whether the name is the certificate's: its alternative names, and where it has none, as libpq, its common name.
    fn check_name(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<ServerCertVerified, Error> {
        if !self.names_matter {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        match rustls::client::verify_server_name(&parsed, name) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented, ..
            })) if presented.is_empty()
                && names::common_name(certificate)
                    .is_some_and(|common| names::matches(&common, &name.to_str())) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            checked => checked.map(|()| ServerCertVerified::assertion()),
        }
    }
}

fn revoked(wish: &TlsWish) -> Result<Vec<CertificateRevocationListDer<'static>>, ConninfoError> {
    let Some(path) = &wish.revoked else { return Ok(Vec::new()) };
    let at = |source| ConninfoError::Pem { what: "certificate revocation list", path: path.clone(), source };
    CertificateRevocationListDer::pem_file_iter(path).map_err(at)?.collect::<Result<_, _>>().map_err(at)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError as Wrong;
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The chain is verified before the name, and the dates before the rest of the chain.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. })) => {
                self.check_name(end_entity, server_name)
            }
            Err(
                expired @ Error::InvalidCertificate(
                    Wrong::Expired
                    | Wrong::ExpiredContext { .. }
                    | Wrong::NotValidYet
                    | Wrong::NotValidYetContext { .. }
                    | Wrong::Revoked,
                ),
            ) => Err(expired),
            // libpq takes a self-signed certificate as its own authority; rustls does not, for its owner signs as one.
            Err(_) if self.roots.iter().any(|root| root == end_entity) => {
                self.check_name(end_entity, server_name)
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

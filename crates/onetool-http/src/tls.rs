//! TLS with a certificate and a key in PEM files.
//!
//! The files are checked every few seconds; when they have changed, new connections get the new certificate and open
//! ones continue. Broken files change nothing: the last good certificate stays, and the log says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Poll interval for the files.
const LOOK: Duration = Duration::from_secs(2);
/// Maximum size of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The section `server.tls` of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Why a server cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("server.tls needs both 'certificate' and 'key'\nhint: name two PEM files")]
    Incomplete,
    #[error("cannot read server.tls.{key} {path}: {reason}\nhint: {hint}")]
    File { key: &'static str, path: PathBuf, reason: String, hint: &'static str },
    #[error(
        "server.tls: the key {key} does not belong to the certificate {certificate}: {reason}\nhint: the certificate of the server itself comes first in the file, then those that signed it"
    )]
    Mismatch { certificate: PathBuf, key: PathBuf, reason: String },
    #[error("TLS can't be set up: {0}")]
    Setup(rustls::Error),
}

/// Accepts TLS connections.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    settings: TlsSettings,
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

/// Contents of the files, to detect changes.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the files; they must be valid.
    pub(crate) fn open(settings: TlsSettings) -> Result<Self, TlsError> {
        if settings.certificate.as_os_str().is_empty() || settings.key.as_os_str().is_empty() {
            return Err(TlsError::Incomplete);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = Arc::new(Current(RwLock::new(certified(&settings, &read(&settings)?, &provider)?)));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current, settings })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    /// Follows changes to the files until the server stops.
    pub(crate) async fn follow(self, stop: CancellationToken) {
        let provider = rustls::crypto::ring::default_provider();
        let mut seen = read(&self.settings).ok();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            let settings = self.settings.clone();
            let Ok(now) = crate::task::blocking(move || read(&settings)).await else { continue };
            let read = match now {
                Ok(contents) if Some(&contents) == seen.as_ref() => continue,
                Ok(contents) => {
                    let outcome = certified(&self.settings, &contents, &provider);
                    seen = Some(contents);
                    outcome
                }
                // Logged once, until the files can be read again.
                Err(_) if seen.is_none() => continue,
                Err(error) => {
                    seen = None;
                    Err(error)
                }
            };
            match read {
                Ok(key) => {
                    *self.current.0.write() = key;
                    tracing::info!(certificate = %self.settings.certificate.display(), "the certificate was replaced");
                }
                Err(error) => tracing::error!(%error, "the certificate in use stays"),
            }
        }
    }
}

fn read(settings: &TlsSettings) -> Result<Contents, TlsError> {
    Ok(Contents {
        certificate: read_file("certificate", &settings.certificate)?,
        key: read_file("key", &settings.key)?,
    })
}

fn read_file(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    const HINT: &str = "the file must exist and be readable for the user that runs onetool";
    let failed = |reason: String| TlsError::File { key, path: path.to_owned(), reason, hint: HINT };
    let found = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(failed("it is not a PEM file".to_owned()));
    }
    std::fs::read(path).map_err(|error| failed(error.to_string()))
}

fn certified(
    settings: &TlsSettings,
    contents: &Contents,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |key, path: &Path, reason: String, hint| TlsError::File { key, path: path.to_owned(), reason, hint };
    let of_certificate = |reason: String| {
        wrong("certificate", &settings.certificate, reason, "it must hold PEM blocks 'BEGIN CERTIFICATE'")
    };
    let chain = CertificateDer::pem_slice_iter(&contents.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| of_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(of_certificate("it holds no certificate".to_owned()));
    }
    let of_key = |reason: String| {
        wrong("key", &settings.key, reason, "it must hold one PEM block 'BEGIN PRIVATE KEY', without a passphrase")
    };
    let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| of_key(error.to_string()))?;
    match CertifiedKey::from_der(chain, key, provider) {
        Ok(key) => Ok(Arc::new(key)),
        Err(error @ (rustls::Error::InconsistentKeys(_) | rustls::Error::InvalidCertificate(_))) => {
            Err(TlsError::Mismatch {
                certificate: settings.certificate.clone(),
                key: settings.key.clone(),
                reason: error.to_string(),
            })
        }
        Err(error) => Err(of_key(error.to_string())),
    }
}

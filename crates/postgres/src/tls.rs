//! From a URL to a way of connecting: TLS, and noticing a dead peer.
//!
//! `sslmode` says whether: `disable`, `prefer` (the default), `require`. `require`, `verify-ca` and `verify-full` mean
//! the same here: the certificate must be for that host, and signed by an authority of the system's or by one in the
//! file that `sslrootcert` names. `prefer` promises nothing, as with every PostgreSQL client: whoever could forge a
//! certificate could as well say that there is no TLS. So it takes any certificate, unless `sslrootcert` is given.

use crate::error::OpenError;
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// After how long without a word a peer is asked whether it is still there, and how often before it is given up.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);
/// How long sent bytes may stay unacknowledged.
const UNHEARD: Duration = Duration::from_secs(30);

/// How to reach a server.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl Route {
    /// The way to the server that `url` names, under this name in `pg_stat_activity`.
    pub(crate) fn to(url: &str, name: &str) -> Result<Self, OpenError> {
        let (url, roots) = split(url)?;
        let mut config: Config =
            url.parse().map_err(|e: tokio_postgres::Error| OpenError::Url(reason(&e)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(OpenError::Url("it names no host".into()));
        }
        config.application_name(name);
        // Where the URL says nothing; the client's own default is two hours of silence.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config
                .keepalives_idle(KEEPALIVE.0)
                .keepalives_interval(KEEPALIVE.1)
                .keepalives_retries(KEEPALIVE.2);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNHEARD);
        }
        let checked = roots.is_some() || config.get_ssl_mode() != SslMode::Prefer;
        let tls = if checked { verified(roots.as_deref())? } else { unverified()? };
        Ok(Self { config, tls: MakeRustlsConnect::new(tls) })
    }
}

/// The URL without what the client library does not know, and the file of `sslrootcert`.
fn split(url: &str) -> Result<(String, Option<String>), OpenError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let (mut kept, mut roots) = (Vec::new(), None);
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) => {
                let path = percent_decode_str(path).decode_utf8();
                let path = path.map_err(|_| OpenError::Url("sslrootcert is not UTF-8".into()))?;
                roots = Some(path.into_owned()).filter(|p| p != "system");
            }
            Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
            Some(("sslmode", "allow")) => kept.push("sslmode=prefer"),
            _ => kept.push(pair),
        }
    }
    let query = kept.join("&");
    Ok((if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") }, roots))
}

/// Why a URL is not one: the library's own words name only the kind of trouble.
fn reason(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}

/// Certificates are checked, against those in a file or the system's.
fn verified(file: Option<&str>) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = file {
        let unreadable =
            |why: &dyn std::fmt::Display| OpenError::RootCertificate(path.into(), why.to_string());
        for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(&e))? {
            let certificate = certificate.map_err(|e| unreadable(&e))?;
            roots.add(certificate).map_err(|e| unreadable(&e))?;
        }
        if roots.is_empty() {
            return Err(unreadable(&"there is no certificate in it"));
        }
    } else {
        // A certificate that rustls cannot read cannot sign our server's either.
        for certificate in rustls_native_certs::load_native_certs().certs {
            let _ = roots.add(certificate);
        }
    }
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}

/// Encrypted towards whoever answers.
fn unverified() -> Result<ClientConfig, OpenError> {
    let anyone = Arc::new(Anyone(provider()));
    Ok(builder()?.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, OpenError> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| OpenError::Failed(e.to_string()))
}

/// Takes any certificate, as `sslmode=prefer` means.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

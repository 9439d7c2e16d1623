//! The cloud's CA and the server's certificate.
//!
//! The CA is made at the first start and kept in `DIR/tls/ca.pem` and `ca.key` (0600); it is never replaced here, because
//! clients trust it by file. The server's key exists only in memory: a certificate for it is signed at every start and
//! again at two thirds of its life, and handed to new connections without closing old ones. The CA's name carries a
//! digest of its key, so that the CAs of several clouds in one trust store are told apart.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};

use crate::error::GatewayError;
use crate::limits::{CA_DAYS, CERTIFICATE_DAYS, CERTIFICATE_RENEW_DAYS};

/// Certificates begin this long before now, for clients whose clock is behind.
const BACKDATED: Duration = Duration::hours(24);

/// The CA of this cloud.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate, as clients need it.
    pub(crate) pem: String,
    /// Where clients find it.
    pub(crate) path: PathBuf,
}

impl Authority {
    /// Opens the CA in `dir` (`DIR/tls`), or makes it if neither of its files exists.
    pub(crate) fn open(dir: &Path, now: OffsetDateTime) -> Result<Self, GatewayError> {
        let (path, key_path) = (dir.join("ca.pem"), dir.join("ca.key"));
        match (read(&path, false)?, read(&key_path, true)?) {
            (Some(pem), Some(key)) => {
                let key = KeyPair::from_pem(&key)?;
                let issuer = Issuer::new(ca_params(&key), key);
                Ok(Self { issuer, pem, path })
            }
            (None, None) => Self::create(dir, path, &key_path, now),
            (None, Some(_)) => Err(GatewayError::HalfCa { missing: path }),
            (Some(_), None) => Err(GatewayError::HalfCa { missing: key_path }),
        }
    }

    fn create(dir: &Path, path: PathBuf, key_path: &Path, now: OffsetDateTime) -> Result<Self, GatewayError> {
        let failed = |source| GatewayError::File {
            attempted: "create",
            path: dir.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)
            .map_err(failed)?;
        let key = KeyPair::generate()?;
        let mut params = ca_params(&key);
        params.not_before = now - BACKDATED;
        params.not_after = now + Duration::days(CA_DAYS);
        let pem = params.self_signed(&key)?.pem();
        // The certificate goes last: a start that was cut off before it is seen as half a CA only if the key is
        // there, and that key has signed nothing; it is named in the error.
        write(key_path, &key.serialize_pem(), 0o600)?;
        write(&path, &pem, 0o644)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
            path,
        })
    }

    /// A fresh key with a certificate for `names`, and the time from which it should be renewed.
    fn issue(
        &self,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<(CertifiedKey, OffsetDateTime), GatewayError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = common_name("Spinifex API");
        params.not_before = now - BACKDATED;
        params.not_after = now + Duration::days(CERTIFICATE_DAYS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let signing = rustls::crypto::ring::sign::any_ecdsa_type(&private.into())?;
        let renew_at = now + Duration::days(CERTIFICATE_DAYS - CERTIFICATE_RENEW_DAYS);
        Ok((
            CertifiedKey::new(vec![certificate.der().clone()], signing),
            renew_at,
        ))
    }
}

/// The parts of the CA's certificate that follow from its key alone.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let digest = aws_wire::sigv4::canonical::hex_sha256(key.public_key_raw());
    params.distinguished_name = common_name(&format!("Spinifex CA {}", &digest[..12]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut dn = DistinguishedName::new();
    dn.push(DnType::CommonName, name);
    dn
}

fn read(path: &Path, secret: bool) -> Result<Option<String>, GatewayError> {
    let failed = |source| GatewayError::File {
        attempted: "read",
        path: path.to_owned(),
        source,
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o7777;
    if secret && mode & 0o177 != 0 {
        return Err(GatewayError::Mode {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(Some(text))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), GatewayError> {
    let failed = |source| GatewayError::File {
        attempted: "create",
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// The certificate that new connections get.
#[derive(Debug)]
pub(crate) struct ServerCertificate {
    current: RwLock<(Arc<CertifiedKey>, OffsetDateTime)>,
    names: Vec<String>,
}

impl ServerCertificate {
    /// Signs the first one, for `names` (host names and addresses).
    pub(crate) fn new(
        authority: &Authority,
        names: Vec<String>,
        now: OffsetDateTime,
    ) -> Result<Self, GatewayError> {
        let (key, renew_at) = authority.issue(&names, now)?;
        Ok(Self {
            current: RwLock::new((Arc::new(key), renew_at)),
            names,
        })
    }

    /// Replaces it if its time for renewal has come.
    pub(crate) fn renew_if_due(
        &self,
        authority: &Authority,
        now: OffsetDateTime,
    ) -> Result<bool, GatewayError> {
        if now < self.current.read().unwrap_or_else(PoisonError::into_inner).1 {
            return Ok(false);
        }
        let (key, renew_at) = authority.issue(&self.names, now)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (Arc::new(key), renew_at);
        Ok(true)
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(
            &self.current.read().unwrap_or_else(PoisonError::into_inner).0,
        ))
    }
}

/// TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1.
pub(crate) fn server_config(certificate: Arc<ServerCertificate>) -> Result<ServerConfig, GatewayError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use time::{Duration, OffsetDateTime};

    use super::{Authority, GatewayError, ServerCertificate};

    #[test]
    fn the_ca_is_made_once_and_its_key_is_guarded() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = OffsetDateTime::now_utc();
        let tls = dir.path().join("tls");
        let first = Authority::open(&tls, now).expect("made");
        let mode = fs::metadata(tls.join("ca.key"))
            .expect("the key")
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, 0o600);
        let again = Authority::open(&tls, now).expect("found");
        assert_eq!(first.pem, again.pem);

        fs::set_permissions(tls.join("ca.key"), fs::Permissions::from_mode(0o644)).expect("chmod");
        assert!(matches!(
            Authority::open(&tls, now),
            Err(GatewayError::Mode { mode: 0o644, .. })
        ));
        fs::remove_file(tls.join("ca.key")).expect("removed");
        assert!(matches!(
            Authority::open(&tls, now),
            Err(GatewayError::HalfCa { .. })
        ));
    }

    #[test]
    fn the_certificate_is_renewed_at_two_thirds() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = OffsetDateTime::now_utc();
        let authority = Authority::open(dir.path(), now).expect("made");
        let certificate = ServerCertificate::new(&authority, vec!["localhost".into()], now).expect("signed");
        let current = || Arc::clone(&certificate.current.read().expect("not poisoned").0);
        let first = current();
        assert!(
            !certificate
                .renew_if_due(&authority, now + Duration::days(59))
                .expect("not due")
        );
        assert!(Arc::ptr_eq(&first, &current()));
        assert!(
            certificate
                .renew_if_due(&authority, now + Duration::days(60))
                .expect("renewed")
        );
        assert!(!Arc::ptr_eq(&first, &current()));
    }
}

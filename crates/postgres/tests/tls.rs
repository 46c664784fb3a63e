//! Encrypted connections: who is trusted, who is refused, and with which words.

mod support;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use support::cluster::{Cluster, folder};
use support::{hand, until, wait_for};
use windlass_postgres::{OpenError, PostgresStore};

/// An authority, made on the spot.
fn authority(folder: &Path, name: &str) -> (Issuer<'static, KeyPair>, PathBuf) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let path = folder.join(format!("{name}.pem"));
    std::fs::write(&path, params.self_signed(&key).expect("a certificate").pem()).expect("a file");
    (Issuer::new(params, key), path)
}

/// A server whose certificate is for `localhost`, and the files of two authorities: its own and a stranger.
fn server() -> (Cluster, PathBuf, PathBuf) {
    let folder = folder();
    let (issuer, own) = authority(&folder, "own");
    let (_, stranger) = authority(&folder, "stranger");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let (certificate_file, key_file) = (folder.join("server.crt"), folder.join("server.key"));
    std::fs::write(&certificate_file, certificate.pem()).expect("a file");
    // PostgreSQL takes no key that others can read.
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(0o600).open(&key_file).expect("a file");
    std::io::Write::write_all(&mut file, key.serialize_pem().as_bytes()).expect("a key");
    let settings = [
        "fsync=off".to_owned(),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate_file.display()),
        format!("ssl_key_file={}", key_file.display()),
    ];
    let cluster = Cluster::start_on_port_in(folder, &settings.each_ref().map(String::as_str));
    (cluster, own, stranger)
}

fn url(cluster: &Cluster, host: &str, query: &str) -> String {
    format!("postgres://windlass@{host}:{}/postgres?{query}", cluster.port())
}

fn roots(file: &Path) -> String {
    format!("sslrootcert={}", file.display().to_string().replace('/', "%2F"))
}

async fn refused(url: &str) -> String {
    match PostgresStore::open(url).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} was opened"),
    }
}

/// (operations): a server is trusted if its certificate is for its name and signed by a trusted authority.
#[test]
fn certificates_are_checked() {
    wait_for(async {
        let (cluster, own, stranger) = server();
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = url(&cluster, "localhost", &format!("sslmode={mode}&{}", roots(&own)));
            let store = PostgresStore::open(&url).await.expect("a store");
            until("notifications arrive", async || store.listening()).await;
            let encrypted = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FROM pg_stat_ssl s \
                JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'windlass%'";
            let row = hand(&cluster.url()).await.query_one(encrypted, &[]).await.expect("counts");
            let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
            assert!(encrypted == all && all >= 2, "{encrypted} of {all} connections are encrypted");
        }
        let strange =
            refused(&url(&cluster, "localhost", &format!("sslmode=require&{}", roots(&stranger)))).await;
        assert!(strange.contains("UnknownIssuer") && strange.contains("sslrootcert=FILE"), "{strange}");
        let unknown = refused(&url(&cluster, "localhost", "sslmode=verify-full")).await;
        assert!(unknown.contains("UnknownIssuer") && unknown.contains("sslrootcert=FILE"), "{unknown}");
        let misnamed =
            refused(&url(&cluster, "127.0.0.1", &format!("sslmode=require&{}", roots(&own)))).await;
        assert!(misnamed.contains("not valid for name"), "{misnamed}");
    });
}

/// (operations): without a word about TLS a connection is encrypted where the server can, and nothing is promised.
#[test]
fn without_a_word_it_is_encrypted_where_it_can_be() {
    wait_for(async {
        let (cluster, own, stranger) = server();
        for host in ["localhost", "127.0.0.1"] {
            let store = PostgresStore::open(&url(&cluster, host, "")).await.expect("a store");
            let encrypted = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s \
                JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'windlass'";
            let row = hand(&cluster.url()).await.query_one(encrypted, &[]).await.expect("an answer");
            assert!(row.get::<_, bool>(0), "encrypted");
            drop(store);
        }
        // Whoever names an authority means it.
        PostgresStore::open(&url(&cluster, "localhost", &roots(&own))).await.expect("a store");
        let strange = refused(&url(&cluster, "localhost", &roots(&stranger))).await;
        assert!(strange.contains("UnknownIssuer"), "{strange}");
    });
}

/// (operations): what cannot be is said plainly.
#[test]
fn what_cannot_be_encrypted_is_refused() {
    wait_for(async {
        let cluster = Cluster::start_on_port(&["fsync=off"]);
        let none = refused(&url(&cluster, "localhost", "sslmode=require")).await;
        assert!(none.contains("server does not support TLS"), "{none}");
        let missing = "postgres://windlass@localhost/postgres?sslrootcert=%2Fno%2Fsuch.pem";
        let refusal = PostgresStore::open(missing).await.expect_err("there is no such file");
        assert!(
            matches!(&refusal, OpenError::RootCertificate(path, _) if path == "/no/such.pem"),
            "{refusal}"
        );
        let mode = refused("postgres://windlass@localhost/postgres?sslmode=perhaps").await;
        assert!(mode.contains("sslmode"), "{mode}");
    });
}

//! Signs requests as AWS Signature Version 4 says for S3: the one part that every S3-compatible server asks for.

use crate::settings::Environment;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use windlass_core::lease::hex;

/// How requests are signed, as their headers name it.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Who asks, from the usual variables.
#[derive(Clone)]
pub struct Credentials {
    key_id: String,
    secret: String,
    /// Goes with a key that is valid for a while only.
    pub session: Option<String>,
}

impl Credentials {
    /// From `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, for a key that ends, `AWS_SESSION_TOKEN`.
    pub fn from_environment(env: Environment<'_>) -> Option<Self> {
        let (key_id, secret) = (env("AWS_ACCESS_KEY_ID")?, env("AWS_SECRET_ACCESS_KEY")?);
        Some(Self { key_id, secret, session: env("AWS_SESSION_TOKEN") })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.key_id)
    }
}

/// What of a request is signed.
#[derive(Debug)]
pub struct Signed<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, percent-encoded as it is sent.
    pub path: &'a str,
    /// The query, percent-encoded and sorted as it is sent.
    pub query: &'a str,
    /// Headers, their names in lower case.
    pub headers: Vec<(&'a str, &'a str)>,
    /// The SHA-256 of the body, in hex.
    pub body: &'a str,
}

impl Signed<'_> {
    /// The header `authorization` for a request at a time such as `20130524T000000Z`.
    pub fn authorization(&self, credentials: &Credentials, region: &str, at: &str) -> String {
        let mut headers = self.headers.clone();
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let Self { method, path, query, body, .. } = self;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body}");
        let day = at.split('T').next().unwrap_or(at);
        let scope = format!("{day}/{region}/s3/aws4_request");
        let text = format!("{ALGORITHM}\n{at}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let secret = format!("AWS4{}", credentials.secret).into_bytes();
        let key = [day, region, "s3", "aws4_request"].iter().fold(secret, |key, part| mac(&key, part));
        let signature = hex(&mac(&key, &text));
        let key_id = &credentials.key_id;
        format!("{ALGORITHM} Credential={key_id}/{scope},SignedHeaders={names},Signature={signature}")
    }
}

/// The SHA-256 of some bytes, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length is accepted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Amazon's "Authenticating Requests: Using the Authorization Header", with their signatures.
    #[test]
    fn requests_are_signed_as_in_the_published_examples() {
        let env = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("AKIAIOSFODNN7EXAMPLE".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
            _ => None,
        };
        let credentials = Credentials::from_environment(&env).unwrap();
        assert!(!format!("{credentials:?}").contains("wJalr"), "a secret is not shown");
        let (nothing, welcome) = (sha256(b""), sha256(b"Welcome to Amazon S3."));
        let signature = |method, path, query, more: &[(&'static str, &'static str)], body: &str| {
            let at = "20130524T000000Z";
            let host = ("host", "examplebucket.s3.amazonaws.com");
            let headers = [&[host, ("x-amz-content-sha256", body), ("x-amz-date", at)], more].concat();
            let signed = Signed { method, path, query, headers, body };
            let header = signed.authorization(&credentials, "us-east-1", at);
            let known =
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,";
            assert!(header.starts_with(known), "{header}");
            header.rsplit('=').next().unwrap().to_owned()
        };
        assert_eq!(
            signature("GET", "/test.txt", "", &[("range", "bytes=0-9")], &nothing),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let more = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        assert_eq!(
            signature("PUT", "/test%24file.text", "", &more, &welcome),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        assert_eq!(
            signature("GET", "/", "lifecycle=", &[], &nothing),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("GET", "/", "max-keys=2&prefix=J", &[], &nothing),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    /// Without both variables nobody asks.
    #[test]
    fn half_a_key_is_none() {
        let env = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "AKIA".to_owned());
        assert!(Credentials::from_environment(&env).is_none());
    }
}

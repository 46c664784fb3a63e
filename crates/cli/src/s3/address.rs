//! Where an archive is in an object store: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&timeout=30s`.

use crate::settings::{Environment, masked};
use reqwest::Url;
use std::time::Duration;
use windlass_core::limits::Invalid;
use windlass_core::span::parse_ms;

/// How long a server may be silent, unless the address says otherwise.
const TIMEOUT_MS: i64 = 30_000;
/// What an address looks like.
const FORM: &str = "must be a folder, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME&timeout=30s";
/// The region where nobody names one; servers other than Amazon's usually accept it.
const REGION: &str = "us-east-1";

/// A bucket, what its objects begin with, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The bucket.
    pub bucket: String,
    /// What every key begins with: nothing, or a path that ends with a slash.
    pub prefix: String,
    /// The server, without a slash at its end.
    pub endpoint: Url,
    /// The region that requests are signed for.
    pub region: String,
    /// How long the server may be silent.
    pub timeout: Duration,
}

impl Address {
    /// Whether a text names an object store and no folder.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("s3:") || text.contains("://")
    }

    /// Reads an address; what it leaves out comes from the usual variables.
    pub fn parse(text: &str, env: Environment<'_>) -> Result<Self, Invalid> {
        // Whatever stands behind the prefix may hold what nobody else should read.
        let shown = text.split('?').next().unwrap_or_default();
        let wrong = |why: &str| {
            // Only where a server is named is it known what its password is.
            let (scheme, rest) = shown.split_once(':').unwrap_or((shown, ""));
            let told = if rest.starts_with("//") { masked(shown) } else { format!("{scheme}:…") };
            Invalid::new("archive", told, why)
        };
        let url = Url::parse(text).map_err(|_| wrong(FORM))?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.port().is_none();
        if url.scheme() != "s3" || !is_bare || url.fragment().is_some() {
            return Err(wrong(FORM));
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_plain) {
            return Err(wrong("must name a bucket: 3 to 63 lower-case letters, digits, dots and dashes"));
        }
        // As it was typed: a URL has lost its dots by now.
        let path =
            shown.strip_prefix("s3://").and_then(|rest| rest.split_once('/')).map_or("", |(_, path)| path);
        let path = path.trim_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let is_dots = |part: &str| part.is_empty() || part.starts_with('.');
        if !path.is_empty() && (!path.chars().all(is_plain) || path.split('/').any(is_dots)) {
            return Err(wrong("must have a prefix of letters, digits, dashes, dots and underscores"));
        }
        let (mut endpoint, mut region, mut timeout_ms) = (None, None, None);
        for (name, value) in url.query_pairs() {
            let place = match &*name {
                "endpoint" => &mut endpoint,
                "region" => &mut region,
                "timeout" => &mut timeout_ms,
                _ => return Err(wrong("may say endpoint, region and timeout, and nothing else")),
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(wrong("may say each of endpoint, region and timeout once"));
            }
        }
        let timeout_ms =
            timeout_ms.map(|value| parse_ms("timeout", &value)).transpose()?.unwrap_or(TIMEOUT_MS);
        if !(100..=600_000).contains(&timeout_ms) {
            return Err(wrong("must have a timeout of 100ms to 10m"));
        }
        let region = region.or_else(|| env("AWS_REGION")).or_else(|| env("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if region.is_empty() || !region.chars().all(is_plain) {
            return Err(wrong("must have a region like eu-central-1"));
        }
        let endpoint = endpoint.or_else(|| env("AWS_ENDPOINT_URL_S3")).or_else(|| env("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        Ok(Self {
            bucket,
            prefix: if path.is_empty() { String::new() } else { format!("{path}/") },
            endpoint: server(&endpoint).ok_or_else(|| {
                wrong("must have an endpoint like https://s3.example.org, without a user, a password or a query")
            })?,
            region,
            timeout: Duration::from_millis(timeout_ms.unsigned_abs()),
        })
    }

    /// The bucket and the prefix, as people know them.
    pub fn place(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix).trim_end_matches('/').to_owned()
    }
}

/// The address of a server, and of nothing in it.
fn server(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_bare = url.username().is_empty() && url.password().is_none();
    let is_bare = is_bare && url.query().is_none() && url.fragment().is_none();
    (is_bare && ["http", "https"].contains(&url.scheme()) && url.has_host()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str, variables: &[(&str, &str)]) -> Result<Address, String> {
        let env = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Address::parse(text, &env).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn an_address_names_a_bucket_and_how_to_reach_it() {
        let address = parse("s3://jobs", &[]).unwrap();
        assert_eq!((address.prefix.as_str(), address.place().as_str()), ("", "s3://jobs"));
        assert_eq!(address.endpoint.as_str(), "https://s3.us-east-1.amazonaws.com/");
        assert_eq!(address.timeout, Duration::from_secs(30));
        let text = "s3://jobs/of/us/?endpoint=http://127.0.0.1:9000&region=home&timeout=2s";
        let address = parse(text, &[("AWS_REGION", "eu-west-1")]).unwrap();
        assert_eq!((address.prefix.as_str(), address.place().as_str()), ("of/us/", "s3://jobs/of/us"));
        assert_eq!((address.endpoint.as_str(), address.region.as_str()), ("http://127.0.0.1:9000/", "home"));
        assert_eq!(address.timeout, Duration::from_secs(2));
        let variables =
            [("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL", "https://s3.example.org/s3")];
        let address = parse("s3://jobs/a", &variables).unwrap();
        assert_eq!(
            (address.endpoint.as_str(), address.region.as_str()),
            ("https://s3.example.org/s3", "eu-west-1")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_text_breaks_an_address_and_none_shows_its_secret(
            text in prop_oneof![any::<String>(), "s3:(//)?([a-z0-9.-]{0,8}:hunter2@)?[a-zA-Z0-9.-]{0,70}(/[a-z0-9./%-]{0,20})?(\\?((endpoint|region|timeout|secret)=[a-z0-9:/.-]{0,20}&?){0,4})?"],
            endpoint in prop_oneof![Just(None), any::<String>().prop_map(Some), "https?://[a-z:@/?.]{0,20}".prop_map(Some)],
        ) {
            let variables: Vec<_> = endpoint.iter().map(|text| ("AWS_ENDPOINT_URL", text.as_str())).collect();
            match parse(&text, &variables) {
                Err(said) => prop_assert!(!said.contains("hunter2"), "{said}"),
                Ok(address) => {
                    prop_assert!(["http", "https"].contains(&address.endpoint.scheme()), "{text}");
                    prop_assert!(!address.prefix.split('/').any(|part| part == ".."), "{text}");
                    prop_assert_eq!(parse(&address.place(), &[]).unwrap().prefix, address.prefix);
                }
            }
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "gs://jobs/a",
            "s3:jobs",
            "s3://",
            "s3://Jobs_1",
            "s3://jobs/../other",
            "s3://jobs/a%20b",
            "s3://key:secret@jobs/a",
            "s3://jobs/a?endpoint=ftp://h",
            "s3://jobs/a?endpoint=http://key:secret@h",
            "s3://jobs/a?region=",
            "s3://jobs/a?region=a&region=b",
            "s3://jobs/a?timeout=1h",
            "s3://jobs/a?secret=x",
        ] {
            let said = parse(bad, &[]).expect_err(bad);
            assert!(said.starts_with("archive is ") && !said.contains("key:secret"), "{bad}: {said}");
            assert!(Address::is_one(bad), "{bad}");
        }
        assert!(!Address::is_one("/var/lib/windlass/archive") && !Address::is_one("archive"));
    }
}

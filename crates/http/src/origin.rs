//! Where a request comes from, as far as a browser tells: against pages of other sites that reach for a local server.

use crate::codes;
use crate::problem::Problem;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, Uri};

/// What a browser says of the relation between the page and us.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What proxies add.
const FORWARDED: [HeaderName; 3] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
];

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a host, with or without its port, is a name of this machine for itself.
fn is_local_name(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => return rest.split_once(']').is_some_and(|(ip, port)| ip == "::1" && is_port(port)),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let (name, port) = without_port;
    (name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1")
        && (port.is_empty() || port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a request speaks to this machine by a local name.
fn is_local(headers: &HeaderMap) -> bool {
    text(headers, header::HOST).is_some_and(is_local_name)
}

/// The name of the session cookie: with the prefix that binds it to HTTPS wherever a browser reaches us by HTTPS.
pub(crate) fn cookie_name(headers: &HeaderMap) -> &'static str {
    if is_local(headers) { "windlass" } else { "__Host-windlass" }
}

/// Accepts requests of this machine to itself. A page of another site can point a name of its own at us, but not
/// call us by ours; and what comes through a proxy comes from anywhere.
pub(crate) fn check_local(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if !is_local(headers) || headers.get_all(header::HOST).iter().count() > 1 {
        let host = text(headers, header::HOST).unwrap_or("nothing");
        let detail =
            format!("without a key only localhost is served, and the host is {host:?}; make a key first");
        return Err(Problem::new(codes::HOST_REFUSED, detail));
    }
    if FORWARDED.iter().any(|name| headers.contains_key(name)) {
        let detail = "the request came through a proxy; make a key before others can reach this server";
        return Err(Problem::new(codes::HOST_REFUSED, detail));
    }
    let foreign = headers.contains_key(header::ORIGIN) && !is_own_origin(headers);
    if foreign || (!method.is_safe() && !is_own_fetch(headers).unwrap_or(true)) {
        return Err(refused(headers));
    }
    Ok(())
}

/// Accepts what a session may do: anything from our own page, reading from anywhere.
pub(crate) fn check_same(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let has_origin = headers.contains_key(header::ORIGIN);
    let is_own =
        if has_origin { is_own_origin(headers) } else { is_own_fetch(headers).unwrap_or(method.is_safe()) };
    if is_own || (method.is_safe() && !has_origin) { Ok(()) } else { Err(refused(headers)) }
}

/// Accepts a sign-in of our own page, or of a program that is no browser. A browser keeps no session of a page that came
/// over plain HTTP from another machine, and would ask for the key again and again.
pub(crate) fn check_sign_in(headers: &HeaderMap) -> Result<(), Problem> {
    let is_foreign = headers.contains_key(header::ORIGIN) && !is_own_origin(headers);
    if is_foreign || !is_own_fetch(headers).unwrap_or(true) {
        return Err(refused(headers));
    }
    if text(headers, header::ORIGIN).is_some_and(|origin| origin.starts_with("http:")) && !is_local(headers) {
        let detail = "this page came over plain HTTP, where a browser keeps no session and anybody between could \
                      read the key; serve it over HTTPS, or open it on the server's own machine as localhost";
        return Err(Problem::new(codes::HTTPS_REQUIRED, detail));
    }
    Ok(())
}

fn refused(headers: &HeaderMap) -> Problem {
    let origin = text(headers, header::ORIGIN).unwrap_or("another site");
    let detail =
        format!("the request comes from {origin}; only pages of this server may use it, others need a key");
    Problem::new(codes::ORIGIN_REFUSED, detail)
}

/// Whether the page that asks is one of ours.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let origin = text(headers, header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let authority = origin.as_ref().and_then(Uri::authority).map(|authority| authority.as_str());
    authority.is_some() && authority == text(headers, header::HOST)
}

/// What the browser says, if it says anything.
fn is_own_fetch(headers: &HeaderMap) -> Option<bool> {
    text(headers, SEC_FETCH_SITE).map(|site| matches!(site, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_local_names_are_local() {
        for good in ["localhost", "localhost:7070", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:7070"] {
            assert!(is_local_name(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::2]",
            "localhost:x",
            "127.0.0.2",
            "[::1]x",
        ] {
            assert!(!is_local_name(bad), "{bad}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let local = ("host", "localhost:7070");
        let check = |method: Method, pairs: &[(&str, &str)]| check_local(&method, &headers(pairs)).is_ok();
        assert!(check(Method::POST, &[local]));
        assert!(check(Method::POST, &[local, ("origin", "http://localhost:7070")]));
        assert!(!check(Method::GET, &[local, ("origin", "http://localhost:3000")]));
        assert!(!check(Method::POST, &[local, ("origin", "null")]));
        assert!(!check(Method::POST, &[local, ("sec-fetch-site", "cross-site")]));
        assert!(!check(Method::GET, &[("host", "rebound.example")]));
        assert!(!check(Method::GET, &[local, ("x-forwarded-for", "10.0.0.1")]));
    }

    #[test]
    fn a_session_acts_only_from_our_own_page() {
        let host = ("host", "jobs.example");
        let check = |method: Method, pairs: &[(&str, &str)]| check_same(&method, &headers(pairs)).is_ok();
        assert!(check(Method::GET, &[host]));
        assert!(check(Method::POST, &[host, ("origin", "https://jobs.example")]));
        assert!(check(Method::POST, &[host, ("sec-fetch-site", "same-origin")]));
        assert!(!check(Method::POST, &[host]), "a browser always says where a change comes from");
        assert!(!check(Method::POST, &[host, ("origin", "https://evil.example")]));
        assert!(!check(Method::GET, &[host, ("origin", "https://evil.example")]));
        assert_eq!(cookie_name(&headers(&[host])), "__Host-windlass");
        assert_eq!(cookie_name(&headers(&[("host", "127.0.0.1:1")])), "windlass");
    }
}

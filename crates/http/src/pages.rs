//! What is served besides JSON: the page at `/`, from files that are part of the program, and a page per error code.
//!
//! The page is plain HTML, CSS and ES modules in `page/`: no build step, nothing from elsewhere, only the public API.

use crate::call::{Call, Reply};
use crate::codes;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{Response, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use windlass_core::lease::hex;

/// A file of `page/`.
pub(crate) struct File {
    pub(crate) name: &'static str,
    content: &'static [u8],
}

macro_rules! files {
    ($($name:literal)*) => {
        /// Every file of `page/`; a test compares the list with the folder.
        pub(crate) const FILES: &[File] = &[$(
            File { name: $name, content: include_bytes!(concat!("../page/", $name)) },
        )*];
    };
}

files! {
    "index.html" "approve.html" "page.css" "icon.svg"
    "acts.js" "api.js" "app.js" "approve.js" "dom.js" "events.js" "feed.js" "filter.js" "job.js" "jobs.js" "json.js" "log.js"
    "overview.js" "row.js" "sign.js" "status.js" "tables.js" "time.js" "timeline.js"
}

/// The first half of each file's hash, in the order of [`FILES`]: what a browser has is not sent again.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let text = format!("\"{}\"", hex(&Sha256::digest(file.content)[..16]));
        // Digits between quotes are always a header.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
    };
    FILES.iter().map(tag).collect()
});

/// What the page may load and where it may send: itself, and nothing inline. Text can never become script in it, whatever
/// the page does with text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

/// `GET /`
pub(crate) async fn index(call: Call) -> Reply {
    serve(&call, "index.html")
}

/// `GET /approve`: what is behind the `#` of the link stays in the browser.
pub(crate) async fn approve(call: Call) -> Reply {
    serve(&call, "approve.html")
}

/// `GET /static/{name}`
pub(crate) async fn file(call: Call) -> Reply {
    serve(&call, call.segment("name"))
}

fn serve(call: &Call, name: &str) -> Reply {
    let at = FILES.iter().position(|file| file.name == name);
    let at = at.ok_or_else(|| Problem::new(codes::ROUTE_NOT_FOUND, format!("there is no file {name}")))?;
    let (file, tag) = (&FILES[at], &TAGS[at]);
    let mut response = Response::new(Body::empty());
    if is_known(call, tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(file.content);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag.clone());
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Kept, and asked about each time: after an upgrade no old file meets a new one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Whether the browser says that it has this very file.
fn is_known(call: &Call, tag: &HeaderValue) -> bool {
    let said = call.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = said.flat_map(|line| line.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// `GET /errors/{code}`: where the `type` of a problem leads.
pub(crate) async fn error_page(call: Call) -> Reply {
    let word = call.segment("code");
    let code = codes::find(word);
    let code = code.ok_or_else(|| Problem::new(codes::NOT_FOUND, format!("there is no code {word}")))?;
    let mut response = Response::new(Body::from(code.page));
    let markdown = HeaderValue::from_static("text/markdown; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, markdown);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The most bytes of the whole page.
    const PAGE_MAX_BYTES: usize = 150_000;

    fn text(file: &File) -> &'static str {
        std::str::from_utf8(file.content).unwrap()
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let entries = std::fs::read_dir(folder).unwrap();
        let there: BTreeSet<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(served, there, "list it in `files!`, or remove it");
        for file in FILES {
            assert_ne!(media_type(file.name), "application/octet-stream", "{}", file.name);
        }
        assert!(FILES.iter().map(|file| file.content.len()).sum::<usize>() < PAGE_MAX_BYTES);
    }

    #[test]
    fn every_module_is_asked_for_at_once() {
        let (index, approve) = (text(&FILES[0]), text(&FILES[1]));
        assert!(approve.contains("/static/approve.js\""));
        for file in FILES.iter().filter(|file| file.name.ends_with(".js") && file.name != "approve.js") {
            assert!(
                index.contains(&format!("/static/{}\"", file.name)),
                "index.html does not load {}",
                file.name
            );
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_parsed_as_html() {
        for file in FILES {
            let text = text(file).replace("http://www.w3.org/2000/svg", "");
            for banned in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", " style="]
            {
                assert!(!text.contains(banned), "{} has {banned}", file.name);
            }
        }
    }
}

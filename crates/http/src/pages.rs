//! What is served besides JSON: the page at `/`, from files that are part of the program, and a page per error code.
//!
//! The page is written in `page/src` and built into `page/dist`, which is committed: nobody needs Node to build the server. A
//! test builds it again and compares. It loads nothing from elsewhere and asks only the public API.

use crate::call::{Call, Reply};
use crate::codes;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{Response, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use windlass_core::lease::hex;

/// A file of `page/dist`, with its twins that were compressed when the page was built.
pub(crate) struct File {
    pub(crate) name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    brotli: &'static [u8],
}

macro_rules! files {
    ($($name:literal)*) => {
        /// Every file of `page/dist`; a test compares the list with the folder.
        pub(crate) const FILES: &[File] = &[$(
            File {
                name: $name,
                plain: include_bytes!(concat!("../page/dist/", $name)),
                gzip: include_bytes!(concat!("../page/dist/", $name, ".gz")),
                brotli: include_bytes!(concat!("../page/dist/", $name, ".br")),
            },
        )*];
    };
}

files! {
    "index.html" "approve.html" "page.css" "icon.svg" "app.js" "approve.js" "base.js" "compare.js" "edit.js" "settings.js"
}

/// The hash of what the documents load: it is part of their address, so a browser keeps them for good.
const BUILD: &str = include_str!("../page/dist/BUILD");

/// The first half of each file's hash, in the order of [`FILES`]: what a browser has is not sent again.
static TAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| FILES.iter().map(|file| hex(&Sha256::digest(file.plain)[..16])).collect());

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

/// `GET /static/{build}/{name}`: of this build, and of no other; a page of another build that is still open somewhere learns
/// that it is old.
pub(crate) async fn file(call: Call) -> Reply {
    let (build, name) = (call.segment("build"), call.segment("name"));
    if build != BUILD || is_document(name) {
        return Err(Problem::new(
            codes::ROUTE_NOT_FOUND,
            format!("there is no file {name} of build {build}"),
        ));
    }
    serve(&call, name)
}

fn is_document(name: &str) -> bool {
    name.ends_with(".html")
}

fn serve(call: &Call, name: &str) -> Reply {
    let at = FILES.iter().position(|file| file.name == name);
    let at = at.ok_or_else(|| Problem::new(codes::ROUTE_NOT_FOUND, format!("there is no file {name}")))?;
    let file = &FILES[at];
    let (content, coding) = encoded(call, file);
    let mark = if coding.is_empty() { "" } else { "-" };
    let tag = format!("\"{}{mark}{coding}\"", TAGS[at]);
    let mut response = Response::new(Body::empty());
    if is_known(call, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(content);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
        if !coding.is_empty() {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
    }
    let headers = response.headers_mut();
    // Digits between quotes are always a header.
    headers.insert(header::ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\"")));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // A document is asked about each time: after an upgrade it names the files of the new build.
    let kept = if is_document(name) { "no-cache" } else { "public, max-age=31536000, immutable" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    Ok(response)
}

/// The smallest form that the caller understands, and what it is called.
fn encoded(call: &Call, file: &File) -> (&'static [u8], &'static str) {
    if takes(call, "br") {
        (file.brotli, "br")
    } else if takes(call, "gzip") {
        (file.gzip, "gzip")
    } else {
        (file.plain, "")
    }
}

/// Whether the caller names this coding, and not only to refuse it.
fn takes(call: &Call, coding: &str) -> bool {
    let said = call.headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|line| line.split(',')).any(|part| {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case(coding) && !refused
    })
}

/// Whether the browser says that it has this very file.
fn is_known(call: &Call, tag: &str) -> bool {
    let said = call.headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = said.flat_map(|line| line.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known == tag)
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
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The most bytes of the programs before the first view, of the style sheet, and of everything; compressed.
    const ENTRY_MAX_BYTES: usize = 60_000;
    const STYLE_MAX_BYTES: usize = 12_000;
    const PAGE_MAX_BYTES: usize = 150_000;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(name)
    }

    fn text(name: &str) -> &'static str {
        let file = FILES.iter().find(|file| file.name == name).unwrap();
        std::str::from_utf8(file.plain).unwrap()
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let there: BTreeSet<String> = fs::read_dir(folder("dist"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "BUILD" && !name.ends_with(".gz") && !name.ends_with(".br"))
            .collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(served, there, "list it in `files!`, or remove it");
        for file in FILES {
            assert_ne!(media_type(file.name), "application/octet-stream", "{}", file.name);
        }
    }

    #[test]
    fn it_is_small() {
        let bytes = |names: &[&str]| -> usize {
            FILES.iter().filter(|file| names.contains(&file.name)).map(|file| file.gzip.len()).sum()
        };
        assert!(bytes(&["app.js", "base.js"]) <= ENTRY_MAX_BYTES);
        assert!(bytes(&["page.css"]) <= STYLE_MAX_BYTES);
        assert!(FILES.iter().map(|file| file.gzip.len()).sum::<usize>() <= PAGE_MAX_BYTES);
    }

    #[test]
    fn documents_load_this_build_by_addresses_that_work_under_any_path() {
        for (document, program) in [("index.html", "app.js"), ("approve.html", "approve.js")] {
            for name in [program, "base.js", "page.css", "icon.svg"] {
                assert!(text(document).contains(&format!("\"static/{BUILD}/{name}\"")), "{document}: {name}");
            }
            assert!(!text(document).contains("=\"/"), "{document} has an address from the root");
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_parsed_as_html() {
        for file in FILES {
            let text = text(file.name).replace("http://www.w3.org/", "");
            for banned in ["http://", "https://"] {
                assert!(!text.contains(banned), "{} has {banned}", file.name);
            }
        }
        let mut found = Vec::new();
        sources(&folder("src"), &mut found);
        assert!(found.len() > 20);
        for path in found {
            let text = fs::read_to_string(&path).unwrap();
            for banned in ["innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "eval(", " style=\""]
            {
                assert!(!text.contains(banned), "{} has {banned}", path.display());
            }
        }
    }
}

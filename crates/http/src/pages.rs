//! What is served besides JSON: the page at `/`, from files that are part of the program, and a page per error code.

use crate::call::{Call, Reply};
use crate::codes;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{self, HeaderValue};

/// A file of `static/`.
pub(crate) struct File {
    pub(crate) name: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

macro_rules! files {
    ($($name:literal $media_type:literal)*) => {
        /// Every file of `static/`; a test compares the list with the folder.
        pub(crate) const FILES: &[File] = &[$(
            File { name: $name, media_type: $media_type, content: include_bytes!(concat!("../static/", $name)) },
        )*];
    };
}

files! {
    "index.html" "text/html; charset=utf-8"
    "page.css" "text/css; charset=utf-8"
}

/// What the page may load and where it may send: itself, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// `GET /`
pub(crate) async fn index(_: Call) -> Reply {
    serve("index.html")
}

/// `GET /static/{name}`
pub(crate) async fn file(call: Call) -> Reply {
    serve(call.segment("name"))
}

fn serve(name: &str) -> Reply {
    let file = FILES.iter().find(|file| file.name == name);
    let file =
        file.ok_or_else(|| Problem::new(codes::ROUTE_NOT_FOUND, format!("there is no file {name}")))?;
    let mut response = Response::new(Body::from(file.content));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
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

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("static");
        let entries = std::fs::read_dir(folder).unwrap();
        let there: BTreeSet<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(served, there, "list it in `files!`, or remove it");
    }
}

//! What an object store answers: a few members of its XML, and what to do about an error.

use reqwest::StatusCode;
use std::io;

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Names this version of an object, so that a write can ask for no other.
    pub etag: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The code of an error, as `NoSuchKey`; none where the body says none.
    pub fn code(&self) -> Option<String> {
        member(&String::from_utf8_lossy(&self.body), "Code")
    }

    /// Whether there is no such object, in a bucket that is there.
    pub fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND && self.code().as_deref() == Some("NoSuchKey")
    }

    /// Whether a write was refused because the object is another by now.
    pub fn is_overtaken(&self) -> bool {
        matches!(self.status, StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT)
    }

    /// Why the request was not carried out, and what helps.
    pub fn error(&self, host: &str) -> io::Error {
        let text = String::from_utf8_lossy(&self.body);
        let code = self.code();
        let said = match (&code, member(&text, "Message")) {
            (Some(code), Some(message)) => format!(" ({code}: {})", message.trim_end_matches('.')),
            (Some(code), None) => format!(" ({code})"),
            (None, _) => String::new(),
        };
        let (kind, help) = help(self.status, code.as_deref().unwrap_or_default());
        io::Error::new(kind, format!("{host} answered {}{said}: {help}", self.status.as_u16()))
    }

    /// The keys in a page of a list, and where the next page begins.
    pub fn page(&self, host: &str) -> io::Result<(Vec<String>, Option<String>)> {
        let odd = |what: &str| {
            let why = format!("{host} answered {what}: see that the endpoint is that of an object store");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let text = std::str::from_utf8(&self.body).map_err(|_| odd("what is no text"))?;
        // A proxy that answers with a page of its own must not look like an empty archive.
        if !text.contains("<ListBucketResult") || !text.contains("</ListBucketResult>") {
            return Err(odd("with something else than a list"));
        }
        let keys = members(text, "Key").collect();
        match (member(text, "IsTruncated").as_deref(), member(text, "NextContinuationToken")) {
            (Some("true"), None) => Err(odd("half a list, and not where the rest begins")),
            (Some("true"), next) => Ok((keys, next)),
            _ => Ok((keys, None)),
        }
    }
}

/// What kind of error it is, and what to do.
fn help(status: StatusCode, code: &str) -> (io::ErrorKind, &'static str) {
    match (status.as_u16(), code) {
        (_, "NoSuchBucket") => (
            io::ErrorKind::NotFound,
            "make the bucket if the archive is to begin there, or name the right one",
        ),
        (_, "RequestTimeTooSkewed") => (io::ErrorKind::PermissionDenied, "set the clock of this machine"),
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken") => (
            io::ErrorKind::PermissionDenied,
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if the key has one, to a key that is valid",
        ),
        (301 | 307 | 308, _) | (400, "AuthorizationHeaderMalformed") => {
            (io::ErrorKind::InvalidInput, "name the region of the bucket with ?region=")
        }
        (401 | 403, _) => (
            io::ErrorKind::PermissionDenied,
            "let the key do s3:ListBucket in the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject under the prefix",
        ),
        (404, _) => (io::ErrorKind::NotFound, "see that the endpoint is that of an object store"),
        (429 | 500.., _) => {
            (io::ErrorKind::ResourceBusy, "see that the object store is well; it is tried again")
        }
        _ => {
            (io::ErrorKind::Other, "see that the endpoint is that of an object store, and what its log says")
        }
    }
}

/// The text of the first element of this name.
pub fn member(text: &str, name: &str) -> Option<String> {
    members(text, name).next()
}

/// The texts of all elements of this name that have no attributes and nothing but text in them.
fn members<'a>(text: &'a str, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once(&begin)?;
        let (inside, behind) = behind.split_once(&end)?;
        rest = behind;
        Some(unescaped(inside))
    })
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&#34;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status: StatusCode::from_u16(status).unwrap(), etag: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_list_is_read_page_by_page() {
        let body = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Prefix>a/</Prefix><IsTruncated>true</IsTruncated><Contents><Key>a/one&amp;lt;</Key><Size>1</Size></Contents>\
                    <Contents><Key>a/two</Key></Contents><NextContinuationToken>x==</NextContinuationToken></ListBucketResult>";
        let (keys, next) = answer(200, body).page("h").unwrap();
        assert_eq!((keys, next), (vec!["a/one&lt;".to_owned(), "a/two".to_owned()], Some("x==".to_owned())));
        let last = body.replace("true", "false");
        assert_eq!(answer(200, &last).page("h").unwrap().1, None);
        let half = body.replace("NextContinuationToken", "Other");
        assert!(answer(200, &half).page("h").is_err(), "half a list is not taken for a whole one");
        assert!(answer(200, "<html>Please log in</html>").page("h").is_err());
        assert!(answer(200, &body[..body.len() - 3]).page("h").is_err());
    }

    #[test]
    fn an_error_says_what_to_do() {
        let of = |code: &str| format!("<Error><Code>{code}</Code><Message>Not so.</Message></Error>");
        for (status, code, help) in [
            (404, "NoSuchBucket", "make the bucket"),
            (403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
            (403, "AccessDenied", "s3:PutObject"),
            (403, "RequestTimeTooSkewed", "clock"),
            (301, "PermanentRedirect", "?region="),
            (503, "SlowDown", "tried again"),
        ] {
            let said = answer(status, &of(code)).error("s3.example.org").to_string();
            let begin = format!("s3.example.org answered {status} ({code}: Not so): ");
            assert!(said.starts_with(&begin) && said.contains(help), "{said}");
        }
        assert!(answer(404, &of("NoSuchKey")).is_missing());
        assert!(!answer(404, &of("NoSuchBucket")).is_missing(), "a missing bucket is no missing object");
        assert!(!answer(404, "not here").is_missing(), "nor is a page of a proxy");
        assert_eq!(answer(502, "bad gateway").error("h").kind(), io::ErrorKind::ResourceBusy);
    }
}

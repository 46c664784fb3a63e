//! An archive in an S3-compatible object store: four calls over the HTTP client that is there, signed here.
//!
//! An object is durable when the server has answered for it; it is read back all the same before anything is removed for it.
//! One that is changed in place is written only if nobody else changed it since it was read (`If-Match`).

mod address;
mod answer;
mod sign;

pub use address::Address;

use crate::fail::Outcome;
use crate::outbound;
use crate::settings::environment;
use answer::{Answer, member};
use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Method, Url};
use sign::{Credentials, Signed, sha256};
use std::io;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};
use windlass_engine::archive::{Archive, ArchiveError, Edit};
use windlass_store::fresh;

/// What may stand in a path and a query as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How often a request is sent that finds nobody, or a server that is busy.
const TRIES: u32 = 3;
/// How long after the first try the second is; the next waits are four times as long.
const WAIT: Duration = Duration::from_millis(200);
/// How many bytes per second a body may take at least to be sent, beside the time that the server may be silent.
const BYTES_PER_SECOND: u64 = 256 << 10;
/// How often an object is read again that others change meanwhile.
const REWRITES: usize = 10;
/// The object that is never there: whether a condition is obeyed is tried on it.
const PROBE: &str = ".windlass-probe";
/// An ETag that no object has.
const NO_ETAG: &str = "\"00000000000000000000000000000000\"";

/// A bucket of an object store, or a part of one.
#[derive(Debug)]
pub struct S3 {
    address: Address,
    client: Client,
    /// None if the environment names none, which every call says.
    credentials: Option<Credentials>,
    /// Set once the server is known to obey conditions on writes.
    obeys: OnceCell<()>,
}

/// What is asked of an object, or of the whole bucket.
struct Call<'a> {
    method: Method,
    name: Option<&'a str>,
    query: String,
    body: &'a [u8],
    only_if: Option<&'a str>,
}

impl<'a> Call<'a> {
    fn on(method: Method, name: &'a str) -> Self {
        Self { method, name: Some(name), query: String::new(), body: &[], only_if: None }
    }
}

impl S3 {
    /// The archive at this address, with credentials from the environment.
    pub fn new(address: Address) -> Outcome<Self> {
        let credentials = Credentials::from_environment(&environment);
        Ok(Self { address, client: outbound::client()?, credentials, obeys: OnceCell::new() })
    }

    /// Whether the bucket keeps what is overwritten and removed, and so what is erased; none if the server does not say.
    pub async fn keeps_versions(&self) -> Option<bool> {
        let call = Call { name: None, query: "versioning=".to_owned(), ..Call::on(Method::GET, "") };
        let answer = self.send(&call).await.ok().filter(|answer| answer.status.is_success())?;
        let text = String::from_utf8(answer.body).ok()?;
        // Servers differ in what they call the answer.
        text.contains("Versioning").then(|| member(&text, "Status").as_deref() == Some("Enabled"))
    }

    /// Sees that a write whose condition does not hold is refused. Changes nothing, where it is.
    ///
    /// # Errors
    /// If the server writes all the same, or may not be written to.
    pub async fn check_conditions(&self) -> Result<(), ArchiveError> {
        let checked = self.obeys.get_or_try_init(|| async {
            let call = Call { only_if: Some(NO_ETAG), ..Call::on(Method::PUT, PROBE) };
            let answer = self.send(&call).await?;
            if answer.is_missing() || answer.is_overtaken() {
                return Ok(());
            }
            if !answer.status.is_success() {
                return Err(answer.error(self.host()));
            }
            self.send(&Call::on(Method::DELETE, PROBE)).await?;
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "{} ignores the header If-Match on writes, so of two erasures at once one could be undone: \
                     use an object store that obeys it",
                    self.host()
                ),
            ))
        });
        checked.await.map_err(|e| ArchiveError::new(self.place(), "written", e))?;
        Ok(())
    }

    fn host(&self) -> &str {
        self.address.endpoint.host_str().unwrap_or_default()
    }

    /// An object, as people know it.
    fn shown(&self, name: &str) -> String {
        format!("s3://{}/{}{name}", self.address.bucket, self.address.prefix)
    }

    fn failed(&self, name: &str, tried: &'static str) -> impl Fn(io::Error) -> ArchiveError + use<> {
        let shown = self.shown(name);
        move |error| ArchiveError::new(&shown, tried, error)
    }

    /// Sends a request, again where that may help: every call does the same when it is repeated.
    async fn send(&self, call: &Call<'_>) -> io::Result<Answer> {
        let mut wait = WAIT;
        for _ in 1..TRIES {
            match self.send_once(call).await {
                Ok(answer) if answer.status.as_u16() == 429 || answer.status.is_server_error() => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                answered => return answered,
            }
            sleep(wait).await;
            wait *= 4;
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: &Call<'_>) -> io::Result<Answer> {
        let credentials = self.credentials.as_ref().ok_or_else(|| {
            let why = "no credentials are here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        })?;
        let url = self.url(call)?;
        let at = fresh::wall_clock().to_string().replace([':', '-'], "");
        let at = format!("{}Z", at.split('.').next().unwrap_or_default().trim_end_matches('Z'));
        let (host, body) = (host_header(&url), sha256(call.body));
        let mut headers: Vec<(&str, &str)> =
            vec![("host", &host), ("x-amz-content-sha256", &body), ("x-amz-date", &at)];
        headers.extend(credentials.session.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.extend(call.only_if.map(|etag| ("if-match", etag)));
        let (path, query) = (url.path().to_owned(), url.query().unwrap_or_default().to_owned());
        let method = call.method.as_str();
        let signed = Signed { method, path: &path, query: &query, headers, body: &body };
        let authorization = signed.authorization(credentials, &self.address.region, &at);
        let mut request =
            self.client.request(call.method.clone(), url).header("authorization", authorization);
        for (name, value) in signed.headers.iter().filter(|(name, _)| *name != "host") {
            request = request.header(*name, *value);
        }
        if call.method == Method::PUT {
            request = request.body(call.body.to_vec());
        }
        let for_body = Duration::from_secs(call.body.len() as u64 / BYTES_PER_SECOND);
        let sent = timeout(self.address.timeout + for_body, request.send()).await;
        let mut answer = sent.map_err(|_| self.silent())?.map_err(|e| self.unanswered(e))?;
        let (status, etag) = (answer.status(), answer.headers().get("etag"));
        let etag = etag.and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        loop {
            let read = timeout(self.address.timeout, answer.chunk()).await;
            match read.map_err(|_| self.silent())?.map_err(|e| self.unanswered(e))? {
                Some(chunk) => body.extend_from_slice(&chunk),
                None => return Ok(Answer { status, etag, body }),
            }
        }
    }

    /// Where a call goes: path style, which needs no name server that knows the bucket.
    fn url(&self, call: &Call<'_>) -> io::Result<Url> {
        let Address { endpoint, bucket, prefix, .. } = &self.address;
        let mut text = format!("{}/{bucket}", endpoint.as_str().trim_end_matches('/'));
        if let Some(name) = call.name {
            text.push_str(&format!("/{prefix}{}", utf8_percent_encode(name, ENCODED)));
        }
        if !call.query.is_empty() {
            text.push_str(&format!("?{}", call.query));
        }
        Url::parse(&text).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
    }

    fn silent(&self) -> io::Error {
        let why = format!(
            "{} was silent for {} s: see that it is well, or allow more with ?timeout=",
            self.host(),
            self.address.timeout.as_secs_f32()
        );
        io::Error::new(io::ErrorKind::TimedOut, why)
    }

    fn unanswered(&self, error: reqwest::Error) -> io::Error {
        let why = format!(
            "{} did not answer: {}; see that it runs, and that the endpoint is right",
            self.host(),
            outbound::root(&error.without_url())
        );
        io::Error::new(io::ErrorKind::ConnectionReset, why)
    }

    /// An object and what names its version; none if there is none of this name.
    async fn read(&self, name: &str) -> io::Result<Option<(Vec<u8>, Option<String>)>> {
        let answer = self.send(&Call::on(Method::GET, name)).await?;
        if answer.is_missing() {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(answer.error(self.host()));
        }
        Ok(Some((answer.body, answer.etag)))
    }

    /// Reads what was written.
    async fn read_back(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.read(name).await? {
            Some((found, _)) if found == bytes => Ok(()),
            _ => Err(io::Error::other("what was written does not read back")),
        }
    }

    /// Changes an object, unless somebody else does meanwhile, then once more.
    async fn change(&self, name: &str, edit: &Edit) -> io::Result<bool> {
        let mut sent: Option<Vec<u8>> = None;
        for _ in 0..REWRITES {
            let Some((bytes, etag)) = self.read(name).await? else { return Ok(false) };
            if sent.as_ref() == Some(&bytes) {
                // The answer to an earlier try was lost, and not the write.
                return Ok(true);
            }
            let etag = etag.ok_or_else(|| io::Error::other("the server names no version of it (ETag)"))?;
            let edit = Edit::clone(edit);
            let edited = tokio::task::spawn_blocking(move || edit(&bytes)).await;
            let Some(changed) = edited.map_err(io::Error::other)?? else { return Ok(false) };
            let call = Call { body: &changed, only_if: Some(&etag), ..Call::on(Method::PUT, name) };
            let answer = self.send(&call).await?;
            if answer.is_missing() {
                return Ok(false);
            }
            if answer.status.is_success() {
                return Ok(true);
            }
            if !answer.is_overtaken() {
                return Err(answer.error(self.host()));
            }
            sent = Some(changed);
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "others change it all the time; try again"))
    }
}

#[async_trait]
impl Archive for S3 {
    fn place(&self) -> String {
        self.address.place()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        let failed = self.failed(name, "written");
        let answer =
            self.send(&Call { body: &bytes, ..Call::on(Method::PUT, name) }).await.map_err(&failed)?;
        if !answer.status.is_success() {
            return Err(failed(answer.error(self.host())));
        }
        self.read_back(name, &bytes).await.map_err(failed)
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        let found = self.read(name).await.map_err(self.failed(name, "read"))?;
        Ok(found.map(|(bytes, _)| bytes))
    }

    async fn list(&self) -> Result<Vec<String>, ArchiveError> {
        let failed = self.failed("", "listed");
        let prefix = utf8_percent_encode(&self.address.prefix, ENCODED).to_string();
        let (mut names, mut from): (Vec<String>, Option<String>) = (Vec::new(), None);
        loop {
            // Sorted by name, as they are signed.
            let begin = from
                .as_ref()
                .map(|token| format!("continuation-token={}&", utf8_percent_encode(token, ENCODED)));
            let query = format!("{}delimiter=%2F&list-type=2&prefix={prefix}", begin.unwrap_or_default());
            let call = Call { name: None, query, ..Call::on(Method::GET, "") };
            let answer = self.send(&call).await.map_err(&failed)?;
            if !answer.status.is_success() {
                return Err(failed(answer.error(self.host())));
            }
            let (keys, next) = answer.page(self.host()).map_err(&failed)?;
            let keys = keys.iter().filter_map(|key| key.strip_prefix(&self.address.prefix));
            names.extend(keys.filter(|name| is_plain(name)).map(str::to_owned));
            if next.is_some() && next == from {
                return Err(failed(io::Error::other("the same page of the list comes again and again")));
            }
            from = next;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    async fn rewrite(&self, name: &str, edit: Edit) -> Result<bool, ArchiveError> {
        self.check_conditions().await?;
        self.change(name, &edit).await.map_err(self.failed(name, "rewritten"))
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        let failed = self.failed(name, "removed");
        let answer = self.send(&Call::on(Method::DELETE, name)).await.map_err(&failed)?;
        if answer.status.is_success() || answer.is_missing() {
            return Ok(());
        }
        Err(failed(answer.error(self.host())))
    }
}

/// Whether a name can be that of an object of the archive.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

/// The header `host` as the client sends it.
fn host_header(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

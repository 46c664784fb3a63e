//! Streams of events without hyper, which keeps 16 KiB of buffers for every connection: there may be ten thousand that only
//! wait. Taken is only what is plain: the whole head of a `GET` for a stream, nothing unusual in it, nothing behind it. Every
//! other connection is left to hyper, untouched.

use crate::app::App;
use crate::throttle::Peer;
use axum::Router;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, Response, Uri};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;
use windlass_engine::Level;
use windlass_store::fresh;

/// The longest head that is looked at, and the most headers in it.
const HEAD_MAX: usize = 4 << 10;
const HEADERS_MAX: usize = 64;
/// How many bytes of events are gathered before they are sent.
const GATHERED: usize = 64 << 10;

/// Serves a connection that begins with the request for a stream to its end, to a client that may not read nothing for as
/// long as `stalled`. Any other is given back as it was, as soon as it says something or the server ends; one that says
/// nothing for as long as `silent` is closed.
pub(crate) async fn take(
    stream: TcpStream,
    peer: Peer,
    router: &Router,
    app: &App,
    silent: Duration,
    stalled: Duration,
) -> Option<TcpStream> {
    let looked = tokio::select! {
        looked = timeout(silent, poll_fn(|cx| look(&stream, cx))) => looked.ok()?.ok()?,
        () = app.ending.reached(Level::Graceful) => None,
    };
    let Some((mut request, length)) = looked else { return Some(stream) };
    // They were seen a moment ago.
    if stream.try_read(&mut vec![0; length]).ok()? < length {
        return None;
    }
    request.extensions_mut().insert(peer);
    // Boxed, for it is large and soon over.
    let Ok(response) = Box::pin(router.clone().oneshot(request)).await;
    if let Err(error) = tell(&stream, response, stalled).await {
        tracing::debug!(%error, "a stream broke");
    }
    None
}

/// The request for a stream and the length of its head.
type Asked = (Request<Body>, usize);

/// Looks at the first bytes of a connection and leaves them there.
fn look(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<Option<Asked>>> {
    let mut bytes = [0; HEAD_MAX];
    let mut seen = ReadBuf::new(&mut bytes);
    ready!(stream.poll_peek(cx, &mut seen))?;
    Poll::Ready(Ok(parse(seen.filled())))
}

fn parse(bytes: &[u8]) -> Option<Asked> {
    if !bytes.starts_with(b"GET /v1/") {
        return None;
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).ok()? else { return None };
    let uri: Uri = head.path?.parse().ok()?;
    let path = uri.path();
    let is_stream = path == "/v1/feed" || (path.starts_with("/v1/jobs/") && path.ends_with("/feed"));
    if !is_stream || head.method? != "GET" || head.version? != 1 || length != bytes.len() {
        return None;
    }
    let mut request = Request::new(Body::empty());
    (*request.method_mut(), *request.uri_mut()) = (Method::GET, uri);
    for told in head.headers.iter() {
        let value = HeaderValue::from_bytes(told.value).ok()?;
        request.headers_mut().append(HeaderName::from_bytes(told.name.as_bytes()).ok()?, value);
    }
    is_plain(request.headers()).then_some((request, length))
}

/// Whether nothing in a head needs a server that knows all of HTTP. Pages of the feed leave their connection open for more.
fn is_plain(headers: &HeaderMap) -> bool {
    let is = |name: HeaderName, usual: &[&str]| {
        let is_usual = |value: &HeaderValue| {
            usual.iter().any(|usual| value.as_bytes().eq_ignore_ascii_case(usual.as_bytes()))
        };
        headers.get_all(name).iter().all(is_usual)
    };
    let absent = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::EXPECT, header::UPGRADE];
    absent.iter().all(|name| !headers.contains_key(name))
        && is(header::CONNECTION, &["keep-alive"])
        && is(header::ACCEPT, &["text/event-stream", "*/*"])
}

/// Sends an answer, and ends the connection with it.
async fn tell(stream: &TcpStream, response: Response<Body>, stalled: Duration) -> io::Result<()> {
    let (head, mut body) = response.into_parts();
    send(stream, &written(head.status, head.headers), stalled).await?;
    let mut is_over = false;
    while !is_over {
        let mut next = tokio::select! {
            next = body.frame() => next,
            () = gone(stream) => return Ok(()),
        };
        // Whatever is there already goes with it.
        let mut pieces = Vec::new();
        loop {
            let Some(frame) = next else {
                pieces.extend_from_slice(b"0\r\n\r\n");
                is_over = true;
                break;
            };
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                chunk(&data, &mut pieces);
            }
            if pieces.len() >= GATHERED {
                break;
            }
            match body.frame().now_or_never() {
                Some(more) => next = more,
                None => break,
            }
        }
        send(stream, &pieces, stalled).await?;
    }
    Ok(())
}

fn chunk(data: &Bytes, into: &mut Vec<u8>) {
    // An empty one would be the end.
    if !data.is_empty() {
        into.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        into.extend_from_slice(data);
        into.extend_from_slice(b"\r\n");
    }
}

/// The head of an answer.
fn written(status: axum::http::StatusCode, headers: HeaderMap) -> Vec<u8> {
    let now = UNIX_EPOCH + Duration::from_micros(fresh::wall_clock().as_micros().unsigned_abs());
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    let date = httpdate::fmt_http_date(now);
    let rest = format!("date: {date}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    head.extend_from_slice(rest.as_bytes());
    head
}

/// Sends all of it to a client that reads now and then.
async fn send(stream: &TcpStream, mut bytes: &[u8], stalled: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(stalled, stream.writable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the client has gone. What it still says is not read for its meaning.
async fn gone(stream: &TcpStream) {
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut [0; 64]) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(head: &str) -> Option<String> {
        parse(head.as_bytes()).map(|(request, length)| {
            assert_eq!(length, head.len());
            request.uri().to_string()
        })
    }

    #[test]
    fn only_plain_requests_for_streams_are_taken() {
        let head = |line: &str, more: &str| format!("{line}\r\nhost: localhost\r\n{more}\r\n");
        let feed = "GET /v1/feed?queue=a HTTP/1.1";
        let accept = "Accept: text/event-stream\r\nconnection: Keep-Alive\r\nlast-event-id: 7\r\n";
        assert_eq!(path(&head(feed, "")).as_deref(), Some("/v1/feed?queue=a"));
        assert_eq!(path(&head(feed, accept)).as_deref(), Some("/v1/feed?queue=a"));
        assert_eq!(path(&head("GET /v1/jobs/x/feed HTTP/1.1", "")).as_deref(), Some("/v1/jobs/x/feed"));
        for (line, more, behind) in [
            ("GET /v1/feed HTTP/1.0", "", ""),
            ("GET /v1/feeds HTTP/1.1", "", ""),
            ("GET http://localhost/v1/feed HTTP/1.1", "", ""),
            ("POST /v1/feed HTTP/1.1", "", ""),
            ("GET /v1/jobs HTTP/1.1", "", ""),
            ("GET /v1/feed HTTP/1.1", "accept: application/json\r\n", ""),
            ("GET /v1/feed HTTP/1.1", "content-length: 1\r\n", ""),
            ("GET /v1/feed HTTP/1.1", "transfer-encoding: chunked\r\n", ""),
            ("GET /v1/feed HTTP/1.1", "connection: close\r\n", ""),
            ("GET /v1/feed HTTP/1.1", "connection: keep-alive\r\nconnection: close\r\n", ""),
            ("GET /v1/feed HTTP/1.1", "", "GET /"),
        ] {
            assert_eq!(path(&(head(line, more) + behind)), None, "{line} {more} {behind}");
        }
        let long = format!("x: {}\r\n", "y".repeat(100));
        assert!(path(&head(feed, &long.repeat(HEADERS_MAX + 1))).is_none(), "too many headers");
        assert!(path(&head(feed, "")[..40]).is_none(), "half a head");
    }
}

//! A client of HTTP/1.1 that keeps its connection: what a program in another language would have.

use super::PATIENCE;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// What the server answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
    pub text: String,
}

impl Reply {
    /// The body of an answer with this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// The problem of an answer with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        self.body
    }
}

/// A caller with one connection. After an error the next request opens another.
pub struct Client {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), connection: None }
    }

    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.send("GET", path, "", "")
    }

    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Reply> {
        self.send("POST", path, "", &body.to_string())
    }

    /// Sends a request with more headers, each ended by `\r\n`.
    pub fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Reply> {
        let reply = self.exchange(method, path, headers, body);
        if reply.is_err() {
            self.connection = None;
        }
        reply
    }

    fn exchange(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Reply> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.connection = Some(BufReader::new(stream));
        }
        let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        );
        connection.get_mut().write_all((head + body).as_bytes())?;
        let (status, length) = read_head(connection)?;
        let mut bytes = vec![0; length];
        connection.read_exact(&mut bytes)?;
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(Reply { status, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }

    /// Listens to a stream of events from now on, on a connection of its own.
    pub fn listen(&self, path: &str) -> io::Result<Events> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n", self.address);
        stream.write_all(head.as_bytes())?;
        let mut lines = BufReader::new(stream);
        let (status, _) = read_head(&mut lines)?;
        assert_eq!(status, 200);
        // The opening names the place from which the stream tells; before it, nothing is promised.
        let mut events = Events(lines);
        events.line("id: ")?;
        Ok(events)
    }
}

/// A stream of events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event.
    pub fn next(&mut self) -> io::Result<Value> {
        serde_json::from_str(&self.line("data: ")?).map_err(io::Error::other)
    }

    /// The next line that begins so. Lines of the transfer's own chunks never do.
    fn line(&mut self, beginning: &str) -> io::Result<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.trim_end().to_owned());
            }
        }
    }
}

/// Reads a head: the status and the length of the body.
fn read_head(connection: &mut BufReader<TcpStream>) -> io::Result<(u16, usize)> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an answer in HTTP/1.1");
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
    let mut length = 0;
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.split_once(':') else { return Ok((status, length)) };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| malformed())?;
        }
    }
}

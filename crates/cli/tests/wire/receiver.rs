//! A web service that keeps what subscriptions and alerts send, and looks at the signatures.

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_store::fresh::wall_clock;

/// What messages are signed with.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A web service that keeps what comes, by the ids of messages, and counts what is not signed.
#[derive(Clone)]
pub struct Receiver {
    pub url: String,
    pub came: Arc<Mutex<Vec<(String, Value)>>>,
    pub unsigned: Arc<Mutex<usize>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self { url, came: Arc::default(), unsigned: Arc::default() };
        let this = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                this.answer(&stream.unwrap());
            }
        });
        receiver
    }

    fn answer(&self, mut stream: &TcpStream) {
        let mut lines = BufReader::new(stream);
        let mut headers = HashMap::new();
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap_or(0) > 2 {
            if let Some((name, value)) = line.trim().split_once(": ") {
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            line.clear();
        }
        let Some(length) = headers.get("content-length") else { return };
        let mut body = vec![0; length.parse().unwrap()];
        lines.read_exact(&mut body).unwrap();
        let of = |name: &str| headers.get(name).map_or("", String::as_str);
        let signed = Signed { id: of("webhook-id"), timestamp: of("webhook-timestamp"), body: &body };
        let secret = WebhookSecret::parse(SECRET).unwrap();
        if signed.verify(of("webhook-signature"), &[secret], 300_000, wall_clock()).is_err() {
            *self.unsigned.lock().unwrap() += 1;
        }
        let message = (of("webhook-id").to_owned(), serde_json::from_slice(&body).unwrap());
        self.came.lock().unwrap().push(message);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

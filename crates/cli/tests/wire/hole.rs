//! A proxy before a PostgreSQL that can swallow everything: connections stay open, nothing is reset, nothing comes through.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The proxy.
pub struct Hole {
    pub url: String,
    swallows: Arc<AtomicBool>,
}

impl Hole {
    /// Stands before the server of a database that is reached by a socket in a folder.
    pub fn before(url: &str) -> Self {
        let (user, rest) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
        let (host, database) = rest.split_once('/').unwrap();
        let socket = format!("{}/.s.PGSQL.5432", host.replace("%2F", "/"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let swallows = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&swallows);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let (flag, socket) = (Arc::clone(&flag), socket.clone());
                std::thread::spawn(move || between(client, &socket, &flag));
            }
        });
        let more = if database.contains('?') { "&" } else { "?" };
        Self { url: format!("postgres://{user}@{address}/{database}{more}sslmode=disable"), swallows }
    }

    /// From now on nothing comes through, or everything does again.
    pub fn swallow(&self, swallows: bool) {
        self.swallows.store(swallows, Ordering::SeqCst);
    }
}

fn between(client: TcpStream, socket: &str, swallows: &Arc<AtomicBool>) {
    let Ok(server) = UnixStream::connect(socket) else { return };
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    let flag = Arc::clone(swallows);
    let end = to_client.try_clone().unwrap();
    std::thread::spawn(move || {
        pass(from_client, to_server.try_clone().unwrap(), &flag);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    pass(from_server, to_client, swallows);
    let _ = end.shutdown(Shutdown::Both);
}

/// Passes on until an end. What came while it swallowed is gone, and so is its connection: it stays silent.
fn pass(mut from: impl Read, mut to: impl Write, swallows: &AtomicBool) {
    let (mut bytes, mut lost) = ([0; 16_384], false);
    while let Ok(n) = from.read(&mut bytes) {
        lost |= swallows.load(Ordering::SeqCst);
        if n == 0 || !lost && to.write_all(&bytes[..n]).is_err() {
            // A partition brings no end either.
            while lost && swallows.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
            return;
        }
    }
}

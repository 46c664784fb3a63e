//! A TCP proxy between a store and its server that understands enough of PostgreSQL's protocol to be nasty: it cuts a
//! connection between a commit and its answer, or keeps notifications to itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The name of the database in every URL here.
const DATABASE: &str = "postgres";

/// What is done and what was seen.
#[derive(Debug, Default)]
pub struct Tricks {
    /// Every so many commits the connection is cut before the answer comes through; 0 for never.
    pub cut_every: AtomicU32,
    /// Notifications do not come through.
    pub deafen: AtomicBool,
    /// How many connections were made.
    pub made: AtomicU32,
    /// Connections up to this number go silent: they stay open, and nothing of what the server says comes through.
    pub silent_up_to: AtomicU32,
    /// Commits that the server carried out and whose answer was lost.
    pub cuts: AtomicU32,
    /// Statements that came through, by either protocol.
    pub statements: AtomicU32,
    commits: AtomicU32,
}

/// A proxy. It ends with its value.
pub struct Proxy {
    pub tricks: Arc<Tricks>,
    port: u16,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Stands before the server on a port of the loopback.
    pub async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let tricks = Arc::new(Tricks::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, server, Arc::clone(&tricks)));
        Self { tricks, port, _tasks: tasks }
    }

    /// How a store reaches the server through it.
    pub fn url(&self) -> String {
        format!("postgres://windlass@127.0.0.1:{}/{DATABASE}?sslmode=disable", self.port)
    }
}

async fn serve(listener: TcpListener, server: u16, tricks: Arc<Tricks>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let tricks = Arc::clone(&tricks);
        connections.spawn(async move {
            let number = tricks.made.fetch_add(1, Ordering::Relaxed) + 1;
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
            // Whatever ends first ends both.
            let _end = pass(client, server, &tricks, number).await;
        });
    }
}

async fn pass(client: TcpStream, server: TcpStream, tricks: &Tricks, number: u32) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = AtomicBool::new(false);
    tokio::select! {
        end = up(from_client, to_server, tricks, &cut) => end,
        end = down(from_server, to_client, tricks, &cut, number) => end,
    }
}

/// What a client says.
async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    tricks: &Tricks,
    cut: &AtomicBool,
) -> io::Result<()> {
    // The first message has no type.
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    from.read_exact(&mut rest).await?;
    to.write_all(&[&length, &*rest].concat()).await?;
    loop {
        let message = read(&mut from).await?;
        if matches!(message[0], b'Q' | b'E') {
            tricks.statements.fetch_add(1, Ordering::Relaxed);
        }
        if message[0] == b'Q' && &message[5..] == b"COMMIT\0" {
            let every = tricks.cut_every.load(Ordering::Relaxed);
            let n = tricks.commits.fetch_add(1, Ordering::Relaxed) + 1;
            cut.store(every > 0 && n.is_multiple_of(every), Ordering::Relaxed);
        }
        to.write_all(&message).await?;
    }
}

/// What the server says.
async fn down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    tricks: &Tricks,
    cut: &AtomicBool,
    number: u32,
) -> io::Result<()> {
    loop {
        let message = read(&mut from).await?;
        if number <= tricks.silent_up_to.load(Ordering::Relaxed) {
            continue;
        }
        if message[0] == b'C' && &message[5..] == b"COMMIT\0" && cut.load(Ordering::Relaxed) {
            tricks.cuts.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if message[0] == b'A' && tricks.deafen.load(Ordering::Relaxed) {
            continue;
        }
        to.write_all(&message).await?;
    }
}

/// One message: its type, its length, the rest.
async fn read(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]) as usize;
    message.resize(1 + length, 0);
    from.read_exact(&mut message[5..]).await?;
    Ok(message)
}

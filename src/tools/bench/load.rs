//! A small HTTP/1.1 client that costs little itself: kept-alive connections, prepared requests, exact times.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_runtime::{ExitStatus, Failure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A request as it goes over the wire.
pub fn request(method: &str, path: &str, login: &str, body: Option<&str>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n");
    if !login.is_empty() {
        text.push_str(&format!("authorization: Basic {}\r\n", STANDARD.encode(login)));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    } else if method != "GET" {
        text.push_str("content-length: 0\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    text.into_bytes()
}

/// One kept-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> io::Result<Connection> {
        Self::of(TcpStream::connect(address).await?)
    }

    /// Connects from an address of this machine, of the same family.
    pub async fn open_from(source: IpAddr, address: SocketAddr) -> io::Result<Connection> {
        let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(SocketAddr::new(source, 0))?;
        Self::of(socket.connect(address).await?)
    }

    fn of(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads the whole response; returns its status.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let status = std::str::from_utf8(&self.buffer[..head]).map_err(io::Error::other)?;
        let (status, length, is_chunked) = parse_head(status).ok_or_else(|| broken("no HTTP response"))?;
        if is_chunked {
            self.skip_chunks(head).await?;
        } else {
            while self.buffer.len() < head + length {
                self.read_more().await?;
            }
        }
        Ok(status)
    }

    /// The body of the last response, as received.
    pub fn body(&self) -> &[u8] {
        find(&self.buffer, b"\r\n\r\n").map_or(&[], |end| &self.buffer[end + 4..])
    }

    /// A header of the last response, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let head = &self.buffer[..find(&self.buffer, b"\r\n\r\n")?];
        let lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let found =
            lines.filter_map(|line| line.split_once(':')).find(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    async fn skip_chunks(&mut self, start: usize) -> io::Result<()> {
        let mut at = start;
        loop {
            let Some(line) = find(&self.buffer[at..], b"\r\n") else {
                self.read_more().await?;
                continue;
            };
            let size = std::str::from_utf8(&self.buffer[at..at + line]).map_err(io::Error::other)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let end = at + line + 2 + size + 2;
            while self.buffer.len() < end {
                self.read_more().await?;
            }
            if size == 0 {
                return Ok(());
            }
            at = end;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(broken("the server closed the connection")),
            _ => Ok(()),
        }
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Status, length of the body, and whether it comes in chunks.
fn parse_head(head: &str) -> Option<(u16, usize, bool)> {
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let (mut length, mut is_chunked) = (0, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    Some((status, length, is_chunked))
}

/// Whole requests as they go over the wire.
pub type Requests = Arc<Vec<Vec<u8>>>;

/// Senders, targets and requests of a load.
#[derive(Clone)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Connections that are open at the same time.
    pub connections: usize,
    /// Sent in turn, each connection its own share; several with the same index in a share follow each other.
    pub requests: Requests,
}

/// Result of a load.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Requests with a response.
    pub count: u64,
    /// Duration, in seconds.
    pub secs: f64,
    micros: Vec<u32>,
}

impl Outcome {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        if self.secs > 0.0 { self.count as f64 / self.secs } else { 0.0 }
    }

    /// Both together.
    pub fn and(mut self, other: Outcome) -> Outcome {
        self.count += other.count;
        self.secs += other.secs;
        self.micros.extend(other.micros);
        self
    }

    /// The time, in milliseconds, within which this share of the requests got a response.
    pub fn quantile_millis(&mut self, share: f64) -> f64 {
        self.micros.sort_unstable();
        let last = self.micros.len().saturating_sub(1);
        let at = (last as f64 * share).ceil() as usize;
        self.micros.get(at.min(last)).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

/// When requests are sent.
#[derive(Clone, Copy)]
enum Pace {
    /// Each connection sends the next one when it has received the response, until the end.
    Closed(Duration),
    /// So many a second over all connections, whatever the server does; times count from when one was due.
    Open { rate: f64, length: Duration },
    /// Each request once.
    Once,
}

impl Load {
    /// As many requests as the server can serve.
    pub async fn closed(&self, length: Duration) -> Result<Outcome, Failure> {
        self.run(Pace::Closed(length)).await
    }

    /// A given number of requests a second.
    pub async fn open(&self, rate: f64, length: Duration) -> Result<Outcome, Failure> {
        self.run(Pace::Open { rate, length }).await
    }

    /// Every request once.
    pub async fn once(&self) -> Result<Outcome, Failure> {
        self.run(Pace::Once).await
    }

    async fn run(&self, pace: Pace) -> Result<Outcome, Failure> {
        let mut tasks = JoinSet::new();
        let turn = Arc::new(AtomicU64::new(0));
        let begin = Instant::now();
        for connection in 0..self.connections {
            tasks.spawn(drive(self.clone(), pace, connection, turn.clone(), begin));
        }
        let mut outcome = Outcome::default();
        while let Some(ended) = tasks.join_next().await {
            let micros = ended
                .map_err(|error| Failure::new(ExitStatus::Failure, error.to_string()))?
                .map_err(|error| Failure::new(ExitStatus::Failure, format!("a request failed: {error}")))?;
            outcome.count += micros.len() as u64;
            outcome.micros.extend(micros);
        }
        outcome.secs = begin.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

async fn drive(
    load: Load,
    pace: Pace,
    connection: usize,
    turn: Arc<AtomicU64>,
    begin: Instant,
) -> io::Result<Vec<u32>> {
    let mut open = Connection::open(load.address).await?;
    let mut micros = Vec::new();
    // Shares do not overlap, so that what one connection makes no other one removes.
    let share: Vec<&Vec<u8>> = load.requests.iter().skip(connection).step_by(load.connections).collect();
    for next in 0_usize.. {
        if share.is_empty() || (matches!(pace, Pace::Once) && next == share.len()) {
            break;
        }
        let due = match pace {
            // Not within the share: its last requests remove what its first ones made.
            Pace::Closed(length) if begin.elapsed() >= length && next % share.len() == 0 => break,
            Pace::Open { rate, length } => {
                let number = turn.fetch_add(1, Ordering::Relaxed);
                let after = Duration::from_secs_f64(number as f64 / rate);
                if after >= length {
                    break;
                }
                tokio::time::sleep_until((begin + after).into()).await;
                begin + after
            }
            Pace::Closed(_) | Pace::Once => Instant::now(),
        };
        let request = share[next % share.len()];
        let status = open.send(request).await?;
        micros.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
        if !(200..300).contains(&status) {
            let line =
                String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap_or_default());
            let body = String::from_utf8_lossy(open.body());
            return Err(io::Error::other(format!("the response to {line} has status {status}: {body}")));
        }
    }
    Ok(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_responses_are_parsed() {
        let head = "HTTP/1.1 201 Created\r\nContent-Length: 12\r\nx: y\r\n\r\n";
        assert_eq!(parse_head(head), Some((201, 12, false)));
        assert_eq!(parse_head("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), Some((200, 0, true)));
        assert_eq!(parse_head("nonsense"), None);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut outcome = Outcome { count: 4, secs: 2.0, micros: vec![4_000, 1_000, 3_000, 2_000] };
        assert_eq!(
            (outcome.rate(), outcome.quantile_millis(0.5), outcome.quantile_millis(0.99)),
            (2.0, 3.0, 4.0)
        );
    }

    #[tokio::test]
    async fn chunked_responses_are_read_to_their_end() {
        use axum::body::Body;
        let response = || async {
            let pieces = ["one", "two"].map(Ok::<_, std::convert::Infallible>);
            Body::from_stream(futures_util::stream::iter(pieces))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().route("/", axum::routing::get(response));
        tokio::spawn(async { axum::serve(listener, router).await });
        let load =
            Load { address, connections: 2, requests: Arc::new(vec![request("GET", "/", "", None); 6]) };
        assert_eq!(load.once().await.unwrap().count, 6);
    }
}

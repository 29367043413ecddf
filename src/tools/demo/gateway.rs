//! HTTP gateway to the instances: `GET /<node>` returns the response of the instance on the node.
//!
//! All nodes of the demo are this machine; on real ones an instance has a port of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::service;

/// Longest wait for the line of a request.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the gateway and returns its address. It ends with the process.
///
/// # Errors
/// When no port can be had.
pub fn start(sockets: PathBuf) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let sockets = sockets.clone();
            // An instance that hangs must not keep the checks of the others waiting.
            std::thread::spawn(move || {
                // A caller that went away needs no response.
                let _ = respond(&connection, &sockets);
            });
        }
    });
    Ok(address)
}

fn respond(mut connection: &TcpStream, sockets: &Path) -> std::io::Result<()> {
    connection.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line)?;
    let node = line.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('/');
    let is_name =
        !node.is_empty() && node.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let said = is_name.then(|| service::read(sockets, node)).flatten();
    let (status, body) = match said {
        Some(text) => ("200 OK", text),
        None => ("502 Bad Gateway", "no response\n".to_owned()),
    };
    let length = body.len();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

//! The path between an agent and its hub, which can be cut.

use std::fs::File;
use std::io;
use std::net::TcpListener as StdListener;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::Hub;
use super::wait::must;

/// A path from agents to a hub.
///
/// As root it ends in a network namespace of the agents, whose only interface is taken down: no end notices that a connection is lost.
/// Without namespaces its connections are closed, which both ends notice.
pub struct Link {
    /// The address of the hub for agents that are started by [`Link::enter`].
    pub url: String,
    namespace: Option<File>,
    cut: CancellationToken,
}

impl Link {
    /// Makes a path to a hub.
    pub async fn to(hub: &Hub) -> Link {
        let target = hub.url.trim_start_matches("http://").to_owned();
        let (listener, namespace) = match thread::spawn(namespace).join().expect("the thread ends") {
            Ok((listener, namespace)) => (must(TcpListener::from_std(listener), "a port"), Some(namespace)),
            Err(error) => {
                eprintln!("no network namespace, so that the connections are closed instead: {error}");
                (must(TcpListener::bind("127.0.0.1:0").await, "a port"), None)
            }
        };
        let url = format!("http://{}", must(listener.local_addr(), "an address"));
        let cut = CancellationToken::new();
        tokio::spawn(cut.clone().run_until_cancelled_owned(forward(listener, target, cut.clone())));
        Link { url, namespace, cut }
    }

    /// Does something where the hub is reached by this path only.
    pub fn enter<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let Some(namespace) = &self.namespace else { return act() };
        let entered = || {
            must(setns(namespace, CloneFlags::CLONE_NEWNET), "entering the network namespace");
            act()
        };
        thread::scope(|scope| scope.spawn(entered).join().expect("the thread ends"))
    }

    /// Cuts the path for good.
    pub fn cut(&self) {
        if self.namespace.is_some() {
            must(self.enter(|| set_loopback("down")), "taking the interface down");
        } else {
            self.cut.cancel();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}

/// Moves this thread into a new network namespace. Returns a listener there, and the namespace.
fn namespace() -> io::Result<(StdListener, File)> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    set_loopback("up")?;
    let listener = StdListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    Ok((listener, File::open("/proc/thread-self/ns/net")?))
}

fn set_loopback(state: &str) -> io::Result<()> {
    let status = Command::new("ip").args(["link", "set", "lo", state]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ip link set lo {state}: {status}"))) }
}

async fn forward(listener: TcpListener, target: String, cut: CancellationToken) -> io::Result<()> {
    loop {
        let (mut near, _) = listener.accept().await?;
        let (target, cut) = (target.clone(), cut.clone());
        tokio::spawn(cut.run_until_cancelled_owned(async move {
            let mut far = TcpStream::connect(target).await?;
            tokio::io::copy_bidirectional(&mut near, &mut far).await
        }));
    }
}

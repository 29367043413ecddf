//! Returns freed memory to the operating system.
//!
//! The allocator of glibc keeps freed memory between blocks that are still in use, so that a hub would stay as large as
//! its peak: 40 of 68 MB after 100,000 instances were scaled back to three.

use std::time::{Duration, Instant};

use tokio::task::JoinError;

use crate::program_pages;
use crate::worker::Worker;

/// Least pause between two passes.
const LEAST_PAUSE: Duration = Duration::from_secs(60);
/// Time after which a program has started.
const START: Duration = Duration::from_secs(10);
/// Reciprocal of the maximum share of time for passes, because a pass blocks every thread that allocates.
const SHARE: u32 = 1_000;

/// Returns freed memory now and then.
#[derive(Debug)]
pub struct FreedMemory {
    pause: Duration,
    has_started: bool,
}

impl Default for FreedMemory {
    fn default() -> Self {
        Self { pause: LEAST_PAUSE, has_started: false }
    }
}

impl Worker for FreedMemory {
    type Error = JoinError;
    const NAME: &'static str = "freed_memory";

    async fn pass(&mut self) -> Result<(), JoinError> {
        let began = Instant::now();
        // A pass that cannot be started because the process is stopping returns nothing.
        tokio::task::spawn_blocking(return_freed).await?;
        if !std::mem::replace(&mut self.has_started, true)
            && let Err(error) = program_pages::unmap_code()
        {
            tracing::debug!(%error, "the code of the start stays mapped");
        }
        self.pause = LEAST_PAUSE.max(began.elapsed().saturating_mul(SHARE));
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn first_pause(&self) -> Duration {
        START
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no safe function returns what the allocator of glibc keeps")]
fn return_freed() {
    // SAFETY: `malloc_trim` takes the locks of the allocator, and may be called at any time by any thread. No memory in use is changed.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators return it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_freed() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// Returns the anonymous memory of this process, in KiB.
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a line");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }

    #[tokio::test]
    async fn memory_that_was_freed_between_blocks_in_use_is_returned() {
        let start = resident_kib();
        let mut blocks: Vec<Option<Vec<u8>>> = (0..400_000).map(|_| Some(vec![1; 256])).collect();
        let peak = resident_kib() - start;
        for (number, block) in blocks.iter_mut().enumerate() {
            if number % 1_000 != 0 {
                *block = None;
            }
        }
        FreedMemory::default().pass().await.expect("a pass");
        let left = resident_kib().saturating_sub(start);
        assert!(
            left < peak / 3,
            "{left} of {peak} KiB are left; blocks in use: {}",
            blocks.iter().flatten().count()
        );
    }
}

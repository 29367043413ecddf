//! One transaction for many callers: while one batch is written, the next one is collected.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of work items in one transaction.
const MOST: usize = 256;

/// A work item with the channel of its result.
type Waiting<Work, Output> = (Work, oneshot::Sender<Output>);

/// Collects the work of concurrent callers. Only one batch is written at a time: concurrent batches would be smaller,
/// and many small transactions take longer than a few large ones.
#[derive(Debug)]
pub struct Batches<Work, Output> {
    waiting: Mutex<Vec<Waiting<Work, Output>>>,
    /// Its holder writes all waiting work.
    turn: tokio::sync::Mutex<()>,
}

impl<Work, Output> Default for Batches<Work, Output> {
    fn default() -> Self {
        Batches { waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }
}

impl<Work: Clone, Output> Batches<Work, Output> {
    /// Executes a work item together with those of other callers, in order of arrival. `write` executes its items in one
    /// transaction and returns one result for each.
    ///
    /// Work whose batch failed or was abandoned by its writer is repeated, so it must be idempotent.
    ///
    /// # Errors
    /// The error of `write`.
    pub async fn run<E, F>(&self, work: Work, write: impl Fn(Vec<Work>) -> F) -> Result<Output, E>
    where
        F: Future<Output = Result<Vec<Output>, E>>,
    {
        loop {
            let (sender, mut output) = oneshot::channel();
            self.lock().push((work.clone(), sender));
            // A caller whose work was written by another one does not wait to write a batch for later callers.
            let turn = tokio::select! {
                biased;
                outcome = &mut output => match outcome {
                    Ok(output) => return Ok(output),
                    Err(_) => continue,
                },
                turn = self.turn.lock() => turn,
            };
            let written = self.write_waiting(&write).await;
            drop(turn);
            if let Ok(output) = output.await {
                return Ok(output);
            }
            written?;
        }
    }

    async fn write_waiting<E, F>(&self, write: impl Fn(Vec<Work>) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<Vec<Output>, E>>,
    {
        let mut waiting = std::mem::take(&mut *self.lock());
        while !waiting.is_empty() {
            let later = waiting.split_off(waiting.len().min(MOST));
            let (works, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            for (output, sender) in write(works).await?.into_iter().zip(senders) {
                // The receiver may have been dropped meanwhile.
                let _ = sender.send(output);
            }
            waiting = later;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting<Work, Output>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    async fn double(works: Vec<u32>) -> Result<Vec<u32>, String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(works.into_iter().map(|work| work * 2).collect())
    }

    #[tokio::test]
    async fn concurrent_callers_share_batches_and_each_gets_its_own_result() {
        let batches = Arc::new(Batches::default());
        let written = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for number in 0..1_000_u32 {
            let (batches, written) = (batches.clone(), written.clone());
            callers.spawn(async move {
                let write = |works: Vec<u32>| {
                    assert!(works.len() <= MOST);
                    written.fetch_add(1, Ordering::Relaxed);
                    double(works)
                };
                (number, batches.run(number, write).await)
            });
        }
        while let Some(ended) = callers.join_next().await {
            let (number, output) = ended.unwrap();
            assert_eq!(output, Ok(number * 2));
        }
        assert!(written.load(Ordering::Relaxed) <= 10, "{written:?}");
    }

    #[tokio::test]
    async fn work_is_done_anew_when_its_writer_fails_or_gives_up() {
        let batches = Arc::new(Batches::<u32, u32>::default());
        let gone = tokio::spawn({
            let batches = batches.clone();
            async move { batches.run(1, |_| std::future::pending::<Result<Vec<u32>, String>>()).await }
        });
        tokio::task::yield_now().await;
        let failing = tokio::spawn({
            let batches = batches.clone();
            async move {
                let write = |_| async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Err::<Vec<u32>, _>("no".to_owned())
                };
                batches.run(2, write).await
            }
        });
        tokio::task::yield_now().await;
        let remaining = tokio::spawn({
            let batches = batches.clone();
            async move { batches.run(3, double).await }
        });
        tokio::task::yield_now().await;
        gone.abort();
        assert_eq!(failing.await.unwrap(), Err("no".to_owned()));
        assert_eq!(remaining.await.unwrap(), Ok(6));
    }
}

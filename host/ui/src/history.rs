//! What the pages about past calls read: pages of records, statistics of many calls, and what only a running host knows.

mod call_log;
mod live_log;
mod samples;

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolhost_kernel::{Kernel, Subscription};
use toolhost_store::{History, Store, StoreError};

pub use call_log::{CallLog, Coverage};
pub use live_log::{LiveLog, LogLine};
pub use samples::{Sample, Samples};

/// Time between two samples, and between two looks for new records.
const INTERVAL: Duration = Duration::from_secs(5);

/// The sources of the pages about past calls.
pub struct HistorySources {
    /// `None`: the host keeps no records.
    pub records: Option<Records>,
    pub live: LiveLog,
    pub samples: Samples,
}

/// The records of a host.
pub struct Records {
    pub store: Store,
    pub history: History,
    pub log: CallLog,
}

impl HistorySources {
    pub fn open(store: Option<&Store>) -> Result<Self, StoreError> {
        let records = match store {
            Some(store) => Some(Records {
                store: store.clone(),
                history: store.history()?,
                log: CallLog::default(),
            }),
            None => None,
        };
        Ok(Self {
            records,
            live: LiveLog::default(),
            samples: Samples::default(),
        })
    }

    /// Reads records in advance, takes samples and follows events until the sources are dropped.
    pub fn follow(self: &Arc<Self>, kernel: Option<&Arc<Kernel>>) {
        let sources = Arc::downgrade(self);
        let weak = kernel.map(Arc::downgrade);
        tokio::spawn(take_samples(sources, weak));
        if let Some(kernel) = kernel {
            let events = kernel.subscribe(None, None);
            tokio::spawn(follow_events(Arc::downgrade(self), events));
        }
    }

    /// Reads new records, within a bound.
    pub fn update(&self) -> Result<Coverage, StoreError> {
        match &self.records {
            Some(records) => records.log.update(&records.history),
            None => Ok(Coverage::default()),
        }
    }
}

async fn take_samples(sources: Weak<HistorySources>, kernel: Option<Weak<Kernel>>) {
    loop {
        let Some(strong) = sources.upgrade() else {
            return;
        };
        let kernel = kernel.as_ref().and_then(Weak::upgrade);
        let work = tokio::task::spawn_blocking(move || {
            strong.samples.take(
                kernel.as_deref(),
                strong.records.as_ref().map(|records| &records.store),
            );
            // A store that cannot be read is reported by the pages.
            strong.update().is_ok_and(|coverage| !coverage.is_complete)
        });
        let has_more = work.await.unwrap_or(false);
        if !has_more {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

async fn follow_events(sources: Weak<HistorySources>, mut events: Subscription) {
    loop {
        let event = events.next().await;
        let Some(sources) = sources.upgrade() else {
            return;
        };
        if let Ok(event) = event {
            sources.live.add(&event);
        }
    }
}

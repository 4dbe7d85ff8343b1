//! Rendered questions. A diff can take seconds to render, and an open page loads its question again after every event of
//! the inbox.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use maud::Markup;
use tokio::sync::{OnceCell, Semaphore};

use crate::diff_view::DiffLayout;
use crate::error_page::ErrorPage;
use crate::inbox::PendingEntry;
use crate::question_details::QuestionDetails;
use crate::record_pages;

/// Number of questions that are kept. Each has a few megabytes at most.
const MAX_ENTRIES: usize = 8;
/// Number of questions that are rendered at once.
const MAX_CONCURRENT: usize = 2;

/// The last rendered questions. Each is rendered once, also for several browsers.
pub struct RenderCache {
    entries: Mutex<VecDeque<Rendered>>,
    slots: Arc<Semaphore>,
}

struct Rendered {
    key: RenderKey,
    /// Filled by the first request.
    details: Arc<OnceCell<Arc<Markup>>>,
}

/// What the rendered text depends on. It contains links with the number.
#[derive(Clone, PartialEq, Eq)]
struct RenderKey {
    number: u64,
    digest: String,
    layout: DiffLayout,
}

impl Default for RenderCache {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT)),
        }
    }
}

impl RenderCache {
    /// Returns the rendered details of a question.
    pub async fn details(
        &self,
        entry: &Arc<PendingEntry>,
        layout: DiffLayout,
    ) -> Result<Arc<Markup>, ErrorPage> {
        let details = self.cell(RenderKey {
            number: entry.number,
            digest: entry.digest.clone(),
            layout,
        });
        let render = || async {
            // Held until the work has ended, also if the request has ended before. The semaphore is never closed.
            let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
            let entry = Arc::clone(entry);
            record_pages::blocking(move || {
                let _slot = slot;
                let entry = &entry;
                Ok(Arc::new(QuestionDetails { entry, layout }.render()))
            })
            .await
        };
        details.get_or_try_init(render).await.map(Arc::clone)
    }

    fn cell(&self, key: RenderKey) -> Arc<OnceCell<Arc<Markup>>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.iter().find(|entry| entry.key == key) {
            return Arc::clone(&known.details);
        }
        let details = Arc::default();
        entries.push_front(Rendered {
            key,
            details: Arc::clone(&details),
        });
        entries.truncate(MAX_ENTRIES);
        details
    }
}

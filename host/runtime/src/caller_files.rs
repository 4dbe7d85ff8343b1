//! The files that the calls of one caller can use: those of the operator's grants and of the session.

use std::sync::Arc;

use toolhost_contract::{CallError, Descriptor, FileAccess, Grant, Sink};
use toolhost_vfs::{ReadTracker, Stage};

use crate::capabilities;
use crate::file_read_set::FileReadSet;
use crate::files::Files;

/// The files of one caller.
pub(crate) struct CallerFiles {
    pub(crate) read_only: Files,
    pub(crate) granted: Files,
}

impl CallerFiles {
    /// Returns the files that one call of the tool can use.
    pub(crate) fn for_tool(
        &self,
        tool: Option<&Descriptor>,
        grant: &Grant,
        stage: Option<&Stage>,
        no_files: &Files,
        sink: &Arc<dyn Sink>,
    ) -> Result<Files, CallError> {
        // A tool that declares `requires` gets nothing else.
        let access = match tool {
            Some(tool) if !capabilities::uses_files(tool) => FileAccess::Nothing,
            Some(_) | None => grant.files(),
        };
        Ok(match (access, stage) {
            (FileAccess::Nothing, _) => record_reads(no_files, sink),
            (FileAccess::ReadOnly, _) => {
                record_reads(&self.read_only.with_read_guard(grant.guard()), sink)
            }
            (FileAccess::AsGranted, Some(stage)) => self.granted.staged(stage.clone()),
            (FileAccess::AsGranted, None) if grant.is_staged() => {
                return Err(CallError::internal(
                    "a call whose changes must be staged has no stage",
                ));
            }
            (FileAccess::AsGranted, None) => self.granted.with_read_guard(grant.guard()),
        })
    }
}

/// Records the call's reads if the sink requests them.
pub(crate) fn record_reads(files: &Files, sink: &Arc<dyn Sink>) -> Files {
    if !sink.wants_read_set() {
        return files.clone();
    }
    let reads = Arc::<ReadTracker>::default();
    let scope = files.scope().clone();
    sink.set_read_set(Arc::new(FileReadSet::new(Arc::clone(&reads), scope)));
    files.recording_reads(reads)
}

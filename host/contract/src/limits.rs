//! Resource limits of a call.

use std::time::Duration;

/// Resource limits of a call. `SECURITY.md` documents how each limit is enforced. The defaults suit Rust, C, JavaScript
/// and Python guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory in bytes, summed over all memories of the call.
    pub memory: u64,
    /// Size of the input as JSON, in bytes.
    pub input: u64,
    /// Size of the outcome in bytes, including all texts and blobs.
    pub output: u64,
    /// Bytes of standard output, and of live output to the host's `output` function.
    pub stdout: u64,
    /// Bytes of standard error; the tail is kept for error messages.
    pub stderr: u64,
    /// Bytes that the guest can pass to the host in the arguments of one host call.
    pub hostcall_bytes: u64,
    pub memories: usize,
    pub instances: usize,
    pub tables: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Component-model handles.
    pub handles: u32,
    /// Open files, streams and pollables.
    pub resources: usize,
    /// Entries of one directory listing.
    pub dir_entries: usize,
    /// Bytes that one call may write to files.
    pub written_bytes: u64,
    /// Files and directories that one call may create or change.
    pub changed_files: usize,
    /// Random bytes per host call.
    pub random_bytes: u64,
    /// Maximum rate, per second, of log messages, of events and of progress updates.
    pub messages_per_second: u32,
    /// Bytes of log messages and events per second.
    pub message_bytes_per_second: u64,
    /// Wall-clock time from the start of the guest. `None` selects the default for the kind of tool.
    pub timeout: Option<Duration>,
}

impl Limits {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
    pub const NETWORK_TIMEOUT: Duration = Duration::from_mins(1);
    /// Upper bound for every tool, plugin and configuration.
    pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);
    pub const MAX_MEMORY: u64 = 256 << 20;
    /// Time limit of `describe`, which runs without grants.
    pub const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            input: 1 << 20,
            output: 4 << 20,
            stdout: 1 << 20,
            stderr: 256 << 10,
            hostcall_bytes: 8 << 20,
            memories: 8,
            instances: 64,
            tables: 16,
            table_elements: 20_000,
            handles: 4_096,
            resources: 1_024,
            dir_entries: 10_000,
            written_bytes: 2 << 30,
            changed_files: 10_000,
            random_bytes: 64 << 10,
            messages_per_second: 1_000,
            message_bytes_per_second: 256 << 10,
            timeout: None,
        }
    }
}

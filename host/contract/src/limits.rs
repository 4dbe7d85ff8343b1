//! What one call may use, all in one table.

use std::time::Duration;

/// Every number is enforced; `SECURITY.md` says by what. The defaults hold Rust, C, JavaScript and Python guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, summed over all memories of the call.
    pub memory: u64,
    /// Bytes of the input as JSON.
    pub input: u64,
    /// Bytes of the outcome, all its texts and blobs together.
    pub output: u64,
    /// Bytes of standard output, and of live output to the host's `output` function.
    pub stdout: u64,
    /// Bytes of standard error; the tail is kept for error messages.
    pub stderr: u64,
    /// Bytes that the guest may hand to the host in arguments of one host call.
    pub hostcall: u64,
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
    pub written: u64,
    /// Files and directories that one call may make or change.
    pub changed: usize,
    /// Random bytes of one host call.
    pub random: u64,
    /// Log messages, events and progress updates per second, each.
    pub messages_per_second: u32,
    /// Bytes of log messages and events per second.
    pub message_bytes_per_second: u64,
    /// Wall-clock time, counted from the moment the guest starts. None: by the kind of tool.
    pub timeout: Option<Duration>,
}

impl Limits {
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    pub const NETWORK_TIMEOUT: Duration = Duration::from_mins(1);
    /// No tool, plugin or configuration can ask for more.
    pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);
    pub const MAX_MEMORY: u64 = 256 << 20;
    /// `describe` runs with nothing granted and this long.
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
            hostcall: 8 << 20,
            memories: 8,
            instances: 64,
            tables: 16,
            table_elements: 20_000,
            handles: 4_096,
            resources: 1_024,
            dir_entries: 10_000,
            written: 2 << 30,
            changed: 10_000,
            random: 64 << 10,
            messages_per_second: 1_000,
            message_bytes_per_second: 256 << 10,
            timeout: None,
        }
    }
}

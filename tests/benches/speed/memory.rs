//! The most memory that this process ever had.

use std::fs;

use anyhow::Context as _;

/// In MiB.
pub fn peak() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmHWM")?.parse::<f64>()? / 1024.0)
}

/// From here on `peak` starts from what is used now: what ran before must not hide what runs next.
pub fn forget_peak() -> anyhow::Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("reset VmHWM")
}

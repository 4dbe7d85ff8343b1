//! Peak memory of this process.

use std::fs;

use anyhow::Context as _;

/// Returns the peak resident memory, in MiB.
pub fn peak() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmHWM")?.parse::<f64>()? / 1024.0)
}

/// Resets the peak to the current use, so that earlier benchmarks do not hide later ones.
pub fn reset_peak() -> anyhow::Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("reset VmHWM")
}

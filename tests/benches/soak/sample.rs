//! Samples of a process's resource use, and detection of growth.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    resident_kib: u64,
    descriptors: u64,
    processes: u64,
    directories: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} MiB resident, {} descriptors, {} processes, {} directories;",
            self.resident_kib >> 10,
            self.descriptors,
            self.processes,
            self.directories
        )
    }
}

#[derive(Default)]
pub struct Samples(Vec<Sample>);

type Measure = (&'static str, fn(&Sample) -> u64, u64);

/// Measures, each with the growth that counts as noise.
const MEASURES: [Measure; 4] = [
    (
        "resident memory (KiB)",
        |sample| sample.resident_kib,
        16 << 10,
    ),
    ("descriptors", |sample| sample.descriptors, 16),
    ("processes below the host", |sample| sample.processes, 8),
    ("directories of its state", |sample| sample.directories, 16),
];

impl Samples {
    pub fn take(&mut self, pid: u32, state: &Path) {
        self.0.push(Sample {
            resident_kib: resident_kib(pid),
            descriptors: entries(Path::new(&format!("/proc/{pid}/fd"))),
            processes: descendants(pid),
            directories: directories(state),
        });
    }

    pub fn last(&self) -> String {
        self.0.last().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the medians of the second and last quarter of the run. The first quarter is the warm-up.
    fn medians(&self, measure: fn(&Sample) -> u64) -> (u64, u64) {
        let quarter = self.0.len() / 4;
        let median = |samples: &[Sample]| {
            let mut values: Vec<u64> = samples.iter().map(measure).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        (
            median(&self.0[quarter..2 * quarter]),
            median(&self.0[3 * quarter..]),
        )
    }

    pub fn table(&self) -> String {
        let mut table =
            String::from("| | second quarter | last quarter | most |\n|---|---|---|---|\n");
        for (name, measure, _) in MEASURES {
            let (early, late) = self.medians(measure);
            let most = self.0.iter().map(measure).max().unwrap_or_default();
            let _ = writeln!(table, "| {name} | {early} | {late} | {most} |");
        }
        table
    }

    pub fn grown(&self) -> Vec<String> {
        let mut grown = Vec::new();
        for (name, measure, noise) in MEASURES {
            let (early, late) = self.medians(measure);
            if late > early + noise {
                grown.push(format!("{name} grew from {early} to {late}"));
            }
        }
        grown
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

fn entries(dir: &Path) -> u64 {
    fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

fn directories(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let below = entries.filter_map(Result::ok).map(|entry| entry.path());
    below
        .filter(|path| path.is_dir() && !path.is_symlink())
        .map(|path| 1 + directories(&path))
        .sum()
}

/// Counts the descendants of `pid`.
fn descendants(pid: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let parents: Vec<(u32, u32)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|id: u32| Some((id, parent(id)?)))
        .collect();
    let (mut found, mut next) = (0, vec![pid]);
    while let Some(one) = next.pop() {
        let children = parents.iter().filter(|(_, parent)| *parent == one);
        for (child, _) in children {
            found += 1;
            next.push(*child);
        }
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

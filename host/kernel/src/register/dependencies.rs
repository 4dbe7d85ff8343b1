//! Resolution of dependencies between tools. A tool in a dependency cycle is unavailable.

use std::collections::HashMap;
use std::sync::Arc;

use toolhost_contract::version::split_version;
use toolhost_contract::{VersionReq, text};

use crate::registry::{ToolEntry, VersionGroup};

/// Maximum number of names shown for a dependency chain.
const MAX_SHOWN: usize = 10;

/// A dependency declared by a tool.
struct Dependency {
    /// The dependency as it was written.
    shown: String,
    /// Index of the group. `None`: no tool has the name.
    group: Option<usize>,
    version: Result<Option<VersionReq>, String>,
}

/// Indices of a group and of an entry in it.
type EntryIndex = (usize, usize);

struct DependencyGraph<'a> {
    groups: &'a [VersionGroup],
    wanted: HashMap<EntryIndex, Vec<Dependency>>,
    /// Whether all dependencies of an entry are met. Disabled entries are not resolved, because they cannot be called.
    satisfied: Vec<Vec<bool>>,
}

/// Returns, for each group, the entries that cannot be called and the reasons.
pub(super) fn unmet_dependencies(
    groups: &[VersionGroup],
    index: &HashMap<String, usize>,
) -> Vec<HashMap<usize, String>> {
    let wanted = wanted(groups, index);
    if wanted.is_empty() {
        return groups.iter().map(|_| HashMap::new()).collect();
    }
    let free = |group: usize, entry: usize| !wanted.contains_key(&(group, entry));
    let whole = groups.iter().enumerate().map(|(at, group)| {
        let entries = 0..group.entries.len();
        entries.map(|entry| free(at, entry)).collect()
    });
    let mut web = DependencyGraph {
        groups,
        satisfied: whole.collect(),
        wanted,
    };
    web.resolve();
    let reasons = groups.iter().enumerate().map(|(at, group)| {
        let entries = 0..group.entries.len();
        let lacking = entries.filter(|entry| !web.satisfied[at][*entry]);
        lacking
            .map(|entry| (entry, web.reason((at, entry))))
            .collect()
    });
    reasons.collect()
}

fn wanted(
    groups: &[VersionGroup],
    index: &HashMap<String, usize>,
) -> HashMap<EntryIndex, Vec<Dependency>> {
    let mut wanted = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        for (position, entry) in group.entries.iter().enumerate() {
            if entry.enabled && !entry.tool.depends_on.is_empty() {
                let each = entry.tool.depends_on.iter().map(|dependency| {
                    let name = dependency.trim().to_lowercase();
                    let (name, version) = split_version(&name);
                    Dependency {
                        shown: text::escape_line(dependency.trim(), 80),
                        group: index.get(name).copied(),
                        version: version.map(VersionReq::parse).transpose(),
                    }
                });
                wanted.insert((at, position), each.collect());
            }
        }
    }
    wanted
}

impl DependencyGraph<'_> {
    /// Marks entries whose dependencies are met until nothing changes. Cycles are never marked.
    fn resolve(&mut self) {
        let mut open: Vec<EntryIndex> = self.wanted.keys().copied().collect();
        loop {
            let before = open.len();
            let (now, later): (Vec<EntryIndex>, Vec<EntryIndex>) =
                open.into_iter().partition(|index| {
                    let wanted = self.wanted.get(index);
                    wanted.is_none_or(|all| all.iter().all(|one| self.is_met(one)))
                });
            for (group, entry) in now {
                self.satisfied[group][entry] = true;
            }
            if later.len() == before {
                return;
            }
            open = later;
        }
    }

    fn is_met(&self, wanted: &Dependency) -> bool {
        self.candidates(wanted).any(|(group, entry)| {
            self.satisfied[group][entry] && self.entry((group, entry)).enabled
        })
    }

    /// Returns the tools that match a dependency, whether or not they can be called.
    fn candidates<'s>(&'s self, wanted: &'s Dependency) -> impl Iterator<Item = EntryIndex> + 's {
        let group = wanted.group.filter(|_| wanted.version.is_ok());
        let version = wanted.version.as_ref().ok().and_then(Option::as_ref);
        group.into_iter().flat_map(move |at| {
            let group = &self.groups[at];
            let entries = group.entries.iter().enumerate();
            let meant = entries.filter(move |(_, entry)| match version {
                Some(version) => version.selects(&entry.version),
                None => group.fits(entry),
            });
            meant.map(move |(entry, _)| (at, entry))
        })
    }

    fn entry(&self, (group, entry): EntryIndex) -> &Arc<ToolEntry> {
        &self.groups[group].entries[entry]
    }

    /// Describes the chain of dependencies from a tool to the missing one.
    fn reason(&self, start: EntryIndex) -> String {
        let mut chain = vec![(start, self.entry(start).name.to_string())];
        loop {
            let here = chain.last().map_or(start, |(index, _)| *index);
            let mut dependencies = self.wanted.get(&here).into_iter().flatten();
            let Some(unmet) = dependencies.find(|one| !self.is_met(one)) else {
                return "a dependency is missing".to_owned();
            };
            let mut next = self
                .candidates(unmet)
                .filter(|index| self.entry(*index).enabled);
            let Some(next) = next.next() else {
                let missing = self.missing(unmet);
                return format!("{}: {missing}", shown(&chain, &unmet.shown));
            };
            if let Some(begin) = chain.iter().position(|(index, _)| *index == next) {
                let cycle = shown(&chain, &chain[begin].1);
                return format!("{cycle} is a cycle; remove one of these dependencies");
            }
            chain.push((next, unmet.shown.clone()));
        }
    }

    fn missing(&self, unmet: &Dependency) -> String {
        let shown = &unmet.shown;
        match (&unmet.version, unmet.group) {
            (Err(reason), _) => reason.clone(),
            (Ok(_), None) => format!("no loaded plugin provides `{shown}`; load one that does"),
            (Ok(_), Some(_)) if self.candidates(unmet).next().is_some() => {
                format!("`{shown}` is disabled; enable it")
            }
            (Ok(_), Some(group)) => format!(
                "only these versions are loaded: {}; load a version that matches `{shown}`",
                self.groups[group].list()
            ),
        }
    }
}

/// Formats a chain as `a → b → c`.
fn shown(chain: &[(EntryIndex, String)], end: &str) -> String {
    let mut names: Vec<&str> = chain.iter().map(|(_, name)| name.as_str()).collect();
    names.push(end);
    if names.len() > MAX_SHOWN {
        let rest = names.split_off(names.len() - MAX_SHOWN / 2);
        names.truncate(MAX_SHOWN / 2);
        names.push("…");
        names.extend(rest);
    }
    names.join(" → ")
}

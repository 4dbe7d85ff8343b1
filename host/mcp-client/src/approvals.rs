//! User approvals of servers, by exact command or address, and of their tools, by definition. They are stored in the
//! user's state directory, never in a project, so that a repository cannot contain an approval.
//!
//! Only [`Approvals::approve`] creates an approval. Code that examines tools requires an existing one; otherwise a
//! server that writes its own approval could return after it was removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolhost_contract::{Descriptor, Digest, ToolName, text};

use crate::definition::{Definition, difference};
use crate::tool_conversion::{AdoptedTool, MAX_TOOLS};

mod file;

/// Maximum size of the stored definitions of one server, as JSON. One complete list always fits.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of stored tools that wait for an approval. The server lists further ones again.
const MAX_WAITING: usize = 200;
const MAX_WAITING_BYTES: usize = 1 << 20;
/// How long to wait for the lock. Another program needs far less time to change a file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} cannot be read: {reason}; move the file away and approve `{server}` again",
        path.display()
    )]
    Broken {
        server: String,
        path: PathBuf,
        reason: String,
    },
    #[error(
        "{} has been locked by another program for more than {} s; end that program and try again",
        path.display(),
        LOCK_TIMEOUT.as_secs()
    )]
    Busy { path: PathBuf },
    #[error(
        "its approval was revoked or belongs to another command; run `host mcp approve {server}`"
    )]
    Revoked { server: String },
    #[error(
        "its sandbox would let it read {}, which is not approved; run `host mcp approve {server}`",
        text::escape_line(&path.to_string_lossy(), usize::MAX)
    )]
    UnapprovedRead { server: String, path: PathBuf },
    #[error(
        "there is no room to store these tool definitions in addition to the known ones; run `host mcp remove {server}` \
         to delete all of them"
    )]
    Full { server: String },
}

/// One file per server, so that a large one affects only its server. Each operation reads the file again, because
/// another program can have changed it.
#[derive(Debug)]
pub struct Approvals(ApprovalStorage);

#[derive(Debug)]
enum ApprovalStorage {
    Folder(PathBuf),
    /// Lost when the program exits.
    Memory(Mutex<BTreeMap<String, ApprovedServer>>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ApprovedServer {
    /// Digest of the command or the address.
    digest: String,
    /// The paths of the program that its sandbox grants. Approvals from before this field contain none.
    #[serde(default)]
    reads: BTreeSet<PathBuf>,
    /// Whether the tools were listed since the approval. Tools that appear later need a separate approval.
    #[serde(default)]
    listed: bool,
    /// Keyed by the names that models and rules use, so that a tool whose own name is only spelled differently remains
    /// the tool that the user approved.
    tools: BTreeMap<String, StoredTool>,
    /// Tools of the last list that wait for an approval, because a server may list them only while a host is running.
    #[serde(default)]
    waiting: BTreeMap<String, StoredTool>,
}

/// An approval without its tools.
#[derive(Deserialize)]
struct ApprovalHead {
    digest: String,
    #[serde(default)]
    reads: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredTool {
    /// The server's own name for the tool.
    own: String,
    digest: String,
    /// Parsed only when it is displayed, because the file is read for each list.
    definition: Box<RawValue>,
}

/// A tool that waits for an approval.
#[derive(Debug, Clone)]
pub struct ToolChange {
    pub now: AdoptedTool,
    pub earlier: ApprovedDefinition,
}

/// The approved definition of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovedDefinition {
    /// Another definition, as JSON.
    Other(String),
    Nothing,
    /// None, and there is no room to store the tool in addition to the known ones.
    NoRoom,
}

/// Tools compared with the approved ones.
#[derive(Debug, Default)]
pub struct ToolComparison {
    pub same: Vec<AdoptedTool>,
    pub changed: Vec<ToolChange>,
}

impl ToolChange {
    /// The complete difference, escaped and not truncated. It is coarser if it is not found before `deadline`.
    pub fn difference(&self, deadline: Instant) -> String {
        let before = match &self.earlier {
            ApprovedDefinition::Other(before) => Some(before.as_str()),
            ApprovedDefinition::Nothing | ApprovedDefinition::NoRoom => None,
        };
        difference(before, &self.now.definition.json, deadline)
    }
}

impl Approvals {
    pub fn in_folder(folder: PathBuf) -> Self {
        Self(ApprovalStorage::Folder(folder))
    }

    pub fn in_memory() -> Self {
        Self(ApprovalStorage::Memory(Mutex::default()))
    }

    fn head(&self, server: &str) -> Result<Option<ApprovalHead>, ApprovalError> {
        let head = match &self.0 {
            // A file is replaced atomically, so reading needs no lock.
            ApprovalStorage::Folder(folder) => file::head(folder, server)?,
            ApprovalStorage::Memory(servers) => {
                let servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.get(server).map(|known| ApprovalHead {
                    digest: known.digest.clone(),
                    reads: known.reads.clone(),
                })
            }
        };
        Ok(head)
    }

    pub fn is_approved(&self, server: &str, digest: Digest) -> Result<bool, ApprovalError> {
        let head = self.head(server)?;
        Ok(head.is_some_and(|head| head.digest == digest.to_string()))
    }

    /// Returns an error unless the user has approved read access to these files and directories of the server's program.
    /// Paths that every sandbox grants need no approval.
    pub fn check_reads(
        &self,
        server: &str,
        reads: &BTreeSet<PathBuf>,
    ) -> Result<(), ApprovalError> {
        let mut wanted = reads.iter().filter(|path| needs_approval(path)).peekable();
        if wanted.peek().is_none() {
            return Ok(());
        }
        let approved = self.head(server)?.map(|head| head.reads);
        let approved = approved.unwrap_or_default();
        let new = wanted.find(|path| !path.ancestors().any(|above| approved.contains(above)));
        new.map_or(Ok(()), |path| {
            Err(ApprovalError::UnapprovedRead {
                server: server.to_owned(),
                path: path.clone(),
            })
        })
    }

    /// Records the user's approval of a server and of read access to the paths of its program. Approved definitions of tools
    /// remain if the command or the sandbox has changed, so that the change does not approve other definitions.
    /// [`Approvals::forget`] removes them.
    pub fn approve(
        &self,
        server: &str,
        digest: Digest,
        reads: &BTreeSet<PathBuf>,
    ) -> Result<(), ApprovalError> {
        let digest = digest.to_string();
        self.change(server, |known| {
            let is_known = known
                .as_ref()
                .is_some_and(|known| known.digest == digest && known.reads == *reads);
            if let Some(known) = known {
                known.digest = digest;
                known.reads.clone_from(reads);
            } else {
                *known = Some(ApprovedServer {
                    digest,
                    reads: reads.clone(),
                    listed: false,
                    tools: BTreeMap::new(),
                    waiting: BTreeMap::new(),
                });
            }
            Ok(((), !is_known))
        })
    }

    pub fn forget(&self, server: &str) -> Result<bool, ApprovalError> {
        match &self.0 {
            ApprovalStorage::Folder(folder) => file::remove(folder, server),
            ApprovalStorage::Memory(servers) => {
                let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(servers.remove(server).is_some())
            }
        }
    }

    /// Compares tools with the approved ones. The first list after the approval of a server is approved with it; tools
    /// that a later list adds are not. Returns an error for a server without an approval.
    pub fn compare(
        &self,
        server: &str,
        digest: Digest,
        tools: Vec<AdoptedTool>,
    ) -> Result<ToolComparison, ApprovalError> {
        self.change(server, |known| {
            let known = approved(known, server, digest)?;
            let is_first = !known.listed && known.tools.is_empty();
            let mut resolved = ToolComparison::default();
            let mut unseen = Vec::new();
            let names = KnownNames::of(known);
            for tool in tools {
                match names.find(known, &tool) {
                    KnownTool::Same => resolved.same.push(tool),
                    KnownTool::Renamed => unseen.push((tool, true)),
                    KnownTool::Unseen => unseen.push((tool, is_first)),
                    KnownTool::Other(pin) => resolved.changed.push(ToolChange {
                        earlier: ApprovedDefinition::Other(pin.definition.get().to_owned()),
                        now: tool,
                    }),
                }
            }
            let mut is_changed = is_first;
            let mut capacity = RemainingCapacity::of(known, !unseen.is_empty());
            for (tool, is_approved) in unseen {
                // Nothing is removed to make room: a removed tool could return with another definition.
                let fits = capacity.reserve(&tool);
                if fits && is_approved {
                    known.tools.insert(name(&tool), pin(&tool));
                    resolved.same.push(tool);
                    is_changed = true;
                } else {
                    resolved.changed.push(ToolChange {
                        earlier: if fits {
                            ApprovedDefinition::Nothing
                        } else {
                            ApprovedDefinition::NoRoom
                        },
                        now: tool,
                    });
                }
            }
            known.listed = true;
            let waiting = waiting(&resolved.changed);
            let digests = |pins: &BTreeMap<String, StoredTool>| -> Vec<String> {
                pins.values().map(|pin| pin.digest.clone()).collect()
            };
            if digests(&waiting) != digests(&known.waiting) {
                known.waiting = waiting;
                is_changed = true;
            }
            resolved.same.sort_by_cached_key(name);
            Ok((resolved, is_changed))
        })
    }

    /// The tools that waited for an approval when any host last listed the server.
    pub fn waiting(&self, server: &str, digest: Digest) -> Result<Vec<ToolChange>, ApprovalError> {
        self.change(server, |known| {
            let known = approved(known, server, digest)?;
            let waiting = known.waiting.iter().filter_map(|(name, pin)| {
                let earlier = known
                    .tools
                    .get(name)
                    .map_or(ApprovedDefinition::Nothing, |pin| {
                        ApprovedDefinition::Other(pin.definition.get().to_owned())
                    });
                let now = pin.tool(name)?;
                Some(ToolChange { now, earlier })
            });
            Ok((waiting.collect(), false))
        })
    }

    /// Records the user's approval of these tools in their current form. Approvals of other tools remain, because a
    /// server can hide a tool during the review; they are removed only if the user has seen that there is no room for
    /// both.
    pub fn approve_tools(
        &self,
        server: &str,
        digest: Digest,
        same: &[AdoptedTool],
        changed: &[ToolChange],
    ) -> Result<(), ApprovalError> {
        self.change(server, |known| {
            let known = approved(known, server, digest)?;
            let tools = same.iter().chain(changed.iter().map(|change| &change.now));
            let now = tools.map(|tool| (name(tool), pin(tool)));
            let now: BTreeMap<_, _> = now.collect();
            let older = std::mem::take(&mut known.tools);
            known.tools = now;
            known.listed = true;
            known.waiting.clear();
            let mut capacity = RemainingCapacity::of(known, true);
            let retained: Vec<_> = older
                .into_iter()
                .filter(|(name, _)| !known.tools.contains_key(name))
                .collect();
            if retained
                .iter()
                .all(|(_, pin)| capacity.reserve_bytes(pin.size()))
            {
                known.tools.extend(retained);
            } else if changed
                .iter()
                .all(|change| change.earlier != ApprovedDefinition::NoRoom)
            {
                return Err(ApprovalError::Full {
                    server: server.to_owned(),
                });
            }
            Ok(((), true))
        })
    }

    /// Applies `change` to the stored state of the server while holding the lock. `change` returns whether the state
    /// must be written.
    fn change<T>(
        &self,
        server: &str,
        change: impl FnOnce(&mut Option<ApprovedServer>) -> Result<(T, bool), ApprovalError>,
    ) -> Result<T, ApprovalError> {
        match &self.0 {
            ApprovalStorage::Folder(folder) => {
                let _lock = file::lock(folder, server, LOCK_TIMEOUT)?;
                let mut known = file::read(folder, server)?;
                let (answer, changed) = change(&mut known)?;
                if let (true, Some(known)) = (changed, &known) {
                    file::write(folder, server, known)?;
                }
                Ok(answer)
            }
            ApprovalStorage::Memory(servers) => {
                let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
                let mut known = servers.get(server).cloned();
                let (answer, _) = change(&mut known)?;
                if let Some(known) = known {
                    servers.insert(server.to_owned(), known);
                }
                Ok(answer)
            }
        }
    }
}

fn approved<'a>(
    known: &'a mut Option<ApprovedServer>,
    server: &str,
    digest: Digest,
) -> Result<&'a mut ApprovedServer, ApprovalError> {
    let digest = digest.to_string();
    known
        .as_mut()
        .filter(|known| known.digest == digest)
        .ok_or_else(|| ApprovalError::Revoked {
            server: server.to_owned(),
        })
}

/// Whether reading the path needs an approval: every sandbox grants the programs of the system.
pub fn needs_approval(path: &Path) -> bool {
    const SYSTEM: [&str; 3] = ["/usr", "/opt", "/nix/store"];
    !SYSTEM.iter().any(|dir| path.starts_with(dir))
}

fn name(tool: &AdoptedTool) -> String {
    tool.descriptor.name.to_string()
}

fn pin(tool: &AdoptedTool) -> StoredTool {
    StoredTool {
        own: tool.definition.tool.clone(),
        digest: tool.definition.digest.to_string(),
        definition: RawValue::from_string(tool.definition.json.to_string())
            .expect("a value is written as JSON"),
    }
}

fn waiting(changed: &[ToolChange]) -> BTreeMap<String, StoredTool> {
    let mut bytes = 0;
    let fits = |change: &&ToolChange| {
        bytes += change.now.definition.size();
        bytes <= MAX_WAITING_BYTES
    };
    let waiting = changed.iter().take(MAX_WAITING).take_while(fits);
    waiting
        .map(|change| (name(&change.now), pin(&change.now)))
        .collect()
}

impl StoredTool {
    fn size(&self) -> usize {
        self.definition.get().len()
    }

    /// The tool, as far as it is needed to display and approve it.
    fn tool(&self, name: &str) -> Option<AdoptedTool> {
        let json = serde_json::from_str(self.definition.get()).ok()?;
        Some(AdoptedTool {
            descriptor: Descriptor::new(ToolName::parse(name).ok()?, ""),
            definition: Definition::from_stored(self.own.clone(), json),
        })
    }
}

/// How many more tools of a server can be stored.
struct RemainingCapacity {
    tools: usize,
    bytes: usize,
}

impl RemainingCapacity {
    /// Counted only if `wanted`.
    fn of(known: &ApprovedServer, wanted: bool) -> Self {
        let bytes: usize = if wanted {
            known.tools.values().map(StoredTool::size).sum()
        } else {
            0
        };
        Self {
            tools: MAX_TOOLS.saturating_sub(known.tools.len()),
            bytes: MAX_BYTES.saturating_sub(bytes),
        }
    }

    fn reserve(&mut self, tool: &AdoptedTool) -> bool {
        self.reserve_bytes(tool.definition.size())
    }

    fn reserve_bytes(&mut self, bytes: usize) -> bool {
        let fits = self.tools > 0 && self.bytes >= bytes;
        if fits {
            self.tools -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

/// All names of the known tools, in lower case, including the server's own spelling, which a rule may use.
struct KnownNames(HashMap<String, Vec<String>>);

enum KnownTool<'a> {
    Same,
    /// The same tool under another name, because a new tool now has its name.
    Renamed,
    Unseen,
    Other(&'a StoredTool),
}

impl KnownNames {
    fn of(known: &ApprovedServer) -> Self {
        let mut names: HashMap<String, Vec<String>> = HashMap::new();
        for (name, pin) in &known.tools {
            for candidate in possible_names(name, &pin.own) {
                names.entry(candidate).or_default().push(name.clone());
            }
        }
        Self(names)
    }

    fn find<'a>(&self, known: &'a ApprovedServer, tool: &AdoptedTool) -> KnownTool<'a> {
        let (name, now) = (name(tool), tool.definition.digest.to_string());
        if let Some(pin) = known.tools.get(&name) {
            return if pin.digest == now {
                KnownTool::Same
            } else {
                KnownTool::Other(pin)
            };
        }
        let called = possible_names(&name, &tool.definition.tool);
        let alike = called
            .iter()
            .filter_map(|candidate| self.0.get(candidate))
            .flatten();
        let mut alike = alike.filter_map(|name| known.tools.get(name));
        match alike.next() {
            None => KnownTool::Unseen,
            Some(pin) if pin.digest == now || alike.any(|pin| pin.digest == now) => {
                KnownTool::Renamed
            }
            Some(pin) => KnownTool::Other(pin),
        }
    }
}

/// The name, and the name with the server's spelling.
fn possible_names(name: &str, own: &str) -> [String; 2] {
    let prefix = name.rsplit_once("__").map_or("", |(prefix, _)| prefix);
    [
        name.to_owned(),
        format!("{prefix}__{}", own.to_ascii_lowercase()),
    ]
}

#[cfg(test)]
mod tests;

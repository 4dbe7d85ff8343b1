//! What a person has said yes to: servers by the exact command or address, and their tools by their definitions. Kept
//! in the state of the user and never beside a project, so that nobody brings an approval along with a repository.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolhost_contract::Digest;

use crate::definition::{Definition, difference};

/// Far above what a thousand servers need.
const MAX_FILE: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} cannot be read: {reason}; move it away and approve your servers again",
        path.display()
    )]
    Broken { path: PathBuf, reason: String },
}

/// The file of approvals. Every question reads it anew: another program may have written it.
#[derive(Debug)]
pub struct Approvals {
    path: Option<PathBuf>,
    /// One change at a time, in this program; a lock on a file sees to other programs.
    changing: Mutex<Kept>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    servers: BTreeMap<String, Server>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Server {
    /// Of the command or the address.
    digest: String,
    #[serde(default)]
    tools: BTreeMap<String, Pin>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pin {
    digest: String,
    definition: Value,
}

/// A tool that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub tool: String,
    pub difference: String,
}

impl Approvals {
    pub fn at(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            changing: Mutex::default(),
        }
    }

    /// Forgotten with the program.
    pub fn in_memory() -> Self {
        Self {
            path: None,
            changing: Mutex::default(),
        }
    }

    pub fn is_approved(&self, server: &str, digest: Digest) -> Result<bool, ApprovalError> {
        self.with(|kept| {
            let known = kept.servers.get(server);
            (
                known.is_some_and(|known| known.digest == digest.to_string()),
                false,
            )
        })
    }

    /// Another command than before takes with it all that was approved of its tools.
    pub fn approve(&self, server: &str, digest: Digest) -> Result<(), ApprovalError> {
        self.with(|kept| {
            let digest = digest.to_string();
            let known = kept.servers.entry(server.to_owned()).or_default();
            if known.digest != digest {
                *known = Server {
                    digest,
                    tools: BTreeMap::new(),
                };
            }
            ((), true)
        })
    }

    pub fn forget(&self, server: &str) -> Result<bool, ApprovalError> {
        self.with(|kept| {
            let known = kept.servers.remove(server).is_some();
            (known, known)
        })
    }

    /// Which of these tools are not what was approved. Tools that were never seen are approved by this: whoever
    /// approved the server approved what it then offered, and each of their calls is asked about anyway.
    pub fn compare(
        &self,
        server: &str,
        digest: Digest,
        definitions: &[&Definition],
    ) -> Result<Vec<Change>, ApprovalError> {
        self.with(|kept| {
            let digest = digest.to_string();
            let known = kept.servers.entry(server.to_owned()).or_default();
            if known.digest != digest {
                *known = Server {
                    digest,
                    tools: BTreeMap::new(),
                };
            }
            let mut changed = Vec::new();
            let mut new = false;
            for definition in definitions {
                let now = definition.digest.to_string();
                match known.tools.get(&definition.tool) {
                    Some(pin) if pin.digest == now => {}
                    Some(pin) => changed.push(Change {
                        tool: definition.tool.clone(),
                        difference: difference(&pin.definition, &definition.json),
                    }),
                    None => {
                        new = true;
                        known.tools.insert(definition.tool.clone(), pin(definition));
                    }
                }
            }
            (changed, new)
        })
    }

    /// The tools as they are now, and no others.
    pub fn approve_tools(
        &self,
        server: &str,
        definitions: &[&Definition],
    ) -> Result<(), ApprovalError> {
        self.with(|kept| {
            let known = kept.servers.entry(server.to_owned()).or_default();
            let pinned = definitions
                .iter()
                .map(|definition| (definition.tool.clone(), pin(definition)));
            known.tools = pinned.collect();
            ((), true)
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Kept) -> (T, bool)) -> Result<T, ApprovalError> {
        let mut memory = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else {
            return Ok(change(&mut memory).0);
        };
        // Another host may be about to write it.
        let _lock = lock(path).map_err(|source| ApprovalError::Io {
            path: path.clone(),
            source,
        })?;
        let mut kept = read(path)?;
        let (answer, changed) = change(&mut kept);
        if changed {
            write(path, &kept).map_err(|source| ApprovalError::Io {
                path: path.clone(),
                source,
            })?;
        }
        Ok(answer)
    }
}

/// Held until it is dropped. A lock of its own, because the file itself is replaced.
fn lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

fn pin(definition: &Definition) -> Pin {
    Pin {
        digest: definition.digest.to_string(),
        definition: definition.json.clone(),
    }
}

fn read(path: &Path) -> Result<Kept, ApprovalError> {
    let io = |source| ApprovalError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(io(error)),
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(io)?;
    serde_json::from_str(&text).map_err(|error| ApprovalError::Broken {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Whole or not at all, and readable to its owner only.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    serde_json::to_writer(&mut file, kept)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(tool: &str, description: &str) -> Definition {
        let json = json!({"name": tool, "description": description});
        Definition {
            tool: tool.to_owned(),
            digest: crate::definition::digest(&json.to_string()),
            json,
        }
    }

    fn check(approvals: &Approvals) {
        let (one, two) = (Digest([1; 32]), Digest([2; 32]));
        assert!(!approvals.is_approved("a", one).unwrap());
        approvals.approve("a", one).unwrap();
        assert!(approvals.is_approved("a", one).unwrap());
        assert!(!approvals.is_approved("a", two).unwrap());
        assert!(!approvals.is_approved("b", one).unwrap());

        let (before, after) = (definition("t", "good"), definition("t", "bad"));
        let compare = |now: &Definition| approvals.compare("a", one, &[now]).unwrap();
        assert!(compare(&before).is_empty());
        let changed = compare(&after);
        assert_eq!(changed.len(), 1);
        assert!(
            changed[0]
                .difference
                .contains("+  \"description\": \"bad\"")
        );
        // It stays changed, however often it is listed.
        assert_eq!(compare(&after).len(), 1);
        approvals.approve_tools("a", &[&after]).unwrap();
        assert!(compare(&after).is_empty());
        assert_eq!(compare(&before).len(), 1);

        // Another command begins anew.
        approvals.approve("a", two).unwrap();
        assert!(approvals.compare("a", two, &[&before]).unwrap().is_empty());
        assert!(approvals.forget("a").unwrap());
        assert!(!approvals.forget("a").unwrap());
        assert!(!approvals.is_approved("a", two).unwrap());
    }

    #[test]
    fn an_approval_is_for_this_command_and_these_definitions() {
        check(&Approvals::in_memory());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/mcp.json");
        check(&Approvals::at(path.clone()));
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_broken_file_approves_nothing_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.json");
        fs::write(&path, "{").unwrap();
        let approvals = Approvals::at(path);
        let error = approvals.is_approved("a", Digest([1; 32])).unwrap_err();
        assert!(error.to_string().contains("approve your servers again"));
    }
}

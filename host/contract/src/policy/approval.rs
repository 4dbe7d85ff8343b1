//! Saved approvals: which tool they apply to, what they cover and how long they are valid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis, sort_members};
use super::path_pattern::strip_dir;
use super::{AccessClass, Mode, PolicyRequest};
use crate::{Descriptor, Digest, OnlyPaths, PluginName, SessionId, ToolName, UserId, text};
use toolhost_shell_syntax as shell;

/// Lifetime of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalScope {
    Once,
    Session,
    Project,
    User,
}

impl ApprovalScope {
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalScope::Once => "once",
            ApprovalScope::Session => "session",
            ApprovalScope::Project => "project",
            ApprovalScope::User => "user",
        }
    }

    /// How long an approval lasts, as in `Allow … for the rest of this session`.
    pub fn label(self) -> &'static str {
        match self {
            ApprovalScope::Once => "this once",
            ApprovalScope::Session => "for the rest of this session",
            ApprovalScope::Project => "in this project until revoked",
            ApprovalScope::User => "in every project until revoked",
        }
    }
}

/// Identifies a tool down to its bytes: an approval of one component does not apply to another one of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolIdentity {
    pub plugin: PluginName,
    pub tool: ToolName,
    /// Digest of the component's bytes.
    pub digest: Option<Digest>,
    /// Digest of [`definition`], for a tool without local bytes.
    pub definition: Option<Digest>,
}

impl ToolIdentity {
    pub fn of(request: &PolicyRequest<'_>) -> Self {
        Self {
            plugin: request.plugin.clone(),
            tool: request.tool.name.clone(),
            digest: request.digest.copied(),
            definition: request.definition.copied(),
        }
    }

    /// Whether a digest distinguishes it from another tool of the same name.
    pub fn has_digest(&self) -> bool {
        self.digest.is_some() || self.definition.is_some()
    }

    pub fn is_same_tool(&self, other: &ToolIdentity) -> bool {
        self.plugin == other.plugin && self.tool == other.tool
    }
}

/// The text to hash for [`ToolIdentity::definition`]: every property by which the user judged the tool.
pub fn definition(tool: &Descriptor) -> String {
    let hints = &tool.annotations;
    let sources: Vec<_> = tool.sources.iter().map(|source| source.as_str()).collect();
    sort_members(&serde_json::json!({
        "name": tool.name, "aliases": tool.aliases, "description": tool.description, "kind": tool.kind,
        "category": tool.category, "input_schema": tool.input_schema,
        "annotations": [hints.read_only, hints.pure, hints.destructive, hints.idempotent, hints.open_world, hints.interactive],
        "requires": tool.requires, "sinks": tool.sinks, "sources": sources, "depends_on": tool.depends_on,
    }))
    .to_string()
}

/// What an approval covers. An access is covered by the list for its own kind; `input` covers calls with exactly this
/// input; `tool` covers calls without paths, commands or addresses. With `only_paths`, it covers only calls whose caller
/// narrows them to exactly these directories.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrowing {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathNarrowing>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_paths: Vec<OnlyPaths>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathNarrowing {
    /// Absolute, without `.` and `..`.
    pub path: String,
    /// Includes everything below it, except protected paths.
    pub tree: bool,
    pub write: bool,
}

impl Narrowing {
    pub(super) fn covers(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        if let Some(input) = &self.input
            && input != analysis.request.input
        {
            return false;
        }
        match &part.kind {
            AccessKind::Unknown(_) => false,
            // The accesses of such a call do not name everything it does.
            _ if analysis.is_understated(part) && self.input.is_none() && !self.tool => false,
            AccessKind::Command(_) if !analysis.host_runs_command => self.input.is_some(),
            AccessKind::Command(_) if part.depends_on_other_directory => self.input.is_some(),
            // What cannot be offered today is not accepted either, wherever the approval came from.
            AccessKind::Command(command) => shell::approval_prefix(command).is_some_and(|words| {
                let covers = |prefix: &Vec<String>| !prefix.is_empty() && words.starts_with(prefix);
                self.commands.iter().any(covers)
            }),
            AccessKind::Path {
                path_ref, write, ..
            } => self.paths.iter().any(|path| {
                (path.write || !write)
                    && if path.tree {
                        path_ref.is_below(&path.path)
                            && !part.classes.contains(&AccessClass::Protected)
                    } else {
                        path_ref.exact() == Some(path.path.as_str())
                    }
            }),
            AccessKind::Address {
                host: Some(host), ..
            } => self.domains.contains(host),
            AccessKind::Address { host: None, named } => {
                !named && (self.tool || self.input.is_some())
            }
            AccessKind::Call => self.tool || self.input.is_some(),
            AccessKind::Variable { named, .. } => *named && self.input.is_some(),
        }
    }
}

/// A stored approval, which the user can list, export and revoke.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub id: String,
    pub identity: ToolIdentity,
    pub narrowing: Narrowing,
    pub scope: ApprovalScope,
    /// The user whose call was approved. It never applies to another user, whatever its scope.
    pub user: UserId,
    /// The session in which it was given; required to match if the scope is `session`.
    pub session: Option<SessionId>,
    /// Valid in this mode and in more permissive ones.
    pub mode_min: Mode,
    pub created_ms: i64,
    pub by: String,
    pub expires_ms: Option<i64>,
    pub uses_left: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalState {
    Live,
    Expired,
    UsedUp,
    /// The tool has changed since the approval was given.
    Void {
        was: String,
        is: String,
    },
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApprovalState::Live => f.write_str("live"),
            ApprovalState::Expired => f.write_str("expired"),
            ApprovalState::UsedUp => f.write_str("used up"),
            ApprovalState::Void { was, is } => {
                write!(f, "void: the tool changed from {was} to {is}")
            }
        }
    }
}

impl Approval {
    pub fn state(&self, now: &ToolIdentity, now_ms: i64) -> ApprovalState {
        let shown = |digest: &Option<Digest>| match digest {
            Some(digest) => digest.to_string(),
            None => "unknown".to_owned(),
        };
        if !self.identity.is_same_tool(now) {
            return ApprovalState::Void {
                was: format!("{}/{}", self.identity.plugin, self.identity.tool),
                is: format!("{}/{}", now.plugin, now.tool),
            };
        }
        for (was, is) in [
            (&self.identity.digest, &now.digest),
            (&self.identity.definition, &now.definition),
        ] {
            if was != is {
                return ApprovalState::Void {
                    was: shown(was),
                    is: shown(is),
                };
            }
        }
        // Without a digest a later tool of the same name cannot be told apart, so the approval ends with the session.
        if !now.has_digest() && self.scope > ApprovalScope::Session {
            return ApprovalState::Void {
                was: shown(&None),
                is: shown(&None),
            };
        }
        // If the clock was set back to before the approval was given, its age is unknown.
        if self
            .expires_ms
            .is_some_and(|expires| now_ms >= expires || now_ms < self.created_ms)
        {
            ApprovalState::Expired
        } else if self.uses_left == Some(0) || self.scope == ApprovalScope::Once {
            ApprovalState::UsedUp
        } else {
            ApprovalState::Live
        }
    }

    /// Why the approval does not apply to this call; `None` if it may.
    pub(super) fn why_inapplicable(
        &self,
        analysis: &CallAnalysis,
        modes: &[Mode],
        now: &ToolIdentity,
        now_ms: i64,
    ) -> Option<String> {
        let caller = analysis.request.caller;
        if !self.identity.is_same_tool(now) {
            return Some("it is for another tool".to_owned());
        }
        match self.state(now, now_ms) {
            ApprovalState::Live => {}
            state => return Some(state.to_string()),
        }
        if self.user != caller.user {
            return Some("it was given for another user".to_owned());
        }
        if self.scope == ApprovalScope::Session && self.session.as_ref() != Some(&caller.session) {
            return Some("it was given in another session".to_owned());
        }
        let only_paths = &self.narrowing.only_paths;
        if !only_paths.is_empty() && only_paths != analysis.request.only_paths() {
            return Some(
                "it was given for calls that are narrowed to other directories".to_owned(),
            );
        }
        if let Some(mode) = modes.iter().find(|mode| !mode.is_at_least(self.mode_min)) {
            return Some(format!(
                "it was given in mode {} and this is {mode}",
                self.mode_min
            ));
        }
        None
    }
}

/// An approval without id and date.
#[derive(Debug, Clone, PartialEq)]
pub struct NewApproval {
    pub identity: ToolIdentity,
    pub narrowing: Narrowing,
    pub scope: ApprovalScope,
    pub user: UserId,
    pub session: Option<SessionId>,
    pub mode_min: Mode,
}

impl NewApproval {
    pub fn into_approval(
        self,
        id: impl Into<String>,
        by: impl Into<String>,
        created_ms: i64,
    ) -> Approval {
        Approval {
            id: id.into(),
            identity: self.identity,
            narrowing: self.narrowing,
            scope: self.scope,
            user: self.user,
            session: self.session,
            mode_min: self.mode_min,
            created_ms,
            by: by.into(),
            expires_ms: None,
            uses_left: None,
        }
    }
}

/// Serialized form. Unknown members are errors because they may hold a restriction.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SerializedApproval {
    id: String,
    plugin: PluginName,
    tool: ToolName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    narrowing: Narrowing,
    scope: ApprovalScope,
    /// `None`: the local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    mode_min: String,
    created_ms: i64,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uses_left: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the approval cannot be used: {0}")]
pub struct ApprovalError(String);

impl Approval {
    pub fn to_value(&self) -> Value {
        serde_json::to_value(SerializedApproval {
            id: self.id.clone(),
            plugin: self.identity.plugin.clone(),
            tool: self.identity.tool.clone(),
            digest: self.identity.digest.map(|digest| digest.to_string()),
            definition: self.identity.definition.map(|digest| digest.to_string()),
            narrowing: self.narrowing.clone(),
            scope: self.scope,
            user: self.user.name().map(str::to_owned),
            session: self.session.clone(),
            mode_min: self.mode_min.to_string(),
            created_ms: self.created_ms,
            by: self.by.clone(),
            expires_ms: self.expires_ms,
            uses_left: self.uses_left,
        })
        .expect("texts, numbers and lists are always JSON")
    }

    pub fn from_value(value: &Value) -> Result<Self, ApprovalError> {
        let error = |message: String| ApprovalError(text::escape_line(&message, 300));
        let wire = SerializedApproval::deserialize(value).map_err(|e| error(e.to_string()))?;
        let digest = |text: Option<String>| {
            text.map(|text| {
                parse_digest(&text).ok_or_else(|| error(format!("`{text}` is not a digest")))
            })
            .transpose()
        };
        if wire.scope == ApprovalScope::Session && wire.session.is_none() {
            return Err(error(
                "its scope is `session` but it names no session".to_owned(),
            ));
        }
        for path in &wire.narrowing.paths {
            if super::path_pattern::normalize("/", &path.path) != (path.path.clone(), None)
                || strip_dir(&path.path, "/").is_none()
            {
                return Err(error(format!(
                    "`{}` is not an absolute path without `.` and `..`",
                    path.path
                )));
            }
        }
        Ok(Self {
            identity: ToolIdentity {
                plugin: wire.plugin,
                tool: wire.tool,
                digest: digest(wire.digest)?,
                definition: digest(wire.definition)?,
            },
            mode_min: Mode::from_str(&wire.mode_min).map_err(|e| error(e.to_string()))?,
            id: wire.id,
            narrowing: wire.narrowing,
            scope: wire.scope,
            user: UserId::from_name(wire.user.as_deref()),
            session: wire.session,
            created_ms: wire.created_ms,
            by: wire.by,
            expires_ms: wire.expires_ms,
            uses_left: wire.uses_left,
        })
    }
}

fn parse_digest(text: &str) -> Option<Digest> {
    let hex = text.strip_prefix("sha256:")?;
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}

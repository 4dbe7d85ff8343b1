//! A call of a tool, and access modes of directories.

use std::fmt;

use serde_json::Value;

use crate::{BackendState, Principal, ToolName};

/// The identifier of a call. Injected by the caller, so that tests are deterministic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: CallId,
    pub tool: ToolName,
    /// A JSON object. After validation by the kernel it satisfies the schema, with defaults filled in.
    pub input: Value,
    pub caller: Principal,
    pub state: BackendState,
}

impl Call {
    /// A call of the local user.
    pub fn new(id: impl Into<String>, tool: ToolName, input: Value) -> Self {
        Self {
            id: CallId(id.into()),
            tool,
            input,
            caller: Principal::default(),
            state: BackendState::default(),
        }
    }
}

/// The access mode of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Access {
    pub fn as_str(self) -> &'static str {
        match self {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        }
    }
}

impl std::str::FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ro" => Ok(Access::ReadOnly),
            "rw" => Ok(Access::ReadWrite),
            _ => Err(format!(
                "`{}` is not an access mode; use `ro` or `rw`",
                crate::text::escape_line(text, 40)
            )),
        }
    }
}

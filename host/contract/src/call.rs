//! One call of one tool.

use std::fmt;

use serde_json::Value;

use crate::{Principal, ToolName};

/// Handed in by whoever starts the call, so that tests are the same on every run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: CallId,
    pub tool: ToolName,
    /// A JSON object. After the kernel's check it satisfies the schema, with defaults filled in.
    pub input: Value,
    pub caller: Principal,
}

/// How a directory may be used.
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
                "`{}` is not an access; write `ro` or `rw`",
                crate::text::inline(text, 40)
            )),
        }
    }
}

//! Result content: parts for the model and a display for the user.

use serde_json::{Value, json};

/// One piece of content for the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// `text`, `json`, `image`, `audio`, `file` or `resource-link`; determines which of the other fields apply.
    pub kind: String,
    pub text: Option<String>,
    pub data: Option<Vec<u8>>,
    pub media_type: Option<String>,
    pub uri: Option<String>,
    pub name: Option<String>,
}

impl Part {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::of("text")
        }
    }

    /// A JSON value.
    pub fn json(value: &Value) -> Self {
        Self {
            text: Some(value.to_string()),
            ..Self::of("json")
        }
    }

    /// An image, for example with media type `image/png`.
    pub fn image(bytes: impl Into<Vec<u8>>, media_type: impl Into<String>) -> Self {
        Self::bytes("image", bytes.into(), media_type.into())
    }

    /// Audio, for example with media type `audio/wav`.
    pub fn audio(bytes: impl Into<Vec<u8>>, media_type: impl Into<String>) -> Self {
        Self::bytes("audio", bytes.into(), media_type.into())
    }

    /// A file of any other kind.
    pub fn file(bytes: impl Into<Vec<u8>>, media_type: impl Into<String>) -> Self {
        Self::bytes("file", bytes.into(), media_type.into())
    }

    /// A link to a resource.
    pub fn resource_link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: Some(uri.into()),
            name: Some(name.into()),
            ..Self::of("resource-link")
        }
    }

    fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..Self::default()
        }
    }

    fn bytes(kind: &str, data: Vec<u8>, media_type: String) -> Self {
        Self {
            data: Some(data),
            media_type: Some(media_type),
            ..Self::of(kind)
        }
    }
}

/// What the user sees, as opposed to the model's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Display {
    /// `none`, `text`, `markdown`, `ansi`, `code`, `diff`, `table`, `file`, `image`, `todo-list` …
    pub kind: String,
    pub text: Option<String>,
    pub diff: Option<FileDiff>,
    pub data: Option<Value>,
}

impl Display {
    /// No display.
    pub fn none() -> Self {
        Self::of("none")
    }

    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::of("text")
        }
    }

    /// Text in Markdown.
    pub fn markdown(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::of("markdown")
        }
    }

    /// Text with terminal colours.
    pub fn ansi(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::of("ansi")
        }
    }

    /// Source code in a language such as `rust`.
    pub fn code(language: &str, text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::data("code", json!({ "language": language }))
        }
    }

    /// A table; each row has one cell per column.
    pub fn table(columns: &[&str], rows: &[Vec<String>]) -> Self {
        Self::data("table", json!({"columns": columns, "rows": rows}))
    }

    /// A change to one file.
    pub fn diff(diff: FileDiff) -> Self {
        Self {
            diff: Some(diff),
            ..Self::of("diff")
        }
    }

    /// A structured display, such as `table` or `todo-list`.
    pub fn data(kind: impl Into<String>, data: Value) -> Self {
        Self {
            kind: kind.into(),
            data: Some(data),
            ..Self::default()
        }
    }

    fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..Self::default()
        }
    }
}

/// A change to one file, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    pub file_name: String,
    /// Unified diff.
    pub diff: String,
    /// `None` for a new file.
    pub original: Option<String>,
    pub new: String,
}

//! Reads a configuration file as TOML, YAML or JSON according to its extension. Errors state the position.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml_edit::{DocumentMut, TomlError};
use toolhost_contract::manifest::line_of;
use toolhost_contract::serde_errors;
use toolhost_hostfiles::open_regular;

use super::{Config, key_case, positions};

const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    Toml,
    Yaml,
    Json,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", position_prefix(file, *line))]
pub struct ConfigError {
    pub file: PathBuf,
    pub line: Option<usize>,
    pub message: String,
}

/// The prefix of a message; empty if the message contains its position.
fn position_prefix(file: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}: ", file.display()),
        None if file.as_os_str().is_empty() => String::new(),
        None => format!("{}: ", file.display()),
    }
}

impl FileFormat {
    fn from_extension(file: &Path) -> Result<Self, ConfigError> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(FileFormat::Toml),
            Some("yaml" | "yml") => Ok(FileFormat::Yaml),
            Some("json") => Ok(FileFormat::Json),
            _ => Err(ConfigError {
                file: file.to_owned(),
                line: None,
                message: "unknown file type; use the extension .toml, .yaml, .yml or .json"
                    .to_owned(),
            }),
        }
    }
}

pub fn read(file: &Path) -> Result<Config, ConfigError> {
    let format = FileFormat::from_extension(file)?;
    parse(file, format, &read_trusted(file)?)
}

/// Reads a file that grants permissions. The file must belong to the user or root and must not be world-writable.
pub fn read_trusted(file: &Path) -> Result<String, ConfigError> {
    let wrong = |message: String| ConfigError {
        file: file.to_owned(),
        line: None,
        message,
    };
    // The checks and the read use one descriptor, so that the path cannot be swapped in between.
    let open = open_regular(file).map_err(|error| wrong(error.to_string()))?;
    let metadata = open.metadata().map_err(|error| wrong(error.to_string()))?;
    // A user who can write this file controls what every plugin may do.
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(wrong(format!(
            "owned by another user (uid {owner}); the configuration must be owned by you or root"
        )));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(wrong(
            "writable by all users; run `chmod o-w` on it".to_owned(),
        ));
    }
    if metadata.len() > MAX_BYTES {
        return Err(wrong(format!(
            "{} bytes; the maximum is {MAX_BYTES}",
            metadata.len()
        )));
    }
    let mut text = String::new();
    open.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}

/// Parses a file of another system without validating its keys.
pub fn parse_value(file: &Path, text: &str) -> Result<Value, ConfigError> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    deserialize(file, FileFormat::from_extension(file)?, text)
}

pub fn parse(file: &Path, format: FileFormat, text: &str) -> Result<Config, ConfigError> {
    let wrong = |message: String| ConfigError {
        file: file.to_owned(),
        line: None,
        message,
    };
    // An empty file sets nothing, as in TOML. An empty YAML document would be null, and an empty JSON file an error.
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    let key_case::AnyCase(mut config) =
        deserialize::<key_case::AnyCase<Config>>(file, format, text)?;
    config.merge_spellings().map_err(wrong)?;
    positions::add_positions(&mut config, file, format, text).map_err(|message| ConfigError {
        file: PathBuf::new(),
        line: None,
        message,
    })?;
    Ok(config)
}

/// Parses a TOML file for an edit that keeps comments.
pub fn parse_document(file: &Path, text: &str) -> Result<DocumentMut, ConfigError> {
    text.parse().map_err(|error: TomlError| ConfigError {
        file: file.to_owned(),
        line: error.span().map(|span| line_of(text, span.start)),
        message: serde_errors::describe_serde_error(error.message()),
    })
}

fn deserialize<T: DeserializeOwned>(
    file: &Path,
    format: FileFormat,
    text: &str,
) -> Result<T, ConfigError> {
    let (line, message) = match format {
        FileFormat::Toml => match toml::from_str(text) {
            Ok(config) => return Ok(config),
            Err(error) => (
                error.span().map(|span| line_of(text, span.start)),
                error.message().to_owned(),
            ),
        },
        FileFormat::Yaml => match serde_saphyr::from_str(text) {
            Ok(config) => return Ok(config),
            Err(error) => yaml_error(&error),
        },
        FileFormat::Json => match serde_json::from_str(text) {
            Ok(config) => return Ok(config),
            Err(error) => {
                let message = error.to_string();
                let suffix = format!(" at line {} column {}", error.line(), error.column());
                (
                    Some(error.line()),
                    message.strip_suffix(&suffix).unwrap_or(&message).to_owned(),
                )
            }
        },
    };
    Err(ConfigError {
        file: file.to_owned(),
        line,
        message: serde_errors::describe_serde_error(&message),
    })
}

fn yaml_error(error: &serde_saphyr::Error) -> (Option<usize>, String) {
    let error = error.without_snippet();
    let line = error
        .location()
        .and_then(|location| usize::try_from(location.line()).ok());
    let message = match error {
        // In the wording of the other two formats, so that `explain::serde` can suggest the nearest key.
        serde_saphyr::Error::SerdeUnknownField {
            field, expected, ..
        } => {
            format!(
                "unknown field `{field}`, expected one of `{}`",
                expected.join("`, `")
            )
        }
        serde_saphyr::Error::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            format!(
                "unknown variant `{variant}`, expected one of `{}`",
                expected.join("`, `")
            )
        }
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("duplicate key `{key}`; keep one")
        }
        serde_saphyr::Error::Message { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    // The prefix states the line already.
    let message = match message.rfind(" at line ") {
        Some(end) if line.is_some() => message[..end].to_owned(),
        _ => message,
    };
    let message = match message.as_str() {
        "expected sequence start" => "expected a list".to_owned(),
        "expected mapping start" => "expected a table".to_owned(),
        "invalid boolean" => "expected `true` or `false`".to_owned(),
        _ => message,
    };
    (line, message)
}

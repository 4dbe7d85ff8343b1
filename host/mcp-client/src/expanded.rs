//! A text of the configuration with variables of the host in it. The program or the address gets their values; whoever
//! looks at a list, a question or an error gets the text as it is written, for a value may be a secret.

use std::fmt;

use serde::{Serialize, Serializer};

/// Of a value that is looked for in what others say. Shorter ones stand in every text, and are no secrets.
const MIN_HIDDEN: usize = 6;

#[derive(Clone, PartialEq, Eq)]
pub struct Expanded {
    pub value: String,
    /// As it is written, `${NAME}` and all.
    pub shown: String,
    /// The values that are in the one and not in the other.
    pub secrets: Vec<String>,
}

impl From<&str> for Expanded {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Expanded {
    fn from(value: String) -> Self {
        Self {
            shown: value.clone(),
            value,
            secrets: Vec::new(),
        }
    }
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl Serialize for Expanded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

/// What another program says, without these secrets.
pub fn hide(said: &str, secrets: &[String]) -> String {
    let mut shown = said.to_owned();
    for secret in secrets {
        if secret.len() >= MIN_HIDDEN && shown.contains(secret.as_str()) {
            shown = shown.replace(secret.as_str(), "…");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_prints_it_prints_its_value() {
        let expanded = Expanded {
            value: "--key=s3cret".to_owned(),
            shown: "--key=${KEY}".to_owned(),
            secrets: vec!["s3cret".to_owned()],
        };
        assert_eq!(format!("{expanded:?}"), r#""--key=${KEY}""#);
        assert_eq!(serde_json::json!(expanded), "--key=${KEY}");
        let said = "usage: x --key=s3cret (s3cret)";
        assert_eq!(hide(said, &expanded.secrets), "usage: x --key=… (…)");
        assert_eq!(hide("a b a", &["a".to_owned()]), "a b a");
    }
}

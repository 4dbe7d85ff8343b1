//! Configuration text with variables of the host. The program or the URL gets the values; lists, questions and errors
//! display the unexpanded text, because a value can be a secret.

use std::fmt;

use serde::{Serialize, Serializer};

/// Minimum length of a value that is masked in other text. Shorter values occur in ordinary text and are not secrets.
const MIN_MASKED_LEN: usize = 6;

#[derive(Clone, PartialEq, Eq)]
pub struct ExpandedText {
    pub value: String,
    /// The text as written, with `${NAME}`.
    pub shown: String,
    /// The values of the variables in the text.
    pub secrets: Vec<String>,
}

impl From<&str> for ExpandedText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for ExpandedText {
    fn from(value: String) -> Self {
        Self {
            shown: value.clone(),
            value,
            secrets: Vec::new(),
        }
    }
}

impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl Serialize for ExpandedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

/// Masks these secrets in text of another program.
pub fn mask_secrets(text: &str, secrets: &[String]) -> String {
    let mut shown = text.to_owned();
    for secret in secrets {
        if secret.len() >= MIN_MASKED_LEN && shown.contains(secret.as_str()) {
            shown = shown.replace(secret.as_str(), "…");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_never_displayed() {
        let expanded = ExpandedText {
            value: "--key=s3cret".to_owned(),
            shown: "--key=${KEY}".to_owned(),
            secrets: vec!["s3cret".to_owned()],
        };
        assert_eq!(format!("{expanded:?}"), r#""--key=${KEY}""#);
        assert_eq!(serde_json::json!(expanded), "--key=${KEY}");
        let message = "usage: x --key=s3cret (s3cret)";
        assert_eq!(
            mask_secrets(message, &expanded.secrets),
            "usage: x --key=… (…)"
        );
        assert_eq!(mask_secrets("a b a", &["a".to_owned()]), "a b a");
    }
}

//! Session variables. The host process does not see them; its tools report them, and programs of the session receive
//! them.

use std::collections::BTreeMap;

use toolhost_sdk::prelude::*;

/// Keys with this prefix are shared by the plugins of a session, so that programs run by other plugins see the
/// variables.
const KEY: &str = "shared/env";
pub const MOST_NAMES: usize = 64;
pub const MOST_VALUE_BYTES: usize = 8 << 10;
const MOST_BYTES: usize = 64 << 10;

/// Variables that decide which program runs, what it loads or which servers it uses. An approved command must stay the
/// command that the user saw.
const FORBIDDEN: &[&str] = &[
    "ALL_PROXY",
    "APPDATA",
    "BASHOPTS",
    "BROWSER",
    "CC",
    "CLASSPATH",
    "COMSPEC",
    "CURL_CA_BUNDLE",
    "CXX",
    "EDITOR",
    "ENV",
    "FTP_PROXY",
    "GCONV_PATH",
    "HOME",
    "HOSTALIASES",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCALDOMAIN",
    "LOCPATH",
    "LOGNAME",
    "MAKEFLAGS",
    "MANPAGER",
    "NO_PROXY",
    "PAGER",
    "PATH",
    "PATHEXT",
    "PERL5DB",
    "PERLLIB",
    "PROMPT_COMMAND",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "REQUESTS_CA_BUNDLE",
    "RES_OPTIONS",
    "RESOLV_HOST_CONF",
    "SHELL",
    "SHELLOPTS",
    "SUDO_ASKPASS",
    "SYSTEMROOT",
    "TEMP",
    "TERMINFO",
    "TMP",
    "TMPDIR",
    "USER",
    "USERPROFILE",
    "VISUAL",
    "WINDIR",
    "ZDOTDIR",
];
/// Prefixes of such variables.
const FORBIDDEN_PREFIXES: &[&str] = &[
    "BASH_",
    "CARGO_",
    "DOCKER_",
    "DYLD_",
    "GIT_",
    "GLIBC_",
    "JAVA_",
    "JDK_JAVA_",
    "LD_",
    "MALLOC_",
    "NODE_",
    "NPM_CONFIG_",
    "OPENSSL_",
    "PERL5",
    "PIP_",
    "PYTHON",
    "RUBY",
    "RUSTC",
    "RUSTUP_",
    "SSH_",
    "SSL_",
    "TOOLHOST_",
    "XDG_",
    "_JAVA_",
];

pub struct SessionVariables(BTreeMap<String, String>);

impl SessionVariables {
    pub fn of(cx: &Context) -> Result<Self> {
        Ok(Self(cx.recall(KEY)?.unwrap_or_default()))
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        self.0.get(key)
    }

    /// Sets a variable, or unsets it with `None`; returns the previous value.
    pub fn set(
        &mut self,
        cx: &Context,
        key: &str,
        value: Option<String>,
    ) -> Result<Option<String>> {
        let previous = match value {
            Some(value) => self.0.insert(key.to_owned(), value),
            None => self.0.remove(key),
        };
        if self.0.len() > MOST_NAMES {
            let message = format!("{MOST_NAMES} variables are already set; unset one first");
            return Err(Error::invalid_input(message).code("too_many_variables"));
        }
        let size: usize = self
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if size > MOST_BYTES {
            let message = format!(
                "the variables of a session are limited to {MOST_BYTES} bytes; this would make {size}"
            );
            return Err(Error::invalid_input(message).code("too_many_variables"));
        }
        cx.remember(KEY, &self.0)?;
        Ok(previous)
    }
}

/// Checks a variable name: letters, digits and underscores, not starting with a digit.
pub fn check_name(key: &str) -> Result<()> {
    let mut letters = key.chars();
    let fits = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !fits {
        let message = format!(
            "{key:?} is not a variable name; use letters, digits and `_`, not starting with a digit"
        );
        return Err(Error::invalid_input(message).code("invalid_name"));
    }
    // Windows and some other programs ignore case.
    let upper = key.to_ascii_uppercase();
    let family = FORBIDDEN_PREFIXES
        .iter()
        .any(|beginning| upper.starts_with(beginning));
    if family
        || FORBIDDEN.contains(&upper.as_str())
        || upper.ends_with("_PROXY")
        || upper.ends_with("_ASKPASS")
    {
        let message = format!(
            "{key} cannot be set: it determines which programs run, what they load or which servers they use"
        );
        return Err(Error::denied(message)
            .code("forbidden_variable")
            .recommend("set it in the command itself, where the user can see it"));
    }
    Ok(())
}

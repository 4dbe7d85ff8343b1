//! Expands `${VAR}`, `${VAR:-default}` and a leading `~/` in values of a configuration file.
//!
//! Rules and names are not expanded, because the environment must not be able to change them.

use toolhost_contract::text::escape_line;

/// Maximum characters of a path or variable name in a message.
const MAX_SHOWN_CHARS: usize = 300;

/// Expands a path. `variable` looks up an environment variable.
pub fn expand_variables(
    path: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    // For messages only.
    let shown = escape_line(path, MAX_SHOWN_CHARS);
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    if let Some(below) = rest.strip_prefix("~/") {
        let home =
            variable("HOME").ok_or_else(|| format!("`{shown}` needs $HOME, which is not set"))?;
        out.push_str(home.trim_end_matches('/'));
        out.push('/');
        rest = below;
    }
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let inside = &rest[start + 2..];
        let end = inside
            .find('}')
            .ok_or_else(|| format!("`{shown}` has a `${{` without a closing `}}`"))?;
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        let value = variable(name).filter(|value| !value.is_empty());
        match (value, default) {
            (Some(value), _) => out.push_str(&value),
            (None, Some(default)) => out.push_str(default),
            (None, None) => {
                let name = escape_line(name, MAX_SHOWN_CHARS);
                return Err(format!(
                    "`{shown}` needs ${name}, which is not set; set it or write `${{{name}:-default}}`"
                ));
            }
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Result<&str, &str>) {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "PROJECT" => Some("x".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let expanded = expand_variables(path, variable);
        assert_eq!(expanded.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn variables_in_paths_are_expanded() {
        check("src", Ok("src"));
        check("~/src", Ok("/home/me/src"));
        check("a~/b", Ok("a~/b"));
        check("/w/${PROJECT}/src", Ok("/w/x/src"));
        check("${PROJECT}${PROJECT}", Ok("xx"));
        check("${MISSING:-out}/a", Ok("out/a"));
        check("${EMPTY:-out}", Ok("out"));
        check("$5 {a}", Ok("$5 {a}"));
    }

    #[test]
    fn an_unset_variable_is_an_error() {
        check(
            "/w/${MISSING}",
            Err(
                "`/w/${MISSING}` needs $MISSING, which is not set; set it or write `${MISSING:-default}`",
            ),
        );
        check("/w/${X", Err("`/w/${X` has a `${` without a closing `}`"));
    }
}

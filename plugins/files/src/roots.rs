//! `list_allowed_directories`: the directories that file tools can access.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::plural;

/// Allowed directories.
#[data]
pub struct AllowedDirectories {
    /// Each includes everything below it.
    directories: Vec<AllowedDirectory>,
}

/// One directory.
#[data]
pub struct AllowedDirectory {
    /// Absolute path.
    path: String,
}

/// List the directories that file tools can access. Relative paths start in the first; some may be read-only.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "folder",
    tags = ["file", "directory", "permission"],
    output = AllowedDirectories,
    example(description = "All of them", input = "{}"),
)]
pub fn list_allowed_directories(cx: &Context) -> Outcome {
    let roots = cx.roots();
    // Access is not listed: the host passes every root as read-only to a tool that only reads.
    let lines: Vec<&str> = roots.iter().map(|root| root.path.as_str()).collect();
    let text = if lines.is_empty() {
        "No directory is allowed; the operator can allow one: host --allow-path DIR".to_owned()
    } else {
        lines.join("\n")
    };
    let directories = roots
        .iter()
        .map(|root| AllowedDirectory {
            path: root.path.clone(),
        })
        .collect();
    let (one, many) = ("allowed directory", "allowed directories");
    Outcome::text(text)
        .summary(plural(roots.len(), one, many))
        .structured(&AllowedDirectories { directories })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;

    fn check(cx: Context, expected: Expect) {
        let outcome = testing::call::<list_allowed_directories>(&cx, json!({})).unwrap();
        expected.assert_eq(&format!(
            "{}\nsummary: {}\n{}",
            outcome.llm[0].text.as_deref().unwrap(),
            outcome.summary.unwrap(),
            outcome.structured.unwrap()
        ));
    }

    #[test]
    fn every_root_is_listed() {
        let cx = Context::test()
            .with_root("/workspace", "rw")
            .with_root("/extra/1", "ro");
        check(
            cx,
            expect![[r#"
            /workspace
            /extra/1
            summary: 2 allowed directories
            {"directories":[{"path":"/workspace"},{"path":"/extra/1"}]}"#]],
        );
    }

    #[test]
    fn no_roots_have_advice() {
        check(
            Context::test(),
            expect![[r#"
            No directory is allowed; the operator can allow one: host --allow-path DIR
            summary: 0 allowed directories
            {"directories":[]}"#]],
        );
    }

    #[test]
    fn it_takes_no_parameters() {
        let error =
            testing::call::<list_allowed_directories>(&Context::test(), json!({"path": "."}))
                .unwrap_err();
        assert_eq!(error.message(), "`path` is not known");
        testing::check_examples::<list_allowed_directories>().unwrap();
    }
}

//! `list_allowed_directories`: where a model may look and write at all.

use toolhost_sdk::prelude::*;

/// The directories of the call.
#[data]
pub struct Allowed {
    /// Each with all that is below it.
    directories: Vec<Directory>,
}

/// One directory.
#[data]
pub struct Directory {
    /// Absolute path.
    path: String,
}

/// List the directories that files can be in. Nothing outside of them can be opened; relative paths start in the
/// first. Whether one may be written is seen when a tool writes.
#[tool(
    reads,
    idempotent,
    category = "file",
    kind = "read",
    icon = "folder",
    tags = ["file", "directory", "permission"],
    output = Allowed,
    example(description = "What may be used?", input = "{}"),
)]
pub fn list_allowed_directories(cx: &Context) -> Outcome {
    let roots = cx.roots();
    // Whether a root may be written is not told: the host hands every root to a tool that reads as read-only.
    let lines: Vec<&str> = roots.iter().map(|root| root.path.as_str()).collect();
    let text = if lines.is_empty() {
        "No directory is allowed; the user can allow one with: host --allow-path DIR".to_owned()
    } else {
        lines.join("\n")
    };
    let directories = roots
        .iter()
        .map(|root| Directory {
            path: root.path.clone(),
        })
        .collect();
    let noun = if roots.len() == 1 {
        "directory"
    } else {
        "directories"
    };
    Outcome::text(text)
        .summary(format!("{} allowed {noun}", roots.len()))
        .structured(&Allowed { directories })
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
    fn each_is_told() {
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
    fn without_any_the_way_to_one_is_told() {
        check(
            Context::test(),
            expect![[r#"
            No directory is allowed; the user can allow one with: host --allow-path DIR
            summary: 0 allowed directories
            {"directories":[]}"#]],
        );
    }

    #[test]
    fn nothing_but_nothing_is_its_input() {
        let error =
            testing::call::<list_allowed_directories>(&Context::test(), json!({"path": "."}))
                .unwrap_err();
        assert_eq!(error.message(), "`path` is not known");
        testing::check_examples::<list_allowed_directories>().unwrap();
    }
}

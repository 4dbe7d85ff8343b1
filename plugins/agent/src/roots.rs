//! The directories of a call by what they are for: the workspace, the folders of skills.

use toolhost_sdk::prelude::*;

const SKILLS: &str = "/skills/";

/// In a test, what the host shows under a name of its own lies somewhere in a temporary directory.
fn is_skills(root: &Root) -> bool {
    if cfg!(test) {
        root.path.contains(SKILLS)
    } else {
        root.path.starts_with(SKILLS)
    }
}

/// The folders of skills; what is in an earlier one hides what is in a later one.
pub fn skills(cx: &Context) -> Vec<&Root> {
    cx.roots().iter().filter(|root| is_skills(root)).collect()
}

/// Everything else.
pub fn workspace(cx: &Context) -> Vec<&Root> {
    cx.roots().iter().filter(|root| !is_skills(root)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_has_one_use() {
        let cx = Context::test()
            .with_root("/work", "rw")
            .with_root("/skills/project", "ro")
            .with_root("/skills/user", "ro");
        let paths = |roots: Vec<&Root>| {
            roots
                .iter()
                .map(|root| root.path.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(paths(workspace(&cx)), ["/work"]);
        assert_eq!(paths(skills(&cx)), ["/skills/project", "/skills/user"]);
    }
}

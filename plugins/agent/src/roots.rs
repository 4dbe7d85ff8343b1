//! The directories of a call by purpose: workspace and skill directories.

use toolhost_sdk::prelude::*;

const SKILLS: &str = "/skills/";

/// In tests, what the host mounts under a fixed name is in a temporary directory.
fn is_skills(root: &Root) -> bool {
    if cfg!(test) {
        root.path.contains(SKILLS)
    } else {
        root.path.starts_with(SKILLS)
    }
}

/// The skill directories, in order of precedence.
pub fn skills(cx: &Context) -> Vec<&Root> {
    cx.roots().iter().filter(|root| is_skills(root)).collect()
}

/// All other directories.
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

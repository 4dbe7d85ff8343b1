//! Grants that a call requires and lacks, with the flags that add them.

use serde_json::Value;
use toolhost_contract::policy::Subject;
use toolhost_contract::{Capability, Descriptor, Effect, Manifest, text};
use toolhost_vfs::Scope;

use crate::capabilities::Capabilities;
use crate::path_view::is_host_dir;

/// Maximum number of names listed from a manifest.
const MAX_NAMES: usize = 4;

/// All missing grants, each as a clause with the flag or manifest line that adds it.
pub fn grants(
    manifest: &Manifest,
    capabilities: &Capabilities,
    files: &Scope,
    tool: &Descriptor,
    input: &Value,
) -> Vec<String> {
    let required = |need: Capability| tool.requires_capability(need.as_str());
    let acts = tool.effect() > Effect::Reads;
    let no_folders = !files.roots().iter().any(|root| !is_host_dir(root.guest()));
    let mut missing = Vec::new();
    let mut undeclared = Vec::new();
    let needs_programs = required(Capability::Process) && acts;
    let needs_net = required(Capability::Net) && tool.annotations.open_world != Some(false);
    if needs_programs && !manifest.needs(Capability::Process) {
        undeclared.push(Capability::Process);
    } else if needs_programs && capabilities.programs.is_none() {
        missing.push(format!(
            "a program to run ({})",
            flags(
                "--allow-program",
                manifest.names(Capability::Process),
                "NAME"
            )
        ));
    }
    if needs_net && !manifest.needs(Capability::Net) {
        undeclared.push(Capability::Net);
    } else if needs_net && capabilities.net.is_none() {
        let hosts = manifest.names(Capability::Net).filter(|name| *name != "*");
        missing.push(format!(
            "a host to reach ({})",
            flags("--allow-host", hosts, "HOST")
        ));
    }
    let is_file = |name: &String| {
        [Capability::FsRead, Capability::FsWrite]
            .iter()
            .any(|need| name == need.as_str())
    };
    let only_files = tool.requires.iter().all(is_file);
    let names_files = || !Subject::of(tool, input).paths.is_empty();
    for need in [Capability::FsRead, Capability::FsWrite] {
        let covered = manifest.needs(need)
            || need == Capability::FsRead && manifest.needs(Capability::FsWrite);
        // A tool that also requires other capabilities may work without files.
        if required(need) && !covered && only_files && names_files() {
            undeclared.push(need);
        }
    }
    if tool.requires.is_empty() && manifest.needs.is_empty() && names_files() {
        undeclared.push(if acts {
            Capability::FsWrite
        } else {
            Capability::FsRead
        });
    }
    let works_in_files =
        required(Capability::FsRead) || required(Capability::FsWrite) || needs_programs;
    if !missing.is_empty() && works_in_files && no_folders {
        missing.push("a working directory (`--allow-path DIR`)".to_owned());
    }
    if !undeclared.is_empty() {
        let names: Vec<String> = undeclared
            .iter()
            .map(|need| format!("`{}`", need.as_str()))
            .collect();
        missing.push(format!(
            "{} in the manifest of plugin `{}`",
            names.join(", "),
            manifest.name
        ));
    }
    missing
}

fn flags<'a>(flag: &str, names: impl Iterator<Item = &'a str>, any: &str) -> String {
    let mut flags: Vec<String> = names
        .take(MAX_NAMES)
        .map(|name| format!("`{flag} {}`", text::escape_line(name, 80)))
        .collect();
    if flags.is_empty() {
        flags.push(format!("`{flag} {any}`"));
    }
    flags.join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::{Annotations, ToolName};

    use super::*;

    fn check(needs: &str, requires: &[&str], read_only: bool, input: &Value, expected: &str) {
        let text =
            format!("name = \"p\"\nversion = \"0.1.0\"\ndescription = \"A plugin\"\n{needs}");
        let manifest = Manifest::parse("plugin.toml", &text).unwrap();
        let mut tool = Descriptor::new(ToolName::parse("x").unwrap(), "x");
        tool.annotations = Annotations {
            read_only: Some(read_only),
            ..Annotations::default()
        };
        tool.requires = requires.iter().map(ToString::to_string).collect();
        let capabilities = Capabilities::default();
        let missing = grants(&manifest, &capabilities, &Scope::empty(), &tool, input);
        assert_eq!(missing.join("; "), expected, "{needs} {requires:?}");
    }

    #[test]
    fn c_09_all_missing_grants_are_listed_with_their_flags() {
        let nothing = json!({});
        let process = "[[needs]]\ncapability = \"process\"\nnames = [\"bash\"]\nwhy = \"w\"\n";
        let net = "[[needs]]\ncapability = \"net\"\nnames = [\"*\"]\nwhy = \"w\"\n";
        let read = "[[needs]]\ncapability = \"fs.read\"\nwhy = \"w\"\n";
        check(
            &format!("{process}{read}"),
            &["process"],
            false,
            &nothing,
            "a program to run (`--allow-program bash`); a working directory (`--allow-path DIR`)",
        );
        check(
            net,
            &["net"],
            true,
            &nothing,
            "a host to reach (`--allow-host HOST`)",
        );
        check(
            &format!("{net}{process}"),
            &["net", "process"],
            false,
            &nothing,
            "a program to run (`--allow-program bash`); a host to reach (`--allow-host HOST`); \
             a working directory (`--allow-path DIR`)",
        );
        check(
            "",
            &["process", "fs.read"],
            false,
            &nothing,
            "`process` in the manifest of plugin `p`",
        );
        check(
            "",
            &["net", "process"],
            false,
            &nothing,
            "`process`, `net` in the manifest of plugin `p`",
        );
        let path = json!({"path": "a"});
        check(
            "",
            &[],
            true,
            &path,
            "`fs.read` in the manifest of plugin `p`",
        );
        check(
            "",
            &[],
            false,
            &path,
            "`fs.write` in the manifest of plugin `p`",
        );
        check(
            "",
            &["fs.read"],
            true,
            &path,
            "`fs.read` in the manifest of plugin `p`",
        );
        check("", &["user", "fs.read"], true, &path, "");
        check("", &[], true, &nothing, "");
        check(read, &["fs.read"], true, &path, "");
        // A tool that only inspects programs needs no grant.
        check(process, &["process"], true, &nothing, "");
    }
}

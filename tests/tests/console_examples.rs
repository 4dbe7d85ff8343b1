//! Console examples of the documents: commands that start `host` are run as a user would type them, and their output
//! is compared, as `e2e::console` describes. Examples that cannot be run are blocks of `text`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use e2e::console::{Session, examples};
use e2e::{host, root};
use regex::Regex;

/// So that the test fails when examples become blocks of `text`.
const MIN_COMMANDS: usize = 30;

/// What has to exist before an example: the page, a command, and a script that runs before it.
const PREPARATIONS: &[(&str, &str, &str)] = &[
    (
        "docs/audit.md",
        "host calls --since 1h",
        "host call write_file path=old.txt content=old --plugins ./plugins --allow-path .:rw --allow-tool write_file",
    ),
    (
        "docs/audit.md",
        "host calls --state awaiting_approval",
        r#"printf '[policy]\non_headless_ask = "callback"\n' > callback.toml
        for file in a b; do
            timeout 120 host call write_file path=$file.txt content=x --plugins ./plugins --allow-path .:rw \
                --config callback.toml > $file.out 2>&1 &
            until [ "$(host calls --state awaiting_approval --json | grep -c '"id"')" = "$(ls *.out | wc -l)" ]; do
                :
            done
        done"#,
    ),
    (
        "docs/batch.md",
        "host batch calls.json --plugins ./plugins --allow-path . > results.json",
        r#"echo '[{"id": "toolu_1", "name": "read_file", "input": {"path": "README.md"}},
            {"id": "toolu_2", "name": "grep", "input": {"pattern": "TODO"}}]' > calls.json; touch README.md"#,
    ),
    (
        "docs/components.md",
        "host tools --plugins ./notes.wasm",
        r#"cp "$GUESTS/plain_functions.wasm" notes.wasm"#,
    ),
    (
        "docs/components.md",
        "host pack notes.wasm --manifest notes.plugin.toml --output packed.wasm",
        r#"printf 'name = "notes"\nversion = "1.0.0"\ndescription = "Notes in files"\n' > notes.plugin.toml"#,
    ),
    (
        "docs/formats.md",
        "host tools --format anthropic --plugins ./plugins --allow-path . > tools.json",
        r#"echo '{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read_file",
            "input": {"path": "a.txt"}}]}' > message.json; echo a > a.txt"#,
    ),
    (
        "docs/mcp-servers.md",
        "host mcp list",
        r#"mkdir -p ~/.config/toolhost; echo 'mcp_servers.memory = { command = "npx" }' > ~/.config/toolhost/toolhost.toml"#,
    ),
    (
        "docs/permissions.md",
        "host policy explain read_file path=.ssh/id --config toolhost.toml --plugins ./plugins --allow-path .",
        r#"printf '[policy]\ndeny = ["Read(.ssh/**)"]\n' > toolhost.toml"#,
    ),
    (
        "docs/prompts.md",
        "host call write_file path=notes/a.txt content=one --plugins ./plugins --allow-path .:rw",
        "mkdir notes",
    ),
    (
        "docs/signatures.md",
        "host key new ann > ann.pub",
        r#"cp "$GUESTS/plain_functions.wasm" notes.wasm"#,
    ),
    (
        "docs/staged-writes.md",
        "host call rewrite from=old to=new --plugins ./rewrite.wasm --allow-path ws:rw",
        r#"mkdir -p ws/deep
        printf 'the old way\n' > ws/a.txt
        printf 'old and old\nlast line\n' > ws/deep/b.txt
        printf '# old\n\nSee the old page.\n' > ws/deep/c.md
        printf '[[needs]]\ncapability = "%s"\nwhy = "an example"\n' fs.read fs.write > needs.toml
        printf 'name = "rewrite"\nversion = "0.1.0"\ndescription = "An example"\n' | cat - needs.toml > plugin.toml
        host pack "$GUESTS/rewrite.wasm" --manifest plugin.toml --output rewrite.wasm"#,
    ),
    (
        "docs/terminal.md",
        "host run --plugins ./plugins --allow-path .:rw --allow-tool edit_file",
        "printf '# Notes\n\n- call Ada\n' > notes.md",
    ),
];

#[test]
fn console_examples_show_real_output() {
    let (mut commands, mut others, mut prepared, mut wrong) = (0, 0, 0, String::new());
    // Those of this page need a registry: `publishing.rs`.
    for page in pages()
        .into_iter()
        .filter(|page| page != "docs/publishing.md")
    {
        let examples = examples(&fs::read_to_string(root().join(&page)).unwrap());
        let (ours, foreign): (Vec<_>, Vec<_>) = examples
            .into_iter()
            .partition(|example| example.command.starts_with("host "));
        others += foreign.len();
        commands += ours.len();
        if ours.is_empty() {
            continue;
        }
        let mut session = Session::new();
        for example in &ours {
            for (of, before, script) in PREPARATIONS {
                if *of == page && *before == example.command {
                    prepared += 1;
                    let (ok, output) = session.run(script);
                    assert!(ok, "{page}: preparing `{before}`: {output}");
                }
            }
            if let Err(problem) = session.check(example) {
                let _ = writeln!(wrong, "{page}:{}: {problem}", example.line);
            }
        }
    }
    assert_eq!(
        prepared,
        PREPARATIONS.len(),
        "an example was changed or removed"
    );
    println!("{commands} commands were run; {others} are commands of other programs");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(commands >= MIN_COMMANDS, "{commands}");
}

#[test]
fn documents_name_existing_commands_and_flags() {
    let mention = Regex::new(r"(?m)(?:`|^\$ )host ([^`|>\n]*)").unwrap();
    let flag = Regex::new("--[a-z][a-z-]+").unwrap();
    let mut helps = BTreeMap::<String, String>::new();
    let (mut count, mut wrong) = (0, String::new());
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for found in mention.captures_iter(&text) {
            let (mut command, mut has_flags) = (String::new(), false);
            for word in found[1].split_whitespace().take_while(|word| *word != "--") {
                let help = helps.entry(command.clone()).or_insert_with(|| {
                    let words: Vec<&str> = command.split_whitespace().collect();
                    let output = host(&words).arg("--help").output().unwrap();
                    String::from_utf8(output.stdout).unwrap()
                });
                let listed = help
                    .lines()
                    .any(|line| line.starts_with(&format!("  {word} ")));
                let takes_commands = command.is_empty() || help.contains("Commands:\n");
                let is_argument = help.contains("Arguments:\n") && !listed;
                let exists = if let Some(flag) = flag.find(word) {
                    has_flags = true;
                    help.split(|c: char| c != '-' && !c.is_ascii_lowercase())
                        .any(|word| word == flag.as_str())
                } else if has_flags || !takes_commands || is_argument {
                    true
                } else if word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    let _ = write!(command, "{word} ");
                    listed
                } else {
                    // A placeholder such as `COMMAND`.
                    break;
                };
                count += 1;
                if !exists {
                    let _ = writeln!(wrong, "{page}: {}: no {word}", &found[0]);
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 200, "{count}");
}

fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "SECURITY.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name
            .rsplit_once('.')
            .is_some_and(|(_, extension)| extension == "md")
        {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    pages
}

//! docs/publishing.md with a real registry: publish, install, lock, update and revoke as the page shows.

use std::fmt::Write as _;
use std::fs;

use e2e::console::{Session, examples};
use e2e::registry::Registry;
use e2e::root;

#[test]
fn the_guide_shows_real_output() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let address = registry.address.clone();
    let mut session = Session::with_replacements(vec![("registry.example.org".into(), address)]);
    let (ok, output) = session.run(
        r#"need() { printf '[[needs]]\ncapability = "%s"\nwhy = "to %s notes"\n' "$1" "$2"; }
        pack() {
            { printf 'name = "notes"\nversion = "%s.0.0"\ndescription = "Notes in files"\n' "$1"; need fs.read find; } > plugin.toml
            [ "$1" = 1 ] || need fs.write write >> plugin.toml
            host pack "$GUESTS/plain_functions.wasm" --manifest plugin.toml --output "$2"
        }
        pack 1 notes.wasm && pack 2 notes-2.wasm && pack 3 notes-3.wasm"#,
    );
    assert!(ok, "{output}");
    let page = fs::read_to_string(root().join("docs/publishing.md")).unwrap();
    let examples = examples(&page);
    assert!(examples.len() >= 12, "{}", examples.len());
    let mut wrong = String::new();
    for example in &examples {
        if let Err(problem) = session.check(example) {
            let _ = writeln!(wrong, "docs/publishing.md:{}: {problem}", example.line);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

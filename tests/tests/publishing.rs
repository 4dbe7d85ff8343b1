//! docs/publishing.md with a real registry: publish, install, lock, update and revoke as the page shows.

use std::fmt::Write as _;
use std::fs;

use e2e::console::{Session, examples};
use e2e::registry::Registry;
use e2e::{root, target};

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

/// Plugins of two languages: packed, signed, published, installed and called.
#[test]
fn plugins_in_rust_and_python_are_published() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    for (language, tool) in [("rust", "word_count_rs"), ("python", "word_count_py")] {
        let component = target().join(format!("samples/{language}.wasm"));
        if !component.exists() {
            eprintln!("skipped: the sample in {language} was not built");
            continue;
        }
        let address = registry.address.clone();
        let replacements = vec![("registry.example.org".into(), address)];
        let session = Session::with_replacements(replacements);
        let component = component.display();
        let reference = format!("{}/samples/{language}:1", registry.address);
        let (ok, output) = session.run(&format!(
            r#"printf 'name = "words"\nversion = "1.0.0"\ndescription = "Words"\n' > plugin.toml
            set -e
            host key new ann > ann.pub
            host pack {component} --manifest plugin.toml --output words.wasm
            host publish words.wasm {reference} --key ann
            host add {reference} --key ann.pub --yes
            host call {tool} text="one two three"
            if host add {reference} --key bob.pub --yes; then exit 1; fi"#
        ));
        assert!(ok, "{language}: {output}");
        assert!(output.contains("installed words 1.0.0"), "{output}");
        assert!(output.contains("3 words"), "{output}");
    }
}

//! Checks of the plugin contract: its files, and components that were built against it.

use std::fs;
use std::path::{Path, PathBuf};

use wit_parser::{Stability, TypeDefKind, WorldItem, WorldKey};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names that lack documentation or `@since`.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn check(&mut self, name: &str, docs: &wit_parser::Docs, stability: &Stability) {
        self.check_docs(name, docs);
        let is_gated =
            matches!(stability, Stability::Stable { since, .. } if since.to_string() == "0.1.0");
        if !is_gated {
            self.0
                .push(format!("{name} is not @since(version = 0.1.0)"));
        }
    }

    fn check_docs(&mut self, name: &str, docs: &wit_parser::Docs) {
        if docs.contents.is_none() {
            self.0.push(format!("{name} has no documentation"));
        }
    }
}

#[test]
fn everything_in_the_contract_is_documented_and_has_a_version() {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit/v0.1")).unwrap();
    let mut findings = Findings::default();
    for (name, id) in &resolve.packages[package].interfaces {
        let interface = &resolve.interfaces[*id];
        findings.check(name, &interface.docs, &interface.stability);
        for (function, item) in &interface.functions {
            findings.check(&format!("{name}.{function}"), &item.docs, &item.stability);
        }
        for (type_name, id) in &interface.types {
            let item = &resolve.types[*id];
            let members: Vec<(&str, &wit_parser::Docs)> = match &item.kind {
                TypeDefKind::Record(record) => record
                    .fields
                    .iter()
                    .map(|field| (field.name.as_str(), &field.docs))
                    .collect(),
                TypeDefKind::Variant(variant) => variant
                    .cases
                    .iter()
                    .map(|case| (case.name.as_str(), &case.docs))
                    .collect(),
                // A name that `use` takes from another interface.
                TypeDefKind::Type(wit_parser::Type::Id(_)) => continue,
                _ => Vec::new(),
            };
            findings.check(&format!("{name}.{type_name}"), &item.docs, &item.stability);
            for (member, docs) in members {
                findings.check_docs(&format!("{name}.{type_name}.{member}"), docs);
            }
        }
    }
    for (name, id) in &resolve.packages[package].worlds {
        let world = &resolve.worlds[*id];
        findings.check(name, &world.docs, &world.stability);
        for (key, item) in world.imports.iter().chain(&world.exports) {
            let is_gated = matches!(
                item,
                WorldItem::Interface {
                    stability: Stability::Stable { .. },
                    ..
                }
            );
            assert!(matches!(key, WorldKey::Interface(_)), "{name}");
            if !is_gated {
                findings
                    .0
                    .push(format!("{name}: {key:?} is not @since(version = 0.1.0)"));
            }
        }
    }
    assert!(findings.0.is_empty(), "{:#?}", findings.0);
}

/// Components that were built against the contract when it was frozen. A host that cannot load and call them breaks
/// the plugins of its users: do not rebuild them.
#[tokio::test]
async fn components_built_against_the_frozen_contract_load_and_run() {
    let folder = root().join("tests/fixtures/contract-0.1");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wasm")
        {
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
            call_fixture(&path).await;
        }
    }
    names.sort();
    assert_eq!(names, ["rust", "wat"]);
}

async fn call_fixture(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let loaded = runtime().load(path).await.unwrap();
    let tool = &loaded.tools()[0];
    assert!(tool.name.as_str().starts_with("word_count"), "{path:?}");
    let request = types::Request {
        tool: tool.name.to_string(),
        input: r#"{"text": "to be or not to be"}"#.to_owned(),
        ..request()
    };
    let tools = tools(&bytes).await;
    let limits = Limits::default();
    let outcome = call_tool(&tools, &limits, Duration::from_mins(1), &request).await;
    let outcome = outcome.unwrap().unwrap();
    assert_eq!(
        outcome.structured.as_deref(),
        Some(r#"{"words":6}"#),
        "{path:?}"
    );
    assert_eq!(outcome.llm[0].text.as_deref(), Some("6 words"), "{path:?}");
}

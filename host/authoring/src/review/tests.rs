//! Findings about a plugin with every fault, and about one without.

use expect_test::expect;
use serde_json::json;
use toolhost_contract::{Annotations, Example, ToolName};

use super::*;

fn parse(text: &str) -> Manifest {
    Manifest::parse("plugin.toml", text).unwrap()
}

fn shown(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let tool = finding
            .tool
            .as_ref()
            .map(|tool| format!("{tool}: "))
            .unwrap_or_default();
        format!(
            "{:?} {} {tool}{}\n",
            finding.severity, finding.code, finding.message
        )
    };
    findings.iter().map(line).collect()
}

fn good_tool() -> Descriptor {
    let mut tool = Descriptor::new(
        ToolName::parse("word_count").unwrap(),
        "Count the words of a text.",
    );
    tool.annotations = Annotations {
        pure: Some(true),
        ..Annotations::default()
    };
    tool.input_schema = json!({"type": "object", "properties": {
        "text": {"type": "string", "description": "The text whose words are counted."},
    }});
    tool.examples = vec![Example {
        description: "two".to_owned(),
        input: json!({"text": "a b"}),
    }];
    tool
}

#[test]
fn a_good_plugin_has_no_findings() {
    let manifest = parse(
        "name = \"a\"\nversion = \"1.0.0\"\ndescription = \"Counts the words of files.\"\nlicense = \"MIT\"\n\
         [[needs]]\ncapability = \"fs.read\"\nwhy = \"to read the files\"\n",
    );
    let plugin = ReviewedPlugin {
        manifest: &manifest,
        tools: &[good_tool()],
        imports: &[
            "wasi:filesystem/types@0.2.6".to_owned(),
            "toolhost:plugin/host@0.1.0".to_owned(),
        ],
        size: 1 << 20,
    };
    assert_eq!(review(plugin), []);
}

#[test]
fn every_fault_is_found() {
    let manifest = parse(
        "name = \"a\"\nversion = \"1.0.0\"\ndescription = \"words\"\n\
         [[needs]]\ncapability = \"net\"\nnames = [\"*\"]\nwhy = \"x\"\n\
         [[needs]]\ncapability = \"session\"\nwhy = \"to remember the last text\"\n",
    );
    let mut bad = Descriptor::new(ToolName::parse("run").unwrap(), "Runs.");
    bad.requires = vec!["process".to_owned()];
    bad.tags = vec!["invisible characters removed".to_owned()];
    bad.input_schema = json!({"type": "object", "properties": {
        "x": {"type": "string", "description": "X"},
        "data": {},
        "options": {"type": "object", "description": "Options of the run.", "properties": {"deep": {"type": "integer"}}},
        "list\u{1b}": {"type": "array", "description": "A list.", "items": {"properties": {"name": {"type": "string"}}}},
    }});
    let mut long = good_tool();
    long.description = "word ".repeat(500);
    long.requires = vec!["net".to_owned()];
    let many = (0..20).map(|n| {
        (
            format!("p{n}"),
            json!({"type": "string", "description": "A text of the call. ".repeat(10)}),
        )
    });
    long.input_schema =
        json!({"type": "object", "properties": many.collect::<serde_json::Map<_, _>>()});
    let plugin = ReviewedPlugin {
        manifest: &manifest,
        tools: &[bad, long],
        imports: &[
            "toolhost:plugin/session@0.1.0".to_owned(),
            "toolhost:plugin/process@0.1.0".to_owned(),
        ],
        size: 30 << 20,
    };
    expect![[r#"
        Warning plugin-description `description` of the manifest does not say what the plugin does
        Warning license the manifest has no `license`, so others may not use the plugin
        Warning size the file has 30.0 MiB; above 24.0 MiB the first start takes many seconds
        Warning reason `why` of the need `net` is too short: say what the plugin does with it
        Warning unused-need the plugin needs `net` but does not import wasi:http/*; remove the need
        Warning unused-need the plugin needs `session`, but no tool has it in `requires`; remove the need
        Warning missing-need the component imports toolhost:plugin/process*, but the manifest has no need `process`: its calls fail
        Warning description run: the description does not tell a model when to use the tool
        Warning name run: the name does not say what the tool does
        Warning effect run: no effect is declared, so the tool is treated as `destroys`; declare `pure`, `reads` or `writes`
        Warning examples run: the tool has no examples, which models and `host test` use
        Error invisible-characters run: its texts contained invisible characters, which the host removes
        Error requires run: it requires `process`, which is not a need of the manifest
        Warning parameter-description run: parameter `x` is described by its own name
        Warning parameter-name run: parameter `x` has a name that does not say what it is
        Warning parameter-description run: parameter `data` has no description
        Warning parameter-name run: parameter `data` has a name that does not say what it is
        Warning parameter-type run: parameter `data` has no type
        Warning parameter-description run: parameter `options.deep` has no description
        Warning parameter-description run: parameter `list\u{1b}[].name` has no description
        Warning description word_count: the description has 2499 bytes, which every request to a model contains; keep it below 2000
        Warning schema-size word_count: the input schema has 4.7 KiB, which every request to a model contains
        Warning parameters word_count: 20 parameters; models choose better among at most 15
    "#]].assert_eq(&shown(&review(plugin)));
}

#[test]
fn findings_about_a_schema_are_bounded() {
    let mut tool = good_tool();
    let many = (0..5_000).map(|n| (format!("p{n}"), json!({})));
    tool.input_schema = json!({"properties": many.collect::<serde_json::Map<_, _>>()});
    assert!(schema::findings(&tool).len() <= 20);
}

#[test]
fn imports_of_a_toolchain_that_imports_everything_say_nothing() {
    let manifest = parse("name = \"a\"\nversion = \"1.0.0\"\ndescription = \"x\"\n");
    let services = ["session", "process", "user", "agents", "tools", "resources"];
    let imports = services.map(|name| format!("toolhost:plugin/{name}@0.1.0"));
    let missing = |imports: &[String]| {
        let plugin = ReviewedPlugin {
            manifest: &manifest,
            tools: &[],
            imports,
            size: 1,
        };
        let findings = review(plugin).into_iter();
        findings.filter(|one| one.code == "missing-need").count()
    };
    assert_eq!((missing(&imports), missing(&imports[1..])), (0, 5));
}

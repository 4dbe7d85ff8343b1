//! What the words of `#[tool]` make of a descriptor.

use expect_test::{Expect, expect};

use super::*;
use crate::{Context, Outcome, Result, Tool, data, tool};

/// One line.
#[data]
struct Line {
    /// The text.
    text: String,
}

/// Depends on nothing.
#[tool(pure)]
fn plainly_pure() {}

/// Reads with all the words,
/// on two lines.
#[tool(
    reads, network, interactive, idempotent, lenient, streams,
    name = "other_name", display_name = "Other", icon = "eye", category = "file", kind = "read", version = "1.2.0",
    concurrency = "serial", tags = ["a", "b"], aliases = ["third_name"], requires = ["env"], depends_on = ["stat"],
    timeout = "2m", inactivity_timeout = "500ms",
    example(description = "nothing", input = "{}"),
    example(description = "something", input = r#"{"line": {"text": "x"}}"#),
)]
fn talkative(
    cx: &Context,
    /// A line.
    line: Option<Line>,
) -> Result<Line> {
    cx.check()?;
    Ok(line.unwrap_or(Line {
        text: String::new(),
    }))
}

/// Writes.
#[tool(writes, output = Line)]
fn writer() -> Outcome {
    Outcome::new()
}

/// Destroys.
#[tool(destroys, network)]
fn destroyer() -> Result<()> {
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check<T: Tool>(expected: Expect) {
    let Annotations {
        read_only,
        pure,
        destructive,
        idempotent,
        open_world,
        interactive,
    } = T::descriptor().annotations;
    let facts = [
        ("read_only", read_only),
        ("pure", pure),
        ("destructive", destructive),
        ("idempotent", idempotent),
        ("open_world", open_world),
        ("interactive", interactive),
    ];
    let facts: Vec<_> = facts
        .into_iter()
        .filter(|(_, fact)| *fact == Some(true))
        .map(|(name, _)| name)
        .collect();
    expected.assert_eq(&format!(
        "{} requires {}",
        facts.join(" "),
        T::descriptor().requires.join(" ")
    ));
}

#[test]
fn one_word_sets_the_annotations() {
    check::<plainly_pure>(expect!["read_only pure idempotent requires "]);
    check::<talkative>(expect![
        "read_only idempotent open_world interactive requires env"
    ]);
    check::<writer>(expect![" requires fs.read fs.write"]);
    check::<destroyer>(expect!["destructive open_world requires fs.read fs.write"]);
}

#[test]
fn every_word_arrives() {
    expect![[r#"
        Descriptor {
            name: "other_name",
            aliases: [
                "third_name",
            ],
            display_name: Some(
                "Other",
            ),
            description: "Reads with all the words, on two lines.",
            icon: Some(
                "eye",
            ),
            category: Some(
                "file",
            ),
            kind: Some(
                "read",
            ),
            version: Some(
                "1.2.0",
            ),
            tags: [
                "a",
                "b",
            ],
            input_schema: Object {
                "type": String("object"),
                "properties": Object {
                    "line": Object {
                        "type": String("object"),
                        "description": String("A line."),
                        "properties": Object {
                            "text": Object {
                                "type": String("string"),
                                "description": String("The text."),
                            },
                        },
                        "required": Array [
                            String("text"),
                        ],
                        "additionalProperties": Bool(false),
                    },
                },
                "additionalProperties": Bool(false),
            },
            output_schema: Some(
                Object {
                    "type": String("object"),
                    "description": String("One line."),
                    "properties": Object {
                        "text": Object {
                            "type": String("string"),
                            "description": String("The text."),
                        },
                    },
                    "required": Array [
                        String("text"),
                    ],
                    "additionalProperties": Bool(false),
                },
            ),
            strict: Some(
                false,
            ),
            annotations: Annotations {
                read_only: Some(
                    true,
                ),
                pure: Some(
                    false,
                ),
                destructive: Some(
                    false,
                ),
                idempotent: Some(
                    true,
                ),
                open_world: Some(
                    true,
                ),
                interactive: Some(
                    true,
                ),
            },
            concurrency: Some(
                "serial",
            ),
            output_markdown: None,
            can_stream: true,
            can_modify: false,
            can_background: false,
            timeout_ms: Some(
                120000,
            ),
            inactivity_timeout_ms: Some(
                500,
            ),
            max_output_bytes: None,
            requires: [
                "env",
            ],
            depends_on: [
                "stat",
            ],
            hooks: [],
            examples: [
                Example {
                    description: "nothing",
                    input: "{}",
                },
                Example {
                    description: "something",
                    input: "{\"line\": {\"text\": \"x\"}}",
                },
            ],
            extra: None,
        }
    "#]]
    .assert_debug_eq(&talkative::descriptor());
}

#[test]
fn names_cost_no_descriptor_and_agree_with_it() {
    assert_eq!(talkative::name(), talkative::descriptor().name);
    assert_eq!(writer::name(), writer::descriptor().name);
}

#[test]
fn an_output_can_be_named() {
    assert_eq!(writer::descriptor().output_schema, Some(Line::schema()));
    assert_eq!(destroyer::descriptor().output_schema, None);
}

#[test]
fn tools_stay_functions() {
    plainly_pure();
    assert_eq!(writer(), Outcome::new());
    assert_eq!(destroyer(), Ok(()));
    assert!(talkative(&Context::test(), None).is_ok_and(|line| line.text.is_empty()));
}

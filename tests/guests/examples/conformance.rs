//! The tools called by the official MCP conformance suite, as a component, so that the suite tests the complete call
//! path. Features that a component does not support are in `host/mcp-server/src/fixtures`.

use std::thread::sleep;
use std::time::Duration;

use toolhost_sdk::prelude::*;

/// The delay between two messages that the suite requires.
const STEP: Duration = Duration::from_millis(50);

/// A red square of one pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0xc9, 0xfe, 0x92, 0xef, 0, 0, 0, 0, b'I',
    b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// One silent audio sample.
const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 0x25, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 0x10, 0,
    0, 0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0, b'd', b'a', b't', b'a', 1, 0,
    0, 0, 0x80,
];

/// Returns text.
#[tool(pure)]
fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Returns an image.
#[tool(pure)]
fn test_image_content() -> Outcome {
    Outcome::new().part(Part::image(PNG, "image/png"))
}

/// Returns audio.
#[tool(pure)]
fn test_audio_content() -> Outcome {
    Outcome::new().part(Part::audio(WAV, "audio/wav"))
}

/// Returns a file with a URI.
#[tool(pure)]
fn test_embedded_resource() -> Outcome {
    Outcome::new().part(resource(
        "test://embedded-resource",
        "text/plain",
        "This is an embedded resource content.",
    ))
}

/// Returns text, an image and a file.
#[tool(pure)]
fn test_multiple_content_types() -> Outcome {
    Outcome::text("Multiple content types test:")
        .part(Part::image(PNG, "image/png"))
        .part(resource(
            "test://mixed-content-resource",
            "application/json",
            r#"{"test":"data","value":123}"#,
        ))
}

fn resource(uri: &str, media_type: &str, text: &str) -> Part {
    let mut part = Part::file(text, media_type);
    part.uri = Some(uri.to_owned());
    part
}

/// Always fails.
#[tool(pure)]
fn test_error_handling() -> Result<()> {
    Err(Error::failed(
        "This tool intentionally returns an error for testing",
    ))
}

/// Tells how far it is: 0, 50 and 100 of 100.
#[tool(pure)]
fn test_tool_with_progress(cx: &Context) -> &'static str {
    cx.progress_of(0.0, 100.0);
    sleep(STEP);
    cx.progress_of(50.0, 100.0);
    sleep(STEP);
    cx.progress_of(100.0, 100.0);
    "done in three steps"
}

/// Writes three lines to the log while it runs.
#[tool(pure)]
fn test_tool_with_logging(cx: &Context) -> &'static str {
    cx.info("Tool execution started");
    sleep(STEP);
    cx.info("Tool processing data");
    sleep(STEP);
    cx.info("Tool execution completed");
    "three lines were logged"
}

/// Writes a line to the log.
#[tool(pure)]
fn test_logging_tool(cx: &Context) -> &'static str {
    cx.info("a line for those who asked for it");
    "a line was logged"
}

/// Asks the user for a name and an address.
#[tool(reads, interactive, requires = ["user"])]
fn test_elicitation(
    cx: &Context,
    /// Message for the user.
    message: String,
) -> Result<String> {
    let answers = cx.ask(&json!([
        {"question": format!("{message} (user name)"), "header": "username", "type": "text"},
        {"question": format!("{message} (address)"), "header": "email", "type": "text"},
    ]))?;
    Ok(format!("User response: {answers}"))
}

/// Asks the user during a streamed response.
#[tool(reads, interactive, requires = ["user"])]
fn test_streaming_elicitation(cx: &Context) -> Result<String> {
    cx.progress_of(0.0, 1.0);
    let answers = cx.ask(&json!([{"question": "Go on?", "header": "Go on", "type": "yesno"}]))?;
    Ok(format!("User response: {answers}"))
}

/// Requests sampling from the client.
#[tool(writes, requires = ["agents"])]
fn test_sampling(
    cx: &Context,
    /// Prompt for the model.
    prompt: String,
) -> Result<String> {
    let answer = cx.run_agent(&json!({
        "agent": "client", "prompt": prompt, "description": "A sentence of the client's model",
    }))?;
    Ok(format!(
        "LLM response: {}",
        answer["text"].as_str().unwrap_or_default()
    ))
}

/// Returns a greeting.
#[tool(pure)]
fn greet(
    /// Name.
    #[arg(default = "World")]
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Runs for some seconds.
#[tool(pure, background, timeout = "60s")]
fn slow_compute(
    /// Seconds.
    #[arg(default = 0.0, min = 0.0, max = 60.0)]
    seconds: f64,
    /// Label of the result.
    #[arg(default = "slow_compute")]
    label: String,
) -> String {
    sleep(Duration::from_secs_f64(seconds));
    format!("{label}: computed for {seconds} s")
}

/// Fails after a while.
#[tool(pure, background)]
fn failing_job() -> Result<()> {
    sleep(Duration::from_secs(1));
    Err(Error::failed("the job failed, as it always does"))
}

/// Mirrors a value into a header of HTTP.
struct CustomHeader;

impl Tool for CustomHeader {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "test_custom_header",
            "Takes a value that a client sends in a header too.",
        )
        .pure()
        .input_schema(json!({
            "type": "object",
            "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
            "additionalProperties": false,
        }))
    }

    fn call(_: &Context, input: Value) -> Result<Outcome> {
        Ok(Outcome::text(format!("value: {}", input["value"])))
    }
}

/// Has a schema with the harder half of JSON Schema 2020-12.
struct HardSchema;

impl Tool for HardSchema {
    fn descriptor() -> Descriptor {
        Descriptor::new(
            "json_schema_2020_12_tool",
            "Tool with JSON Schema 2020-12 features",
        )
        .pure()
        .input_schema(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        }))
    }

    fn call(_: &Context, input: Value) -> Result<Outcome> {
        Ok(Outcome::text(format!("reached by {input}")))
    }
}

export_tools![
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_tool_with_logging,
    test_logging_tool,
    test_elicitation,
    test_streaming_elicitation,
    test_sampling,
    greet,
    slow_compute,
    failing_job,
    CustomHeader,
    HardSchema,
];

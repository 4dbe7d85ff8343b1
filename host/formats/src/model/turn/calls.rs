//! Calls in the parts of a turn. A call of another format is an error, because ignoring it would look as if the model
//! were done.

use serde_json::{Map, Value, json};

use super::detect::{check_format, invalid_turn, non_null};
use super::{CallForm, ModelCall};
use crate::model::{Format, FormatError};
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::text;

/// Returns the call in a part, if any. `part` is a block, call, item, part or request, depending on the format.
pub(super) fn call(format: Format, part: &Value) -> Result<Option<ModelCall>, FormatError> {
    match format {
        Format::Anthropic => anthropic(part),
        Format::OpenAi => openai(part).map(Some),
        Format::OpenAiResponses => responses(part),
        Format::Gemini => gemini(part),
        Format::Mcp => mcp(part),
    }
}

fn anthropic(block: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Anthropic;
    match block["type"].as_str() {
        Some("tool_use") => {
            let input = input_or_empty(block.get("input"));
            Ok(Some(ModelCall::new(
                block.get("id"),
                block.get("name"),
                input,
            )))
        }
        Some("tool_result") => Err(invalid_turn(
            format,
            block,
            "these are tool results; pass the model's turn",
        )),
        // `server_tool_use` and `mcp_tool_use` run on other servers.
        Some(_) => check_format(format, block).map(|()| None),
        None => Err(invalid_turn(format, block, "a block must have a `type`")),
    }
}

fn openai(call: &Value) -> Result<ModelCall, FormatError> {
    check_format(Format::OpenAi, call)?;
    if !call.is_object() {
        return Err(invalid_turn(
            Format::OpenAi,
            call,
            "a call must be an object",
        ));
    }
    // A call of a custom tool, whose input is free text. The host's tools take objects.
    if let Some(custom) = call.get("custom").filter(|custom| custom.is_object()) {
        let input = custom.get("input").cloned().unwrap_or_default();
        return Ok(ModelCall::new(call.get("id"), custom.get("name"), input));
    }
    // Returned also without `function`, because the API requires a response to each identifier.
    let function = &call["function"];
    let input = arguments(function.get("arguments"));
    Ok(ModelCall::new(call.get("id"), function.get("name"), input))
}

/// Reads the legacy form, which is a member of the message and has no identifier.
pub(super) fn legacy(call: &Value) -> ModelCall {
    let input = arguments(call.get("arguments"));
    ModelCall {
        kind: CallForm::Legacy,
        ..ModelCall::new(None, call.get("name"), input)
    }
}

/// Item types that occur in conversations but not in responses.
const CONVERSATION_ITEMS: [&str; 3] = [
    "function_call_output",
    "custom_tool_call_output",
    "item_reference",
];

fn responses(item: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::OpenAiResponses;
    let kind = item["type"].as_str();
    let is_answered = kind.is_some_and(|kind| CONVERSATION_ITEMS.contains(&kind));
    // Model output has a role and a type.
    let is_said = non_null(item, "role").is_none_or(|role| role == "assistant" && kind.is_some());
    if is_answered || !is_said {
        // Calls in a conversation were already answered and must not run again.
        let reason = "this is a conversation; pass only the `output` of the last response";
        return Err(invalid_turn(format, item, reason));
    }
    let Some(kind) = kind else {
        return Err(invalid_turn(format, item, "an item must have a `type`"));
    };
    match kind {
        "function_call" => {}
        "custom_tool_call" => {
            let input = item.get("input").cloned().unwrap_or_default();
            return Ok(Some(ModelCall::new(
                item.get("call_id"),
                item.get("name"),
                input,
            )));
        }
        _ => {
            return check_format(format, item).map(|()| None);
        }
    }
    let id = item.get("call_id").or_else(|| item.get("id"));
    let input = arguments(item.get("arguments"));
    let mut wanted = ModelCall::new(id, item.get("name"), input);
    if item["status"] == "incomplete" && wanted.error.is_none() {
        wanted.error = Some(
            "this call was truncated and was not run; call again with a shorter input".to_owned(),
        );
    }
    Ok(Some(wanted))
}

fn gemini(part: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Gemini;
    let member = |names: [&str; 2]| names.into_iter().find_map(|name| non_null(part, name));
    if let Some(call) = member(["functionCall", "function_call"]) {
        // Missing members of a partial call must not be replaced by defaults.
        if [
            "partialArgs",
            "partial_args",
            "willContinue",
            "will_continue",
        ]
        .iter()
        .any(|word| call.get(word).is_some_and(|value| *value != json!(false)))
        {
            let reason = "this is a partial call, which is not supported; disable `streamFunctionCallArguments`";
            return Err(invalid_turn(format, part, reason));
        }
        let input = input_or_empty(call.get("args"));
        return Ok(Some(ModelCall::new(
            call.get("id"),
            call.get("name"),
            input,
        )));
    }
    if member(["functionResponse", "function_response"]).is_some() {
        let reason = "these are tool results; pass the model's turn";
        return Err(invalid_turn(format, part, reason));
    }
    if !part.is_object() || part.get("name").is_some() {
        let reason = "a part must be an object, with a call in `functionCall`";
        return Err(invalid_turn(format, part, reason));
    }
    check_format(format, part).map(|()| None)
}

/// JSON-RPC error codes.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

fn mcp(request: &Value) -> Result<Option<ModelCall>, FormatError> {
    let format = Format::Mcp;
    let Some(method) = request["method"].as_str() else {
        return Err(invalid_turn(
            format,
            request,
            "a request must have a `method` and an `id`",
        ));
    };
    let id = match request.get("id") {
        Some(id) if id.is_string() || id.is_number() => id,
        // A notification, which has no response.
        None if method != "tools/call" => return Ok(None),
        _ => {
            let method = text::escape_line(method, 80);
            let reason = format!("the `{method}` request has no `id`; add a string or a number");
            return Err(invalid_turn(format, request, &reason));
        }
    };
    let refused = |code: i64, reason: String| ModelCall {
        id: Some(id.clone()),
        error: Some(reason),
        kind: CallForm::Invalid(code),
        ..ModelCall::new(None, None, input_or_empty(None))
    };
    let params = &request["params"];
    Ok(Some(if method != "tools/call" {
        let method = text::escape_line(method, 80);
        let reason = format!("the method `{method}` is not supported; use `tools/call`");
        refused(METHOD_NOT_FOUND, reason)
    } else if params["name"].as_str().is_none_or(str::is_empty) {
        let reason = "`params` names no tool; use {\"name\": …, \"arguments\": {…}}";
        refused(INVALID_PARAMS, reason.to_owned())
    } else {
        ModelCall {
            // An empty string is a valid identifier.
            id: Some(id.clone()),
            ..ModelCall::new(
                None,
                params.get("name"),
                input_or_empty(params.get("arguments")),
            )
        }
    }))
}

fn input_or_empty(input: Option<&Value>) -> Value {
    match input {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(input) => input.clone(),
    }
}

/// Parses arguments that the model wrote as JSON text. For tools without parameters the text is often empty.
fn arguments(arguments: Option<&Value>) -> Value {
    match arguments {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        // Text with an integer that would lose precision stays text; input validation reports the error.
        Some(Value::String(text)) if check_integers(text.as_bytes()).is_err() => json!(text),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Value::Object(members),
            Ok(Value::Null) => Value::Object(Map::new()),
            // Some models encode the arguments twice; input validation decodes the inner text or reports the error.
            Ok(Value::String(inner)) => Value::String(inner),
            Ok(_) | Err(_) => json!(text),
        },
        other => input_or_empty(other),
    }
}

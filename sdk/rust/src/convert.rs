//! Conversion between the SDK's types and those of the contract.

mod hook;

use serde_json::Value;

use crate::bindings::toolhost::plugin::types as wit;
use crate::context::CallFacts;
use crate::{
    Annotations, Descriptor, Display, Error, ErrorKind, Example, FileDiff, Outcome, Part, Root,
    TailCall, Truncation,
};

impl From<Descriptor> for wit::Descriptor {
    fn from(descriptor: Descriptor) -> Self {
        Self {
            name: descriptor.name,
            aliases: descriptor.aliases,
            display_name: descriptor.display_name,
            description: descriptor.description,
            icon: descriptor.icon,
            category: descriptor.category,
            kind: descriptor.kind,
            version: descriptor.version,
            tags: descriptor.tags,
            input_schema: descriptor.input_schema.to_string(),
            output_schema: text(descriptor.output_schema.as_ref()),
            strict: descriptor.strict,
            annotations: descriptor.annotations.into(),
            concurrency: descriptor.concurrency,
            output_markdown: descriptor.output_markdown,
            can_stream: descriptor.can_stream,
            can_background: descriptor.can_background,
            timeout_ms: descriptor.timeout_ms,
            inactivity_timeout_ms: descriptor.inactivity_timeout_ms,
            max_output_bytes: descriptor.max_output_bytes,
            requires: descriptor.requires,
            depends_on: descriptor.depends_on,
            hooks: descriptor.hooks,
            sinks: descriptor.sinks,
            sources: descriptor.sources,
            examples: descriptor.examples.into_iter().map(Into::into).collect(),
            extra: text(descriptor.extra.as_ref()),
        }
    }
}

impl From<Annotations> for wit::Annotations {
    fn from(
        Annotations {
            read_only,
            pure,
            destructive,
            idempotent,
            open_world,
            interactive,
        }: Annotations,
    ) -> Self {
        Self {
            read_only,
            pure,
            destructive,
            idempotent,
            open_world,
            interactive,
        }
    }
}

impl From<Example> for wit::Example {
    fn from(Example { description, input }: Example) -> Self {
        Self { description, input }
    }
}

impl From<Outcome> for wit::Outcome {
    fn from(outcome: Outcome) -> Self {
        Self {
            summary: outcome.summary,
            llm: outcome.llm.into_iter().map(Into::into).collect(),
            structured: text(outcome.structured.as_ref()),
            display: outcome.display.map(Into::into),
            error: outcome.error.map(failure),
            truncated: outcome.truncated.map(Into::into),
            tail: outcome.tail.map(Into::into),
            meta: text(outcome.meta.as_ref()),
        }
    }
}

impl From<Part> for wit::Part {
    fn from(
        Part {
            kind,
            text,
            data,
            media_type,
            uri,
            name,
        }: Part,
    ) -> Self {
        Self {
            kind,
            text,
            data,
            media_type,
            uri,
            name,
        }
    }
}

impl From<Display> for wit::Display {
    fn from(display: Display) -> Self {
        Self {
            kind: display.kind,
            text: display.text,
            diff: display.diff.map(Into::into),
            data: text(display.data.as_ref()),
        }
    }
}

impl From<FileDiff> for wit::FileDiff {
    fn from(
        FileDiff {
            file_name,
            diff,
            original,
            new,
        }: FileDiff,
    ) -> Self {
        Self {
            file_name,
            diff,
            original,
            new,
        }
    }
}

impl From<Truncation> for wit::Truncation {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the contract counts in f64, exact up to 8 petabytes"
    )]
    fn from(
        Truncation {
            original_bytes,
            shown_bytes,
            saved_to,
        }: Truncation,
    ) -> Self {
        Self {
            original_bytes: original_bytes as f64,
            shown_bytes: shown_bytes as f64,
            saved_to,
        }
    }
}

impl From<TailCall> for wit::TailCall {
    fn from(TailCall { tool, input }: TailCall) -> Self {
        Self {
            tool,
            input: input.to_string(),
        }
    }
}

impl From<Error> for wit::ToolError {
    fn from(error: Error) -> Self {
        let case = match error.kind {
            ErrorKind::InvalidInput => Self::InvalidInput,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Failed => Self::Failed,
        };
        case(failure(error))
    }
}

impl From<Error> for wit::Failure {
    fn from(error: Error) -> Self {
        failure(error)
    }
}

/// Errors inside an outcome have no kind, because the call itself succeeded.
fn failure(
    Error {
        kind: _,
        code,
        message,
        recommendations,
        retryable,
        cause,
        details,
    }: Error,
) -> wit::Failure {
    wit::Failure {
        code,
        message,
        recommendations,
        retryable,
        cause,
        details: text(details.as_ref()),
    }
}

impl CallFacts {
    pub(crate) fn new(call_id: String, context: wit::Context) -> Self {
        let roots = context
            .roots
            .into_iter()
            .map(|wit::Root { path, access }| Root { path, access });
        Self {
            call_id,
            agent_id: context.agent_id,
            parent_agent_id: context.parent_agent_id,
            session_id: context.session_id,
            task_id: context.task_id,
            user_id: context.user_id,
            mode: context.mode,
            roots: roots.collect(),
            // Extensions that this SDK cannot parse do not fail the call.
            extra: context
                .extra
                .and_then(|extra| serde_json::from_str(&extra).ok()),
        }
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.map(Value::to_string)
}

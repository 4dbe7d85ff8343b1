//! A component of ACT (Agent Component Tools), for comparison with its host `act`: its tool returns its arguments.

// Other targets cannot link exports with such names.
#![cfg(target_family = "wasm")]

wit_bindgen::generate!({
    inline: r#"
        package bench:act;

        world echo {
            export act:tools/tool-provider@0.2.0;
        }

        package act:core@0.4.0 {
            interface types {
                type cbor = list<u8>;
                type metadata = list<tuple<string, cbor>>;

                variant localized-string {
                    plain(string),
                    localized(list<tuple<string, string>>),
                }

                record error {
                    kind: string,
                    message: localized-string,
                    metadata: metadata,
                }
            }
        }

        package act:tools@0.2.0 {
            interface types {
                use act:core/types@0.4.0.{error, localized-string, metadata};

                record tool-definition {
                    name: string,
                    description: localized-string,
                    parameters-schema: string,
                    metadata: metadata,
                }

                record content-part {
                    data: list<u8>,
                    mime-type: option<string>,
                    metadata: metadata,
                }

                variant tool-event {
                    content(content-part),
                    error(error),
                }

                record list-tools-response {
                    metadata: metadata,
                    tools: list<tool-definition>,
                }
            }

            interface tool-provider {
                use act:core/types@0.4.0.{cbor, error, metadata};
                use types.{list-tools-response, tool-event};

                variant tool-result {
                    immediate(list<tool-event>),
                    streaming(stream<tool-event>),
                }

                list-tools: async func(metadata: metadata) -> result<list-tools-response, error>;
                call-tool: async func(name: string, arguments: cbor, metadata: metadata) -> tool-result;
            }
        }"#,
    generate_all,
});

use act::core::types::LocalizedString;
use act::tools::types::{ContentPart, ToolDefinition};
use exports::act::tools::tool_provider::{
    Error, Guest, ListToolsResponse, Metadata, ToolEvent, ToolResult,
};

struct Echo;

impl Guest for Echo {
    async fn list_tools(_metadata: Metadata) -> Result<ListToolsResponse, Error> {
        let echo = ToolDefinition {
            name: "echo".to_owned(),
            description: LocalizedString::Plain("Return the arguments.".to_owned()),
            parameters_schema: r#"{"type": "object", "properties": {"text": {"type": "string"}}}"#
                .to_owned(),
            metadata: Vec::new(),
        };
        Ok(ListToolsResponse {
            metadata: Vec::new(),
            tools: vec![echo],
        })
    }

    async fn call_tool(_name: String, arguments: Vec<u8>, _metadata: Metadata) -> ToolResult {
        ToolResult::Immediate(vec![ToolEvent::Content(ContentPart {
            data: arguments,
            mime_type: Some("application/cbor".to_owned()),
            metadata: Vec::new(),
        })])
    }
}

export!(Echo);

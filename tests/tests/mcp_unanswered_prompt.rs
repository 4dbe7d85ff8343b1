//! An unanswered prompt of one client does not block other clients.

use e2e::http::{Server, call, modern, modern_headers};
use e2e::{host, root};
use serde_json::json;

#[test]
fn an_unanswered_prompt_does_not_block_other_calls() {
    let mut command = host(&[
        "run",
        "--http",
        "127.0.0.1:0",
        "--http-no-token",
        "--ask-client",
    ]);
    for plugin in ["agent", "data"] {
        let file = root().join(format!("plugins/{plugin}.wasm"));
        command.arg("--plugins").arg(file);
    }
    let server = Server::start(command);
    let questions =
        json!({"questions": [{"question": "Which?", "header": "Which", "type": "text"}]});
    // Two unanswered prompts: the second does not wait for the first, though the plugin's tools run one at a time.
    for id in [1, 2] {
        let mut message = modern(call(id, "ask_user", &questions));
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {}});
        let headers = modern_headers("tools/call", "ask_user");
        let answer = server.client().post(&headers, &message).json();
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    }
    let todos = json!({"todos": []});
    let answer = server.client().call_modern(3, "todo_write", &todos);
    assert!(!answer.text().is_empty());
    for id in 4..=5 {
        let text = json!({"text": "a"});
        let answer = server.client().call_modern(id, "base64_encode", &text);
        assert_eq!(answer.text(), "YQ==");
    }
}

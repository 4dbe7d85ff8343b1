//! Narrowing, descriptions and states of saved approvals.

use toolhost_contract::{Mode, PluginName, ToolName, UserId};

use super::*;

fn approval(expires_ms: Option<i64>, uses_left: Option<u32>) -> Approval {
    Approval {
        id: "a-old".to_owned(),
        identity: ToolIdentity {
            plugin: PluginName::parse("files").unwrap(),
            tool: ToolName::parse("write_file").unwrap(),
            digest: None,
            definition: None,
        },
        narrowing: Narrowing::default(),
        scope: ApprovalScope::User,
        user: UserId::Local,
        session: None,
        mode_min: Mode::Default,
        created_ms: 10,
        by: "user".to_owned(),
        expires_ms,
        uses_left,
    }
}

#[test]
fn narrowing_never_widens() {
    let hour = Some(Duration::from_secs(3_600));
    for (old, expires, uses, expected) in [
        ((None, None), hour, None, (Some(3_600_100), None)),
        ((Some(500), None), hour, None, (Some(500), None)),
        (
            (Some(9_000_000), Some(2)),
            hour,
            Some(5),
            (Some(3_600_100), Some(2)),
        ),
        ((None, Some(7)), None, Some(3), (None, Some(3))),
    ] {
        let args = NarrowArgs {
            id: String::new(),
            expires,
            uses,
            store: StoreArgs::default(),
        };
        let old = approval(old.0, old.1);
        let new = narrowed(&old, &args, "a-new".to_owned(), 100);
        assert_eq!((new.expires_ms, new.uses_left), expected);
        assert_eq!((new.scope, &new.narrowing), (old.scope, &old.narrowing));
    }
}

#[test]
fn coverage_is_described_without_secrets() {
    for (narrowing, expected) in [
        (json!({"tool": true}), "every call"),
        (
            json!({"commands": [["git", "status"]], "domains": ["a.example"]}),
            "`git status …` and reach `a.example`",
        ),
        (
            json!({"paths": [{"path": "/w/a", "tree": true, "write": true}]}),
            "write below `/w/a/`",
        ),
        (
            json!({"paths": [{"path": "/w/a", "tree": false, "write": false}], "input": {"path": "a", "password": "hunter2"}}),
            "read `/w/a`, with exactly this input: {\"path\":\"a\",\"password\":\"***\"}",
        ),
    ] {
        let narrowing = serde_json::from_value(narrowing).unwrap();
        assert_eq!(describe_narrowing(&narrowing), expected);
    }
}

#[test]
fn c_11_an_approval_of_an_ended_session_is_not_in_effect() {
    let stored = |ended_ms| {
        let approval = Approval {
            scope: ApprovalScope::Session,
            session: Some("s-1".to_owned().into()),
            ..approval(None, None)
        };
        StoredApproval::from_row(toolhost_kernel::approval_row(&approval, None), ended_ms)
    };
    assert!(stored(None).describe_state(None).0);
    let (holds, state) = stored(Some(0)).describe_state(None);
    assert!(!holds);
    assert!(state.starts_with("its session ended "), "{state}");
}

//! Cache keys: a hash over the tool, input and caller of a call.

use serde_json::Value;

use crate::hooks::HookCall;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

pub(super) fn key(call: &HookCall) -> Key {
    let caller = &call.call.caller;
    let mut hasher = blake3::Hasher::new();
    let digest = call.digest.map(|digest| digest.to_string());
    for part in [
        digest.as_deref().unwrap_or_default(),
        call.plugin.as_str(),
        call.tool.name.as_str(),
        &call.tool.version,
        // A cached answer is not evaluated by rules again, so it is only returned to the same caller.
        caller.session.as_str(),
        &caller.agent,
        &caller.task,
        &call.mode,
    ] {
        add(&mut hasher, b'w', part.as_bytes());
    }
    for part in [caller.user.name(), caller.parent_agent.as_deref()] {
        add_value(&mut hasher, &part.map_or(Value::Null, Value::from));
    }
    add_value(&mut hasher, &call.call.input);
    Key(*hasher.finalize().as_bytes())
}

/// Hashes the kind and length first, so that different lists of values have different encodings.
fn add(hasher: &mut blake3::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Hashes members in name order, because the order in an object has no meaning.
fn add_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => add(hasher, b'0', b""),
        Value::Bool(flag) => add(hasher, b'b', &[u8::from(*flag)]),
        Value::Number(number) => add(hasher, b'n', number.to_string().as_bytes()),
        Value::String(text) => add(hasher, b's', text.as_bytes()),
        Value::Array(items) => {
            add(hasher, b'a', &(items.len() as u64).to_le_bytes());
            for item in items {
                add_value(hasher, item);
            }
        }
        Value::Object(members) => {
            add(hasher, b'o', &(members.len() as u64).to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                add(hasher, b'm', name.as_bytes());
                add_value(hasher, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::UserId;

    use super::*;
    use crate::hooks::tests::call;

    fn of(change: impl FnOnce(&mut HookCall)) -> Key {
        let mut call = call();
        change(&mut call);
        key(&call)
    }

    #[test]
    fn r_217_only_the_order_of_members_is_ignored() {
        let input = |input: Value| of(|call| call.call.input = input);
        let plain = of(|_| {});
        assert_eq!(plain, of(|call| call.call.id.0.push('x')));
        assert_eq!(
            input(json!({"a": 1, "b": {"c": 2, "d": 3}})),
            input(json!({"b": {"d": 3, "c": 2}, "a": 1}))
        );
        let different = [
            plain,
            of(|call| call.digest = Some(toolhost_contract::Digest([1; 32]))),
            of(|call| call.mode = "plan".to_owned()),
            of(|call| call.call.caller.session = "other".into()),
            of(|call| call.call.caller.agent = "other".to_owned()),
            of(|call| call.call.caller.task = "other".to_owned()),
            of(|call| call.call.caller.parent_agent = Some("other".to_owned())),
            of(|call| call.call.caller.user = UserId::token("other")),
            of(|call| call.plugin = toolhost_contract::PluginName::parse("other").unwrap()),
            input(json!({"path": "b"})),
            input(json!({"path": ["a"]})),
            input(json!({"path": "a", "more": null})),
            input(json!(["ab", "c"])),
            input(json!(["a", "bc"])),
            input(json!([["a"], "bc"])),
            input(json!([["a", "bc"]])),
            input(json!(1)),
            input(json!("1")),
        ];
        for (index, one) in different.iter().enumerate() {
            assert!(!different[..index].contains(one), "{index}");
        }
    }
}

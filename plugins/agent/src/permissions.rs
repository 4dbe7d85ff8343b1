//! `request_permissions`: asks the user for the permissions of the work ahead, in one question.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use crate::ask::is_dismissed;

/// File permissions.
#[data]
#[derive(Default)]
pub struct FilePermissions {
    /// Files and directories to read.
    #[arg(max_len = 16)]
    read: Option<Vec<String>>,
    /// Files and directories to change.
    #[arg(max_len = 16)]
    write: Option<Vec<String>>,
}

/// Network permissions.
#[data]
#[derive(Default)]
pub struct NetworkPermissions {
    /// Such as `example.org` or `*.example.org`.
    #[arg(max_len = 16)]
    hosts: Option<Vec<String>>,
}

/// Permissions that were granted, until the session ends.
#[data]
pub struct GrantedPermissions {
    /// Everything requested was granted.
    granted: bool,
    /// Readable files and directories.
    read: Vec<String>,
    /// Writable files and directories.
    write: Vec<String>,
    /// Reachable hosts.
    hosts: Vec<String>,
    /// Requests that were not granted.
    refused: Vec<String>,
}

/// Ask the user for file and host permissions for the work ahead, until the session ends. Request as little as possible.
#[tool(
    reads,
    interactive,
    plain_text,
    requires = ["user"],
    category = "interact",
    kind = "communicate",
    icon = "key-round",
    concurrency = "exclusive",
    tags = ["permission", "grant", "access"],
    output = GrantedPermissions,
    example(
        description = "A folder",
        input = r#"{"reason": "the new pages go there", "file_system": {"write": ["docs"]}}"#
    ),
)]
pub fn request_permissions(
    cx: &Context,
    /// One sentence for the user.
    #[arg(min_len = 1, max_len = 500, aliases = ["justification"])]
    reason: String,
    /// Files and directories.
    file_system: Option<FilePermissions>,
    /// Hosts.
    network: Option<NetworkPermissions>,
) -> Result<Outcome> {
    let FilePermissions { read, write } = file_system.unwrap_or_default();
    let hosts = network.unwrap_or_default().hosts;
    let (read, write, hosts) = (clean(read), clean(write), clean(hosts));
    check(&reason, [&read, &write, &hosts])?;
    let request = json!({"reason": reason.trim(), "read": read, "write": write, "hosts": hosts, "scope": "session"});
    let answer = match cx.request_permissions(&request) {
        Ok(answer) => answer,
        Err(error) if is_dismissed(&error) => json!({}),
        Err(error) => return Err(error),
    };
    let given = |key: &str| -> Vec<&str> {
        let items = answer[key].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).take(60).collect()
    };
    let (given_read, given_write, given_hosts) = (given("read"), given("write"), given("hosts"));
    let refused: Vec<String> = [
        ("read", &read, &given_read),
        ("write", &write, &given_write),
        ("reach", &hosts, &given_hosts),
    ]
    .into_iter()
    .flat_map(|(action, requested, given)| {
        let missing = requested
            .iter()
            .filter(|item| !given.contains(&item.as_str()));
        missing.map(move |item| format!("{action} {}", inline(item, 300)))
    })
    .collect();
    let shown = |items: Vec<&str>| items.into_iter().map(|item| inline(item, 300)).collect();
    let data = GrantedPermissions {
        granted: refused.is_empty(),
        read: shown(given_read),
        write: shown(given_write),
        hosts: shown(given_hosts),
        refused,
    };
    Ok(data.outcome())
}

impl GrantedPermissions {
    fn outcome(&self) -> Outcome {
        let lines = |action: &str, items: &[String]| {
            items
                .iter()
                .map(|item| format!("{action} {item}"))
                .collect::<Vec<_>>()
        };
        let given = [
            lines("read", &self.read),
            lines("write", &self.write),
            lines("reach", &self.hosts),
        ]
        .concat();
        let mut text = if given.is_empty() {
            "no permission was granted".to_owned()
        } else {
            format!("granted until this session ends: {}", given.join(", "))
        };
        if !self.refused.is_empty() {
            push!(
                text,
                "\nnot granted: {}; work without them, or ask the user how to proceed",
                self.refused.join(", ")
            );
        }
        let summary = format!("{} given, {} not", given.len(), self.refused.len());
        Outcome::text(text).summary(summary).structured(self)
    }
}

fn clean(items: Option<Vec<String>>) -> Vec<String> {
    items
        .unwrap_or_default()
        .into_iter()
        .map(|item| item.trim().to_owned())
        .collect()
}

fn check(reason: &str, requests: [&Vec<String>; 3]) -> Result<()> {
    let invalid = |message: String| Err(Error::invalid_input(message).code("invalid_permissions"));
    if reason.trim().is_empty() {
        return invalid("`reason` is empty; state why the permissions are needed".to_owned());
    }
    if requests.iter().all(|items| items.is_empty()) {
        return invalid(
            "no permission is requested; list files in `file_system` or hosts in `network`"
                .to_owned(),
        );
    }
    let [read, write, hosts] = requests;
    for path in read.iter().chain(write) {
        if path.is_empty() || path.contains('\0') || path.len() > 4096 {
            return invalid(format!("{:?} is not a path", inline(path, 100)));
        }
    }
    for host in hosts {
        let is_host = !host.is_empty()
            && host.len() <= 260
            && host.chars().all(|letter| {
                letter.is_alphanumeric()
                    || matches!(letter, '.' | '-' | '*' | ':' | '[' | ']' | '_')
            });
        if !is_host {
            let message = format!("{:?} is not a host name", inline(host, 100));
            return Err(Error::invalid_input(message)
                .code("invalid_permissions")
                .recommend(
                    "write only the host, without `https://` and path, such as `example.org`",
                ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::{check, run_examples, shown};

    fn person(answer: Value) -> Context {
        Context::test().with_service("user.request-permissions", move |_| Ok(answer.clone()))
    }

    fn input() -> Value {
        json!({
            "reason": "docs", "file_system": {"read": ["/etc/hosts"], "write": ["docs", "src"]},
            "network": {"hosts": ["*.example.org"]},
        })
    }

    #[test]
    fn the_request_reaches_the_host() {
        let cx = Context::test().with_service("user.request-permissions", |input| {
            assert_eq!(
                input,
                json!({
                    "reason": "docs", "read": ["/etc/hosts"], "write": ["docs", "src"], "hosts": ["*.example.org"],
                    "scope": "session",
                })
            );
            Ok(input)
        });
        check::<request_permissions>(
            &cx,
            input(),
            expect![[r#"
                granted until this session ends: read /etc/hosts, write docs, write src, reach *.example.org
                summary: 4 given, 0 not
                {"granted":true,"read":["/etc/hosts"],"write":["docs","src"],"hosts":["*.example.org"],"refused":[]}"#]],
        );
    }

    #[test]
    fn denied_permissions_are_reported() {
        let some = json!({"read": [], "write": ["docs"], "hosts": [], "scope": "session"});
        check::<request_permissions>(
            &person(some),
            input(),
            expect![[r#"
                granted until this session ends: write docs
                not granted: read /etc/hosts, write src, reach *.example.org; work without them, or ask the user how to proceed
                summary: 1 given, 3 not
                {"granted":false,"read":[],"write":["docs"],"hosts":[],"refused":["read /etc/hosts","write src","reach *.example.org"]}"#]],
        );
        check::<request_permissions>(
            &person(json!({})),
            input(),
            expect![[r#"
            no permission was granted
            not granted: read /etc/hosts, write docs, write src, reach *.example.org; work without them, or ask the user how to proceed
            summary: 0 given, 4 not
            {"granted":false,"read":[],"write":[],"hosts":[],"refused":["read /etc/hosts","write docs","write src","reach *.example.org"]}"#]],
        );
        let no = Context::test().with_service("user.request-permissions", |_| {
            Err(Error::denied("no").code("user_denied"))
        });
        assert_eq!(
            shown::<request_permissions>(&no, input()),
            shown::<request_permissions>(&person(json!({})), input())
        );
    }

    #[test]
    fn a_long_path_is_compared_in_full() {
        let long = "a".repeat(400);
        let cx = person(json!({"write": [long, format!("{}b", "a".repeat(399))]}));
        let input = json!({"reason": "x", "file_system": {"write": [long, format!("{}c", "a".repeat(399))]}});
        let outcome = toolhost_sdk::testing::call::<request_permissions>(&cx, input).unwrap();
        let refused = &outcome.structured.unwrap()["refused"];
        assert_eq!(refused.as_array().unwrap().len(), 1, "{refused}");
    }

    #[test]
    fn invalid_requests() {
        let refused = |input: Value, expected: Expect| {
            expected.assert_eq(&shown::<request_permissions>(&person(json!(7)), input));
        };
        refused(
            json!({"reason": "x"}),
            expect![
                "InvalidInput invalid_permissions: no permission is requested; list files in `file_system` or hosts in `network`"
            ],
        );
        refused(
            json!({"reason": "x", "file_system": {}, "network": {"hosts": []}}),
            expect![
                "InvalidInput invalid_permissions: no permission is requested; list files in `file_system` or hosts in `network`"
            ],
        );
        refused(
            json!({"reason": " ", "file_system": {"read": ["a"]}}),
            expect![
                "InvalidInput invalid_permissions: `reason` is empty; state why the permissions are needed"
            ],
        );
        refused(
            json!({"reason": "x", "file_system": {"read": [" "]}}),
            expect![[r#"InvalidInput invalid_permissions: "" is not a path"#]],
        );
        refused(
            json!({"reason": "x", "network": {"hosts": ["https://example.org/"]}}),
            expect![[r#"
                InvalidInput invalid_permissions: "https://example.org/" is not a host name
                - write only the host, without `https://` and path, such as `example.org`"#]],
        );
        refused(
            json!({"reason": "x", "file_system": {"read": vec!["a"; 17]}}),
            expect![
                "InvalidInput invalid_input: `file_system`.`read`: a length of 17 is more than the maximum of 16"
            ],
        );
    }

    #[test]
    fn examples_work() {
        run_examples::<request_permissions>(|| person(json!({"write": ["docs"]})));
    }
}

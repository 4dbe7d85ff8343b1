//! the key determines the variant, and shares follow the weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use toolhost_contract::policy::Decision;
use toolhost_contract::policy::RuleSpec;
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, CallId, Descriptor, ErrorClass, Grant, NoSink, Outcome,
    PluginName, Policy, PolicySpec, Principal, Sink, ToolName, VersionReq,
};

use super::*;
use crate::{CallRequest, Kernel, KernelSettings, NoPrompter, PluginInfo};

/// Returns its version, or fails.
struct Version(Vec<Descriptor>);

impl Backend for Version {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        call: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        let version = self.0[0].version.clone();
        Box::pin(async move {
            match call.input["fail"].as_bool() {
                Some(true) => Err(CallError::new(ErrorClass::Failed, version)),
                _ => Ok(Outcome::text(version)),
            }
        })
    }
}

fn kernel(key: AbKey, weights: [u32; 2]) -> Kernel {
    let variant = |version: Option<&str>, plugin: Option<&str>, weight| Variant {
        version: version.map(|version| VersionReq::parse(version).unwrap()),
        plugin: plugin.map(|plugin| PluginName::parse(plugin).unwrap()),
        weight,
    };
    let test = AbTest {
        tool: ToolName::parse("grep").unwrap(),
        variants: vec![
            variant(Some("1.0.0"), None, weights[0]),
            variant(None, Some("next"), weights[1]),
        ],
        key,
        at: String::new(),
    };
    let rules = ["allow *", "deny find@3", "deny next/grep@4"].map(|line| {
        let (decision, form) = line.split_once(' ').unwrap();
        RuleSpec::new(decision.parse::<Decision>().unwrap(), form)
    });
    let policy = PolicySpec {
        rules: rules.into(),
        ..PolicySpec::default()
    };
    let settings = KernelSettings {
        ab_tests: vec![test],
        policy: Arc::new(Policy::new(policy).unwrap()),
        ..KernelSettings::default()
    };
    let kernel = Kernel::new(settings, Arc::new(NoPrompter)).unwrap();
    for (plugin, version) in [("s", "1.0.0"), ("next", "2.0.0"), ("s", "3.0.0")] {
        let mut tool = Descriptor::new(ToolName::parse("grep").unwrap(), "");
        tool.input_schema = json!({"type": "object"});
        version.clone_into(&mut tool.version);
        tool.aliases = vec!["find".to_owned()];
        tool.annotations.read_only = Some(true);
        let info = PluginInfo {
            name: PluginName::parse(plugin).unwrap(),
            version: version.to_owned(),
            digest: None,
            timeout: None,
        };
        kernel
            .register(info, Arc::new(Version(vec![tool])))
            .unwrap();
    }
    assert_eq!(kernel.registry().ab_test_problems(), [""; 0]);
    kernel
}

async fn call(
    kernel: &Kernel,
    tool: &str,
    session: &str,
    task: &str,
    id: &str,
    fail: bool,
) -> String {
    let caller = Principal {
        session: session.into(),
        task: task.to_owned(),
        ..Principal::default()
    };
    let request = CallRequest::new(CallId(id.to_owned()), tool, json!({"fail": fail}), caller);
    match kernel.call(request, Arc::new(NoSink)).await.result {
        Ok(outcome) => outcome.model_text(),
        Err(error) => error.message,
    }
}

/// Returns the number of calls per variant; `change` selects which parts of the key vary.
async fn shares(kernel: &Kernel, change: [bool; 2]) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for n in 0..200 {
        let key = |changes: bool| {
            if changes {
                format!("k{n}")
            } else {
                "k".to_owned()
            }
        };
        let (session, task) = (key(change[0]), key(change[1]));
        let version = call(kernel, "grep", &session, &task, &format!("c{n}"), false).await;
        *shares.entry(version).or_default() += 1;
    }
    shares
}

#[tokio::test]
async fn r_495_a_session_keeps_its_variant() {
    let kernel = kernel(AbKey::Session, [50, 50]);
    for session in 0..40 {
        let session = format!("s{session}");
        let first = call(&kernel, "grep", &session, "t", "a", false).await;
        for (id, name) in [("b", "Grep"), ("c", "find"), ("d", "FIND"), ("e", "grep")] {
            let next = call(&kernel, name, &session, &format!("t{id}"), id, false).await;
            assert_eq!(next, first, "{session} {name}");
        }
    }
    assert_eq!(shares(&kernel, [false, true]).await.len(), 1);
    let both = shares(&kernel, [true, false]).await;
    assert!(both["1.0.0"] > 70 && both["2.0.0"] > 70, "{both:?}");
}

#[tokio::test]
async fn r_495_a_key_may_be_the_task_or_the_call() {
    let task = kernel(AbKey::Task, [1, 1]);
    assert_eq!(shares(&task, [true, false]).await.len(), 1);
    assert_eq!(shares(&task, [false, true]).await.len(), 2);
    let calls = kernel(AbKey::Call, [1, 1]);
    assert_eq!(shares(&calls, [false, false]).await.len(), 2);
}

#[tokio::test]
async fn r_495_shares_follow_the_weights() {
    let shares = shares(&kernel(AbKey::Call, [9, 1]), [false, false]).await;
    assert!((165..=195).contains(&shares["1.0.0"]), "{shares:?}");
}

#[tokio::test]
async fn r_495_a_name_that_selects_an_implementation_is_not_compared() {
    let kernel = kernel(AbKey::Call, [1, 1]);
    for n in 0..20 {
        for (name, version) in [
            ("s/grep@1.0.0", "1.0.0"),
            ("grep@1.0.0", "1.0.0"),
            ("next/grep", "2.0.0"),
            ("next__grep", "2.0.0"),
        ] {
            let got = call(&kernel, name, "s", "t", &format!("{name}{n}"), false).await;
            assert_eq!(got, version, "{name}");
        }
    }
    // Rules apply to the version that is called, by whatever name.
    let denied = call(&kernel, "s/grep", "s", "t", "x", false).await;
    assert!(denied.contains("deny `find@3`"), "{denied}");
}

#[tokio::test]
async fn r_495_each_variant_has_its_own_statistics() {
    let kernel = kernel(AbKey::Call, [1, 1]);
    for n in 0..10 {
        call(&kernel, "grep", "s", "t", &format!("c{n}"), n % 2 == 0).await;
    }
    let stats = kernel.registry().stats();
    let shown: Vec<String> = stats
        .variants
        .iter()
        .map(|one| {
            format!(
                "{} {} {} weight {}",
                one.tool, one.plugin, one.version, one.weight
            )
        })
        .collect();
    assert_eq!(shown, ["grep s 1.0.0 weight 1", "grep next 2.0.0 weight 1"]);
    let sums = |of: fn(&crate::VariantStats) -> u64| stats.variants.iter().map(of).sum::<u64>();
    assert_eq!((sums(|one| one.calls), sums(|one| one.failures)), (10, 5));
    assert!(stats.variants.iter().all(|one| one.calls > 0));
    let names: Vec<&str> = stats.calls.keys().map(String::as_str).collect();
    assert_eq!(names, ["grep@1.0.0", "next/grep"]);
}

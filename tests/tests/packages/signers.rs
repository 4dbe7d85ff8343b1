//! Signed packages: pinned keys, rules by reference, and revoked versions.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use e2e::registry::Registry;

use super::User;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[test]
fn signed_packages_are_pinned_to_their_key() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob) = (User::new(), User::new());
    let (ann_pub, mallory_pub) = (ann.new_key("ann"), ann.new_key("mallory"));
    let reference = format!("{}/ann/notes:1", registry.address);
    let (first, second) = (
        ann.pack("1.0.0", &["fs.read"]),
        ann.pack("2.0.0", &["fs.read"]),
    );
    let missing = bob.run(12, &["add", &reference]);
    assert!(missing.stderr.contains("does not exist"), "{missing:?}");
    ann.run(0, &["publish", &first, &reference, "--key", "ann"]);
    for (code, options, message) in [
        (10, &["--yes"][..], "the author is not known"),
        (
            10,
            &["--yes", "--key", &mallory_pub],
            "signed by another key",
        ),
        (5, &["--key", &ann_pub], "no terminal"),
        (0, &["--yes", "--key", &ann_pub], ""),
    ] {
        let ended = bob.run(code, &[&["add", &reference][..], options].concat());
        assert!(ended.stderr.contains(message), "{message}: {ended:?}");
    }
    // The same tag, by another author, and without a signature.
    ann.run(0, &["publish", &second, &reference, "--key", "mallory"]);
    let refused = bob.run(10, &["update", "--yes"]);
    assert!(
        refused.stderr.contains("signed by another key"),
        "{refused:?}"
    );
    let unsigned = format!("{}/ann/unsigned:1", registry.address);
    ann.run(0, &["publish", "data.wasm", &unsigned]);
    let refused = bob.run(10, &["add", &unsigned, "--yes"]);
    assert!(refused.stderr.contains("--allow-unsigned"), "{refused:?}");
    let refused = bob.run(10, &["add", &unsigned, "--yes", "--key", &ann_pub]);
    assert!(refused.stderr.contains("not signed"), "{refused:?}");
    // The first version is still installed, and can be installed elsewhere from the lock file.
    bob.run(0, &["lock"]);
    let carol = User::new();
    fs::copy(
        bob.env.path("toolhost.lock"),
        carol.env.path("toolhost.lock"),
    )
    .unwrap();
    carol.run(11, &["sync", "--check"]);
    carol.run(0, &["sync", "--yes"]);
    carol.run(0, &["sync", "--check"]);
    assert_eq!(
        carol.env.run_json(&["list", "--json"]),
        bob.env.run_json(&["list", "--json"])
    );
    // A new version by the same author.
    ann.run(0, &["publish", &second, &reference, "--key", "ann"]);
    let updated = bob.run(0, &["update"]);
    assert!(
        updated.stdout.contains("notes 1.0.0 -> 2.0.0"),
        "{updated:?}"
    );
    // One with more needs waits for approval.
    let third = ann.pack("3.0.0", &["fs.read", "fs.write"]);
    ann.run(0, &["publish", &third, &reference, "--key", "ann"]);
    let waiting = bob.run(5, &["update"]);
    assert!(
        waiting.stdout.contains("! new need: fs.write"),
        "{waiting:?}"
    );
    bob.run(0, &["update", "--yes"]);
}

#[test]
fn policies_apply_by_reference() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let user = User::new();
    let (ann_pub, bob_pub) = (user.new_key("ann"), user.new_key("bob"));
    let reference = format!("{}/ann/notes:1", registry.address);
    let plugin = user.pack("1.0.0", &[]);
    user.run(0, &["publish", &plugin, &reference, "--key", "ann"]);
    let config = user.env.path("trust.toml");
    let add = |trust: &str, code, options: &[&str]| {
        fs::write(&config, trust).unwrap();
        let args = ["add", &reference, "--yes", "--config", "trust.toml"];
        user.run(code, &[&args[..], options].concat());
        user.env.run(&["remove", "notes"]);
    };
    let from = format!("{}/ann/*", registry.address);
    let rule = |key: &str| {
        format!("[[signatures.rule]]\nfrom = \"{from}\"\nkeys = [\"{key}\"]\nrequired = true\n")
    };
    add(&rule(&ann_pub), 0, &[]);
    add(&rule(&bob_pub), 10, &[]);
    // A key of the command line does not replace a required one.
    add(&rule(&bob_pub), 10, &["--key", &ann_pub]);
    add(
        "[signatures]\nkeys = [\"ann.pub\"]\nrequired = true\n",
        0,
        &[],
    );
    // Trust that was withdrawn also stops a package that is installed.
    fs::write(&config, rule(&ann_pub)).unwrap();
    user.run(0, &["add", &reference, "--yes", "--config", "trust.toml"]);
    user.run(0, &["tools", "--config", "trust.toml"]);
    fs::write(&config, rule(&bob_pub)).unwrap();
    let refused = user.run(4, &["tools", "--config", "trust.toml"]);
    assert!(
        refused.stderr.contains("requires a signature"),
        "{refused:?}"
    );
}

/// Each host and each file has one form that rules are compared with.
#[test]
fn other_spellings_do_not_avoid_a_rule() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let user = User::new();
    let port = registry.address.rsplit(':').next().unwrap();
    user.run(
        0,
        &[
            "publish",
            "data.wasm",
            &format!("localhost:{port}/a/data:1"),
        ],
    );
    fs::create_dir(user.env.path("good")).unwrap();
    let ann_pub = user.new_key("ann");
    let rule = |from: &str, required: bool| {
        format!(
            "[[signatures.rule]]\nfrom = \"{from}\"\nkeys = [\"{ann_pub}\"]\nrequired = {required}\n"
        )
    };
    let good = user.env.path("good").canonicalize().unwrap();
    for (config, references) in [
        (
            rule(&format!("LocalHost:{port}/*"), true),
            vec![
                format!("LOCALHOST:{port}/a/data:1"),
                format!("localhost:0{port}/a/data:1"),
            ],
        ),
        (
            rule(&format!("localhost:{port}/a/data"), true),
            vec![format!("localhost:{port}/a/data:1")],
        ),
        (
            rule(&format!("{}/*", good.display()), false) + &rule("*", true),
            vec!["./good/../data.wasm".to_owned()],
        ),
    ] {
        fs::write(user.env.path("trust.toml"), config).unwrap();
        for reference in references {
            let args = [
                "add",
                &reference,
                "--yes",
                "--allow-unsigned",
                "--config",
                "trust.toml",
            ];
            let refused = user.run(10, &args);
            assert!(
                refused.stderr.contains("not signed"),
                "{reference}: {refused:?}"
            );
        }
    }
}

#[test]
fn revoked_versions_stop_also_while_a_host_runs() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob) = (User::new(), User::new());
    let ann_pub = ann.new_key("ann");
    let mallory_pub = ann.new_key("mallory");
    let reference = format!("{}/ann/notes", registry.address);
    let others = format!("{}/mallory/data", registry.address);
    let first = ann.pack("1.0.0", &[]);
    ann.run(0, &["publish", &first, &reference, "--key", "ann"]);
    ann.run(0, &["publish", "data.wasm", &others, "--key", "mallory"]);
    bob.run(0, &["add", &reference, "--yes", "--key", &ann_pub]);
    bob.run(0, &["add", &others, "--yes", "--key", &mallory_pub]);
    let mut host = bob.serve();
    // Mallory cannot revoke the plugin of Ann.
    let revoke = |user: &User, file: &str, key: &str, repository: &str| {
        let args = [
            "revoke",
            file,
            "--reason",
            "it\u{1b}[31m leaks",
            "--key",
            key,
            "--publish",
        ];
        user.run(0, &[&args[..], &[repository]].concat());
    };
    revoke(&ann, &first, "mallory", &others);
    let still = bob.run(0, &["update"]);
    assert!(
        still.stdout.contains("notes 1.0.0 is up to date"),
        "{still:?}"
    );
    revoke(&ann, &first, "ann", &reference);
    let ended = bob.run(10, &["update"]);
    assert!(ended.stderr.contains("was revoked by the key"), "{ended:?}");
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:?}");
    assert!(ended.stderr.contains("removed notes 1.0.0"), "{ended:?}");
    drop(host.stdin.take());
    host.wait().unwrap();
    // Data, whose author revoked only the plugin of another one, still runs.
    assert!(bob.encodes());
    // A user who does not install a package of Mallory does not store her list.
    let carol = User::new();
    let lists = carol.env.path("state/packages/revocations.json");
    let add = ["add", &others, "--key", &mallory_pub];
    carol.run(5, &add);
    assert!(!lists.exists());
    carol.run(0, &[&add[..], &["--yes"]].concat());
    assert!(lists.exists());
    let refused = bob.run(10, &["add", &reference, "--yes", "--key", &ann_pub]);
    assert!(refused.stderr.contains("was revoked"), "{refused:?}");
    // A fixed version is installed.
    let second = ann.pack("1.0.1", &[]);
    ann.run(0, &["publish", &second, &reference, "--key", "ann"]);
    bob.run(0, &["update"]);
}

/// Sends a request to a registry. Returns the body of the answer.
fn request(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} /v2/{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\naccept: {MANIFEST}\r\n\
         content-type: {MANIFEST}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    body.to_owned()
}

/// Who can write to the repository cannot prevent a revocation with another list.
#[test]
fn a_revocation_replaces_lists_that_are_old_or_of_others() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob) = (User::new(), User::new());
    let ann_pub = ann.new_key("ann");
    ann.new_key("mallory");
    let reference = format!("{}/ann/notes", registry.address);
    let first = ann.pack("1.0.0", &[]);
    ann.run(0, &["publish", &first, &reference, "--key", "ann"]);
    let revoke = |what: &str, key: &str| {
        let args = ["revoke", what, "--reason", "why", "--key", key];
        ann.run(0, &[&args[..], &["--publish", &reference]].concat())
    };
    let tag = |except: &str| {
        let tags = request(&registry.address, "GET", "ann/notes/tags/list", "");
        let tags: serde_json::Value = serde_json::from_str(&tags).unwrap();
        let mut tags = tags["tags"].as_array().unwrap().iter();
        let tag = tags.find_map(|tag| {
            let tag = tag.as_str().filter(|tag| *tag != except)?;
            tag.starts_with("toolhost-revoked-").then(|| tag.to_owned())
        });
        tag.unwrap()
    };
    let list = |tag: &str| {
        let path = format!("ann/notes/manifests/{tag}");
        request(&registry.address, "GET", &path, "")
    };
    let replace = |tag: &str, manifest: &str| {
        let path = format!("ann/notes/manifests/{tag}");
        request(&registry.address, "PUT", &path, manifest);
    };
    let other = |digit: &str| format!("sha256:{}", digit.repeat(64));
    revoke(&other("1"), "mallory");
    let mallory_tag = tag("");
    revoke(&first, "ann");
    let ann_tag = tag(&mallory_tag);
    let old = list(&ann_tag);
    revoke(&other("2"), "ann");
    replace(&ann_tag, &old);
    let replaced = revoke(&other("3"), "ann");
    assert!(replaced.stderr.contains("it is older"), "{replaced:?}");
    replace(&ann_tag, &list(&mallory_tag));
    let replaced = revoke(&other("4"), "ann");
    let expected = "is replaced: the list of revoked plugins is not valid";
    assert!(replaced.stderr.contains(expected), "{replaced:?}");
    let refused = bob.run(10, &["add", &reference, "--yes", "--key", &ann_pub]);
    assert!(refused.stderr.contains("was revoked"), "{refused:?}");
    // The revocation applies here even if it cannot be published.
    let args = ["revoke", &other("5"), "--reason", "why", "--key", "ann"];
    let nowhere = ["--publish", "127.0.0.1:1/ann/notes"];
    let failed = ann.run(12, &[&args[..], &nowhere].concat());
    assert!(failed.stdout.contains("does not run here"), "{failed:?}");
}

//! Lock files: what they state, and that they cannot replace packages of others.

use std::fs;

use e2e::registry::Registry;

use super::{User, shipped};

#[test]
fn a_lock_file_grants_nothing_and_is_checked() {
    let user = User::new();
    user.run(0, &["add", "data.wasm", "--yes"]);
    user.run(0, &["lock"]);
    let path = user.env.path("toolhost.lock");
    let lock = fs::read_to_string(&path).unwrap();
    assert!(lock.contains("source = \"./data.wasm\""), "{lock}");
    for (from, to, code, message) in [
        (
            "version = 1\n",
            "version = 2\n",
            3,
            "version 2 is not supported",
        ),
        (
            "needs = []",
            "needs = []\ngrants = [\"/\"]",
            3,
            "unknown field",
        ),
        ("size = ", "size = 9", 11, "another size"),
        ("needs = []", "needs = [\"fs.write\"]", 11, "another needs"),
        (
            "effect = \"pure\"",
            "effect = \"reads\"",
            11,
            "another tools",
        ),
    ] {
        assert!(lock.contains(from), "{from}");
        fs::write(&path, lock.replacen(from, to, 1)).unwrap();
        let ended = user.run(code, &["sync", "--check"]);
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(shown.contains(message), "{message}: {shown}");
    }
    // Another file than the locked one is not installed.
    fs::write(&path, &lock).unwrap();
    user.run(0, &["remove", "data"]);
    fs::write(&path, &lock).unwrap();
    fs::copy(shipped("agent"), user.env.path("data.wasm")).unwrap();
    let ended = user.run(10, &["sync", "--yes"]);
    assert!(ended.stderr.contains("has the digest"), "{ended:?}");
    // The locked file, described wrongly.
    fs::copy(shipped("data"), user.env.path("data.wasm")).unwrap();
    fs::write(&path, lock.replacen("\"pure\"", "\"reads\"", 1)).unwrap();
    let ended = user.run(10, &["sync", "--yes"]);
    let expected = "is not what the lock file states (tools)";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    fs::remove_file(&path).unwrap();
    user.run(2, &["sync"]);
}

/// A cloned project can contain any lock file.
#[test]
fn a_lock_file_cannot_replace_the_package_of_another_author() {
    let Some(registry) = Registry::start(false) else {
        return;
    };
    let (ann, bob, mallory) = (User::new(), User::new(), User::new());
    let (ann_pub, mallory_pub) = (ann.new_key("ann"), mallory.new_key("mallory"));
    let [of_ann, of_mallory] =
        ["ann", "mallory"].map(|name| format!("{}/{name}/notes:1", registry.address));
    let plugin = ann.pack("2.0.0", &["fs.read"]);
    ann.run(0, &["publish", &plugin, &of_ann, "--key", "ann"]);
    bob.run(0, &["add", &of_ann, "--yes", "--key", &ann_pub]);
    let plugin = mallory.pack("1.0.0", &["fs.write"]);
    mallory.run(0, &["publish", &plugin, &of_mallory, "--key", "mallory"]);
    mallory.run(0, &["add", &of_mallory, "--yes", "--key", &mallory_pub]);
    mallory.run(0, &["lock"]);
    let lock = mallory.env.path("toolhost.lock");
    fs::copy(&lock, bob.env.path("toolhost.lock")).unwrap();
    let refused = bob.run(10, &["sync", "--yes"]);
    assert!(
        refused.stderr.contains("signed by another key"),
        "{refused:?}"
    );
    // With the key, the change is shown.
    let shown = bob.run(5, &["sync", "--key", &mallory_pub]);
    for change in [
        "replaces the installed version",
        "! source:",
        "! new need: fs.write",
    ] {
        assert!(shown.stdout.contains(change), "{change}: {shown:?}");
    }
    // An unsigned package needs a flag, whatever the lock file states.
    let unsigned = format!("{}/mallory/unsigned:1", registry.address);
    mallory.run(0, &["publish", "data.wasm", &unsigned]);
    mallory.run(0, &["add", &unsigned, "--yes", "--allow-unsigned"]);
    mallory.run(0, &["lock", "data"]);
    fs::copy(&lock, bob.env.path("toolhost.lock")).unwrap();
    let refused = bob.run(10, &["sync", "--yes"]);
    assert!(refused.stderr.contains("--allow-unsigned"), "{refused:?}");
    // The code of another file than the locked one is not run.
    let text = fs::read_to_string(&lock).unwrap();
    let content = text
        .lines()
        .find(|line| line.starts_with("content"))
        .unwrap();
    let other = format!("content = \"sha256:{}\"", "0".repeat(64));
    fs::write(bob.env.path("toolhost.lock"), text.replace(content, &other)).unwrap();
    let refused = bob.run(10, &["sync", "--yes", "--allow-unsigned"]);
    assert!(refused.stderr.contains("has the digest"), "{refused:?}");
}

#[test]
fn a_lock_file_cannot_name_a_file_outside_the_directory_of_a_rule() {
    let user = User::new();
    user.run(0, &["add", "./data.wasm", "--yes"]);
    user.run(0, &["lock"]);
    let path = user.env.path("toolhost.lock");
    let lock = fs::read_to_string(&path).unwrap();
    user.run(0, &["remove", "data"]);
    fs::create_dir(user.env.path("good")).unwrap();
    let good = user.env.path("good").canonicalize().unwrap();
    let key = user.new_key("ann");
    let rule = format!(
        "[signatures]\nkeys = [\"{key}\"]\nrequired = true\n[[signatures.rule]]\nfrom = \"{}/*\"\nrequired = false\n",
        good.display()
    );
    fs::write(user.env.path("trust.toml"), rule).unwrap();
    let outside = lock.replacen("./data.wasm", "./good/../data.wasm", 1);
    assert_ne!(lock, outside);
    fs::write(&path, outside).unwrap();
    let sync = ["sync", "--yes", "--config", "trust.toml"];
    let refused = user.run(10, &sync);
    assert!(
        refused.stderr.contains("a signature is required"),
        "{refused:?}"
    );
    fs::copy(shipped("data"), good.join("data.wasm")).unwrap();
    fs::write(&path, lock.replacen("./data.wasm", "./good/data.wasm", 1)).unwrap();
    user.run(0, &sync);
}

#[test]
fn an_unsigned_file_that_was_changed_is_installed_after_a_question() {
    let user = User::new();
    user.run(0, &["add", "./data.wasm", "--yes"]);
    let file = user.env.path("data.wasm");
    // The same plugin with an empty custom section.
    let changed = [&fs::read(&file).unwrap()[..], b"\0\x02\x01x"].concat();
    fs::write(&file, changed).unwrap();
    let waiting = user.run(5, &["update"]);
    assert!(waiting.stderr.contains("no terminal"), "{waiting:?}");
    user.run(0, &["update", "--yes"]);
    user.run(0, &["update"]);
}

#[test]
fn updates_of_other_packages_do_not_enter_the_lock_file() {
    let user = User::new();
    let (notes, next) = (user.pack("1.0.0", &[]), user.pack("2.0.0", &[]));
    user.run(0, &["add", "data.wasm", "--yes"]);
    user.run(0, &["add", &notes, "--yes"]);
    user.run(0, &["lock", "data"]);
    fs::copy(&next, &notes).unwrap();
    user.run(0, &["update", "--yes"]);
    let path = user.env.path("toolhost.lock");
    let lock = fs::read_to_string(&path).unwrap();
    assert!(!lock.contains("notes"), "{lock}");
    // One that it has is updated in it.
    user.run(0, &["lock"]);
    user.pack("3.0.0", &[]);
    fs::copy(user.env.path("notes-3.0.0.wasm"), &notes).unwrap();
    user.run(0, &["update", "--yes"]);
    let lock = fs::read_to_string(&path).unwrap();
    assert!(lock.contains("version = \"3.0.0\""), "{lock}");
}

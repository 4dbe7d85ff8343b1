//! Signed plugins: sign, verify, and what a host that requires signatures loads.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use e2e::test_env::TestEnv;
use e2e::{CommandResult, root};

struct Author {
    env: TestEnv,
}

impl Author {
    /// Two keys, and a copy of a shipped plugin.
    fn new() -> Self {
        let author = Self {
            env: TestEnv::new(""),
        };
        fs::copy(root().join("plugins/data.wasm"), author.plugin()).unwrap();
        for name in ["ann", "bob"] {
            let created = author.env.run(&["key", "new", name]);
            assert_eq!(created.code, Some(0), "{created:?}");
            fs::write(author.env.path(&format!("{name}.pub")), created.stdout).unwrap();
        }
        author
    }

    fn plugin(&self) -> PathBuf {
        self.env.path("data.wasm")
    }

    fn sign(&self, key: &str) {
        let signed = self.env.run(&["sign", "data.wasm", "--key", key]);
        assert_eq!(signed.code, Some(0), "{signed:?}");
    }

    /// Calls a tool of the plugin with this `[signatures]` table.
    fn call(&self, signatures: &str) -> CommandResult {
        let config = self.env.path("trust.toml");
        fs::write(&config, format!("[signatures]\n{signatures}\n")).unwrap();
        let call = [
            "call",
            "base64_encode",
            "text=hello",
            "--plugins",
            "data.wasm",
        ];
        self.env
            .run(&[&call[..], &["--config", "trust.toml"]].concat())
    }

    fn refused(&self, signatures: &str, reason: &str) {
        let ended = self.call(signatures);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.stderr.contains(reason), "{reason}: {}", ended.stderr);
    }

    fn loaded(&self, signatures: &str) {
        let ended = self.call(signatures);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "aGVsbG8=\n"),
            "{ended:?}"
        );
    }
}

const ANN: &str = "keys = [\"ann.pub\"]\nrequired = true";

#[test]
fn a_signature_of_another_version_is_not_published() {
    let author = Author::new();
    author.sign("ann");
    fs::copy(root().join("plugins/system.wasm"), author.plugin()).unwrap();
    // Refused before the registry, which does not exist, is contacted.
    let ended = author
        .env
        .run(&["publish", "data.wasm", "127.0.0.1:1/ann/data:1"]);
    assert_eq!(ended.code, Some(10), "{ended:?}");
    assert!(
        ended.stderr.contains("for another version of this file")
            && ended.stderr.contains("`host sign`"),
        "{ended:?}"
    );
}

#[test]
fn only_plugins_of_trusted_authors_are_loaded() {
    let author = Author::new();
    author.refused(ANN, "it is not signed");
    author.loaded("keys = [\"ann.pub\"]");
    author.sign("ann");
    author.loaded(ANN);
    author.loaded("keys = [\"bob.pub\", \"ann.pub\"]\nrequired = true");
    author.refused("keys = [\"bob.pub\"]", "it is signed by another key");
    let verified = author.env.run(&["verify", "data.wasm", "--key", "ann.pub"]);
    assert!(
        verified.stdout.contains("is signed by the key sha256:"),
        "{verified:?}"
    );
    // The plugin was replaced.
    fs::copy(root().join("plugins/agent.wasm"), author.plugin()).unwrap();
    author.refused(ANN, "the signature is for another version");
    let verified = author.env.run(&["verify", "data.wasm", "--key", "ann.pub"]);
    assert_eq!(verified.code, Some(10), "{verified:?}");
    // Without trusted keys, signatures are not read.
    let unread = author.call("");
    assert!(!unread.stderr.contains("signature"), "{unread:?}");
}

#[test]
fn code_of_an_untrusted_plugin_is_not_compiled() {
    let author = Author::new();
    let cache = author.env.path("cache");
    let config = author.env.path("trust.toml");
    fs::write(&config, format!("[signatures]\n{ANN}\n")).unwrap();
    let mut command =
        author
            .env
            .command(&["tools", "--plugins", "data.wasm", "--config", "trust.toml"]);
    let ended = command.env("TOOLHOST_CACHE_DIR", &cache).output().unwrap();
    assert!(!ended.status.success());
    let is_code = |path: &Path| {
        path.extension()
            .is_some_and(|extension| extension == "code")
    };
    let files = fs::read_dir(&cache).map(|files| files.map(|file| file.unwrap().path()).collect());
    let files: Vec<PathBuf> = files.unwrap_or_default();
    assert!(!files.iter().any(|file| is_code(file)), "{files:?}");
}

#[test]
fn errors_of_keys_and_settings() {
    let author = Author::new();
    let again = author.env.run(&["key", "new", "ann"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    let shown = author.env.run(&["key", "show", "ann"]);
    let public = fs::read_to_string(author.env.path("ann.pub")).unwrap();
    assert_eq!(shown.stdout, public);
    for args in [
        &["key", "new", "../ann"][..],
        &["key", "show", "missing"],
        &["sign", "data.wasm", "--key", "missing"],
        &["sign", "data.wasm", "--key", "./ann.pub"],
        &["verify", "data.wasm", "--key", "missing.pub"],
        &["verify", "data.wasm"],
    ] {
        let ended = author.env.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
    }
    for signatures in [
        "required = true",
        "keys = [\"missing.pub\"]",
        "keys = [\"data.wasm\"]",
        "key = []",
    ] {
        let ended = author.call(signatures);
        assert_eq!(ended.code, Some(3), "{signatures}: {ended:?}");
    }
    // A private key is only for its owner.
    let key = author.env.path("state/keys/ann.key");
    assert_eq!(
        fs::metadata(key).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

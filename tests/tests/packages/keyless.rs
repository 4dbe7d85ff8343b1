//! Keyless signatures, created by the JavaScript libraries of Sigstore, and our signatures verified by them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use e2e::client_kits::{copy_beside_packages, kit};
use e2e::root;

use super::User;

const ISSUER: &str = "https://token.example.org";
const WORKFLOW: &str = "https://example.org/ann/notes/release.yml@refs/tags/";

struct Sigstore {
    node: PathBuf,
    script: PathBuf,
}

impl Sigstore {
    /// `None` if it is not installed.
    fn new() -> Option<Self> {
        let node = kit("node")?.join("program");
        let script = root().join("tests/clients/sigstore.cjs");
        let script = copy_beside_packages(&script, &kit("sigstore")?);
        Some(Self { node, script })
    }

    /// Runs a verb in the directory of a user. Returns whether it succeeded, and its errors.
    fn run(&self, user: &User, args: &[&str]) -> (bool, String) {
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(args);
        let ended = command.current_dir(user.env.path(".")).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.success(), errors)
    }

    fn sign(&self, user: &User, file: &str, release: &str) {
        let identity = format!("{WORKFLOW}{release}");
        let (signed, errors) = self.run(user, &["sign", file, &identity, ISSUER]);
        assert!(signed, "{errors}");
    }
}

#[test]
fn the_libraries_of_sigstore_verify_our_signatures() {
    let Some(sigstore) = Sigstore::new() else {
        return;
    };
    let user = User::new();
    user.new_key("ann");
    user.new_key("bob");
    user.run(0, &["sign", "data.wasm", "--key", "ann"]);
    let verify = |key: &str| sigstore.run(&user, &["verify", "data.wasm", key]);
    let (verified, errors) = verify("ann.pub");
    assert!(verified, "{errors}");
    let (verified, errors) = verify("bob.pub");
    assert!(!verified && errors.contains("SIGNATURE_ERROR"), "{errors}");
}

#[test]
fn packages_with_keyless_signatures() {
    let Some(sigstore) = Sigstore::new() else {
        return;
    };
    let user = User::new();
    sigstore.sign(&user, "data.wasm", "v1");
    let any_release = format!("{WORKFLOW}*");
    let author = ["--identity", &any_release, "--issuer", ISSUER];
    let trusted_root = ["--trusted-root", "trusted_root.json"];
    let verified = user.run(
        0,
        &[&["verify", "data.wasm"][..], &author, &trusted_root].concat(),
    );
    assert!(verified.stdout.contains(&any_release), "{verified:?}");
    // The public instance of Sigstore did not issue the certificate.
    let refused = user.run(10, &[&["verify", "data.wasm"][..], &author].concat());
    assert!(refused.stderr.contains("its certificate"), "{refused:?}");

    let config = user.env.path("trust.toml");
    let trust = |identity: &str| {
        let text = format!(
            "[signatures]\ntrusted_root = \"trusted_root.json\"\nrequired = true\n\
             identities = [{{ identity = \"{identity}\", issuer = \"{ISSUER}\" }}]\n"
        );
        fs::write(&config, text).unwrap();
    };
    trust("https://example.org/bob/*");
    let add = ["add", "./data.wasm", "--yes", "--config", "trust.toml"];
    let refused = user.run(10, &add);
    assert!(
        refused.stderr.contains("release.yml@refs/tags/v1"),
        "{refused:?}"
    );
    trust(&any_release);
    let added = user.run(0, &add);
    assert!(added.stdout.contains(&any_release), "{added:?}");
    let listed = user.env.run_json(&["list", "--json"]);
    assert!(listed.to_string().contains(&any_release), "{listed}");
    user.run(0, &["tools", "--config", "trust.toml"]);

    // The lock file states the author, and the next release of the same author is an update.
    user.run(0, &["lock"]);
    let lock = fs::read_to_string(user.env.path("toolhost.lock")).unwrap();
    assert!(lock.contains(&any_release), "{lock}");
    user.run(0, &["sync", "--check", "--config", "trust.toml"]);
    let other = fs::read(root().join("plugins/agent.wasm")).unwrap();
    fs::write(user.env.path("data.wasm"), other).unwrap();
    let refused = user.run(10, &["update", "--yes", "--config", "trust.toml"]);
    assert!(refused.stderr.contains("its certificate"), "{refused:?}");
}

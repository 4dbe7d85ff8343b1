//! The store: what a commit needs, what interrupted commands leave, changes between versions, and revocations.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use toolhost_contract::{Descriptor, Digest, Manifest};
use toolhost_packages::{
    Change, FetchOptions, Fetched, InstalledPackages, LockedPlugin, PackageError, PackageStore,
    PublicKey, Reference, Registry, RevocationList, Revocations, Signer, SigningKey, SigstoreRoot,
    TrustPolicy, changes,
};

struct Fixture {
    dir: TempDir,
    store: PackageStore,
}

fn file_digest(path: &Path) -> Result<Digest, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok(Digest(Sha256::digest(bytes).into()))
}

fn manifest(version: &str, needs: &[&str]) -> Manifest {
    let needs = needs
        .iter()
        .map(|need| format!("[[needs]]\ncapability = \"{need}\"\nwhy = \"w\"\n"));
    let needs: String = needs.collect();
    let text = format!("name = \"notes\"\nversion = \"{version}\"\ndescription = \"d\"\n{needs}");
    Manifest::parse("plugin.toml", &text).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = PackageStore::new(&dir.path().join("state"), file_digest);
        Self { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn fetch(&self, bytes: &str) -> Result<Fetched, PackageError> {
        fs::write(self.path("notes.wasm"), bytes).unwrap();
        let source = Reference::File(self.path("notes.wasm"));
        Fetched::fetch(&self.store, &Registry::default(), &source, None).await
    }

    /// Installs these bytes in place of the version with the digest `old`.
    async fn install(
        &self,
        bytes: &str,
        old: Option<Digest>,
    ) -> Result<LockedPlugin, PackageError> {
        self.install_signed(bytes, old, None).await
    }

    async fn install_signed(
        &self,
        bytes: &str,
        old: Option<Digest>,
        signer: Option<Signer>,
    ) -> Result<LockedPlugin, PackageError> {
        let fetched = self.fetch(bytes).await?;
        let revocations = self.store.revocations()?;
        let verified = fetched.verify(
            &TrustPolicy::default(),
            &revocations,
            &FetchOptions::default(),
        )?;
        let locked = LockedPlugin {
            signer,
            ..verified.locked(&manifest("1.0.0", &[]), &[])
        };
        self.store.commit(verified, locked.clone(), old)?;
        Ok(locked)
    }

    fn installed(&self) -> Option<LockedPlugin> {
        self.store.installed().unwrap().get("notes").cloned()
    }
}

#[tokio::test]
async fn a_commit_replaces_the_version_that_the_user_saw() {
    let fixture = Fixture::new();
    let first = fixture.install("one", None).await.unwrap();
    assert_eq!(fs::read(fixture.store.file(&first)).unwrap(), b"one");
    // Another command was faster.
    for old in [None, Some(Digest([7; 32]))] {
        let error = fixture.install("two", old).await.unwrap_err();
        assert!(matches!(error, PackageError::Changed { .. }), "{error}");
    }
    assert_eq!(fixture.installed(), Some(first.clone()));
    let second = fixture.install("two", Some(first.content)).await.unwrap();
    assert_eq!(fixture.installed(), Some(second));
    // The replaced version can still be in use.
    assert!(fixture.store.file(&first).exists());
}

#[tokio::test]
async fn interrupted_commands_leave_what_was_installed() {
    let fixture = Fixture::new();
    let first = fixture.install("one", None).await.unwrap();
    // Killed while it fetched, and after it moved the files to their place.
    let packages = fixture.path("state/packages");
    fs::create_dir(packages.join("incoming/fetch-killed")).unwrap();
    fs::write(packages.join("incoming/fetch-killed/notes.wasm"), "half").unwrap();
    let digest = Digest(Sha256::digest("two").into());
    let second = packages.join(format!("content/{}-notes", digest.hex()));
    fs::create_dir(&second).unwrap();
    fs::write(second.join("notes.wasm"), "tw").unwrap();
    assert_eq!(fixture.installed(), Some(first.clone()));
    // Files that are not intact are replaced.
    let installed = fixture.install("two", Some(first.content)).await.unwrap();
    assert_eq!(fs::read(fixture.store.file(&installed)).unwrap(), b"two");
}

#[tokio::test]
async fn files_that_are_no_plain_files_are_refused() {
    let fixture = Fixture::new();
    let plugin = fixture.path("notes.wasm");
    for (name, expected) in [("/dev/zero", "a device"), ("/tmp", "a directory")] {
        let source = Reference::File(name.into());
        let fetched = Fetched::fetch(&fixture.store, &Registry::default(), &source, None).await;
        let error = fetched.map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let large = fs::File::create(&plugin).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    let source = Reference::File(plugin);
    let fetched = Fetched::fetch(&fixture.store, &Registry::default(), &source, None).await;
    let error = fetched.map(drop).unwrap_err().to_string();
    assert!(error.contains("longer than 33554432 bytes"), "{error}");
}

#[tokio::test]
async fn the_author_can_revoke_a_version_that_was_replaced() {
    let fixture = Fixture::new();
    let key = SigningKey::create(&fixture.path("key")).unwrap().public();
    let signer = Some(Signer::Key(key));
    let loaded = InstalledPackages::new(Some(fixture.store.clone()));
    let first = fixture.install_signed("one", None, signer.clone()).await;
    let first = first.unwrap();
    loaded.refresh().unwrap();
    let second = fixture
        .install_signed("two", Some(first.content), signer)
        .await;
    second.unwrap();
    let mut list = RevocationList::default();
    list.add(first.content, "it leaks").unwrap();
    let merge = |lists: &mut Revocations| lists.merge(key, list);
    fixture.store.change_revocations(merge).unwrap();
    loaded.refresh().unwrap();
    assert!(loaded.is_revoked(first.content, &TrustPolicy::default()));
}

#[tokio::test]
async fn a_store_that_is_a_link_is_refused() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("state")).unwrap();
    fs::create_dir(fixture.path("elsewhere")).unwrap();
    symlink(fixture.path("elsewhere"), fixture.path("state/packages")).unwrap();
    let error = fixture.install("one", None).await.unwrap_err();
    assert!(matches!(error, PackageError::Directory(_)), "{error}");
}

#[test]
fn changes_that_grow_need_approval() {
    let plugin = |version: &str, needs: &[&str], tools: &[Descriptor]| LockedPlugin {
        name: manifest(version, needs).name,
        version: version.to_owned(),
        source: "registry.example.org/ann/notes:1".parse().unwrap(),
        resolved: None,
        content: Digest([1; 32]),
        size: 1,
        signer: None,
        needs: toolhost_packages::needs(&manifest(version, needs)),
        tools: toolhost_packages::tools(tools),
    };
    let tool = |name: &str, description: &str| {
        Descriptor::new(
            toolhost_contract::ToolName::parse(name).unwrap(),
            description,
        )
    };
    let read = tool("read", "Reads.");
    let with_requirement = Descriptor {
        requires: vec!["session".to_owned()],
        ..read.clone()
    };
    let old = plugin(
        "1.1.0",
        &["fs.read", "session"],
        std::slice::from_ref(&read),
    );
    let list = |new: &LockedPlugin| {
        let changes = changes(Some(&old), new);
        let shown: Vec<_> = changes.iter().map(ToString::to_string).collect();
        (shown.join("; "), changes.iter().any(Change::grows))
    };
    let cases = [
        (old.clone(), "", false),
        (
            plugin("1.2.0", &["fs.read"], std::slice::from_ref(&read)),
            "no longer needed: session",
            false,
        ),
        (
            plugin(
                "1.0.9",
                &["session", "fs.read", "fs.write"],
                std::slice::from_ref(&read),
            ),
            "older version: 1.1.0 -> 1.0.9; new need: fs.write",
            true,
        ),
        (
            plugin("1.1.0", &["fs.read", "session"], &[]),
            "removed tool: read",
            false,
        ),
        (
            plugin(
                "1.1.0",
                &["fs.read", "session"],
                &[tool("read", "Reads more."), tool("run", "Runs.")],
            ),
            "changed description, parameters or access: read; new tool: run (destroys)",
            true,
        ),
        (
            plugin("1.1.0", &["fs.read", "session"], &[with_requirement]),
            "changed description, parameters or access: read",
            true,
        ),
        (
            LockedPlugin {
                source: "registry.example.org/bob/notes:1".parse().unwrap(),
                ..old.clone()
            },
            "source: registry.example.org/ann/notes:1 -> registry.example.org/bob/notes:1",
            true,
        ),
    ];
    for (new, expected, grows) in cases {
        assert_eq!(list(&new), (expected.to_owned(), grows));
    }
}

#[test]
fn a_list_of_revoked_versions_only_grows_and_applies_to_its_author() {
    let dir = tempfile::tempdir().unwrap();
    let key = |name: &str| SigningKey::create(&dir.path().join(name)).unwrap();
    let (ann, bob) = (key("ann"), key("bob"));
    let (one, two) = (Digest([1; 32]), Digest([2; 32]));
    let sign = |sequence, revoked: &[Digest]| {
        let mut list = RevocationList::default();
        for digest in revoked {
            list.add(*digest, "why").unwrap();
        }
        list.sequence = sequence;
        list.sign(&ann)
    };
    let verify = |bundle: &str, keys: &[PublicKey]| RevocationList::verify(bundle, keys);
    let mut revocations = Revocations::default();
    let (key, list) = verify(&sign(2, &[one]), &[bob.public(), ann.public()]).unwrap();
    assert_eq!(key, ann.public());
    assert!(revocations.merge(key, list.clone()).unwrap());
    assert!(!revocations.merge(key, list).unwrap());
    // By another key, or of another kind.
    verify(&sign(2, &[one]), &[bob.public()]).unwrap_err();
    let signature = toolhost_packages::sign(&ann, "notes.wasm", one);
    verify(&signature, &[ann.public()]).unwrap_err();
    let as_signature = toolhost_packages::verify(
        &sign(2, &[one]),
        one,
        &[ann.public().into()],
        &SigstoreRoot::default(),
    );
    as_signature.unwrap_err();
    // An older list is refused. A newer one that lacks an entry does not remove it.
    let (key, old) = verify(&sign(1, &[]), &[ann.public()]).unwrap();
    revocations.merge(key, old).unwrap_err();
    let (key, new) = verify(&sign(3, &[two]), &[ann.public()]).unwrap();
    assert!(revocations.merge(key, new).unwrap());
    let path = dir.path().join("revocations.json");
    revocations.write(&path).unwrap();
    let revocations = Revocations::read(&path).unwrap();
    for (digest, signer, trusted, is_revoked) in [
        (one, Some(ann.public()), &[][..], true),
        (two, Some(ann.public()), &[], true),
        (one, Some(bob.public()), &[], false),
        (one, None, &[], false),
        (one, None, &[ann.public()], true),
        (Digest([3; 32]), Some(ann.public()), &[], false),
    ] {
        let signer = signer.map(Signer::Key);
        let trusted: Vec<Signer> = trusted.iter().copied().map(Signer::Key).collect();
        let checked = revocations.check(digest, signer.as_ref(), &trusted);
        assert_eq!(checked.is_err(), is_revoked, "{digest} {signer:?}");
    }
}

#[tokio::test]
async fn what_is_no_plugin_file_is_not_an_error_of_the_store() {
    let fixture = Fixture::new();
    let large = fixture.path("large.wasm");
    fs::File::create(&large).unwrap().set_len(33 << 20).unwrap();
    let paths = [fixture.dir.path().to_owned(), "/dev/null".into(), large];
    for path in paths {
        let source = Reference::File(path);
        let fetched = Fetched::fetch(&fixture.store, &Registry::default(), &source, None).await;
        let error = fetched.map(drop).unwrap_err();
        assert!(matches!(error, PackageError::Plugin { .. }), "{error}");
    }
}

//! The initial state and the output format of all scenarios.

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, OpenFlags, PathFlags,
    filesystem_error_code,
};
use wasip2::io::streams::StreamError;

pub type Answer<T> = Result<T, ErrorCode>;

pub const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;
pub const NO_FOLLOW: PathFlags = PathFlags::empty();
pub const AS_IT_IS: OpenFlags = OpenFlags::empty();
pub const READ: DescriptorFlags = DescriptorFlags::READ;
pub const WRITE: DescriptorFlags = DescriptorFlags::WRITE;
pub const BOTH: DescriptorFlags = READ.union(WRITE);
pub const CHANGE: DescriptorFlags = READ.union(DescriptorFlags::MUTATE_DIRECTORY);

pub struct Scene {
    /// The first grant. All relative paths are below it.
    pub root: Descriptor,
    /// The second grant, which is writable.
    pub second: Descriptor,
    /// The third grant, which is read-only.
    pub read_only: Descriptor,
    pub lines: Vec<String>,
}

impl Scene {
    pub fn new() -> Self {
        let named = |wanted: &str| {
            let mut found = get_directories().into_iter();
            let found = found.find(|(_, name)| name == wanted);
            found.unwrap_or_else(|| panic!("no preopen {wanted}")).0
        };
        Self {
            root: named("/workspace"),
            second: named("/extra/1"),
            read_only: named("/extra/2"),
            lines: Vec::new(),
        }
    }

    /// The entries that the test also creates on disk.
    pub fn furnish(&mut self) {
        let made = furnish(&self.root);
        self.see("the start", made, "ok");
    }

    /// Records the result of the operation `label`. `allowed` lists the accepted results, separated by `|`.
    pub fn see(&mut self, label: impl AsRef<str>, got: impl Describe, allowed: &str) {
        let (label, got) = (label.as_ref(), got.describe());
        let line = if allowed.split('|').any(|one| one == got) {
            format!("{label}: {got}")
        } else {
            format!("wrong: {label}: {got}, not {allowed}")
        };
        self.lines.push(line);
    }
}

fn furnish(root: &Descriptor) -> Answer<()> {
    put(root, "file", b"0123456789")?;
    put(root, "other", b"other")?;
    root.create_directory_at("dir")?;
    put(root, "dir/inner", b"inner")?;
    root.create_directory_at("empty")?;
    for (name, target) in [
        ("to_file", "file"),
        ("to_dir", "dir"),
        ("dangling", "nowhere"),
        ("chain", "to_file"),
        ("loop", "loop"),
        ("ping", "pong"),
        ("pong", "ping"),
    ] {
        root.symlink_at(target, name)?;
    }
    Ok(())
}

/// A short description of a result that is the same in every run.
pub trait Describe {
    fn describe(&self) -> String;
}

impl<T: Describe> Describe for Answer<T> {
    fn describe(&self) -> String {
        match self {
            Ok(value) => value.describe(),
            Err(code) => code.name().to_owned(),
        }
    }
}

impl<T: Describe> Describe for Result<T, StreamError> {
    fn describe(&self) -> String {
        match self {
            Ok(value) => value.describe(),
            Err(StreamError::Closed) => "closed".to_owned(),
            Err(StreamError::LastOperationFailed(error)) => filesystem_error_code(error)
                .map_or_else(|| "failed".to_owned(), |code| code.name().to_owned()),
        }
    }
}

impl<T: Describe> Describe for std::io::Result<T> {
    fn describe(&self) -> String {
        match self {
            Ok(value) => value.describe(),
            Err(error) => format!("{:?}", error.kind()),
        }
    }
}

impl<T: Describe> Describe for Option<T> {
    fn describe(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::describe)
    }
}

impl Describe for DescriptorType {
    fn describe(&self) -> String {
        match self {
            DescriptorType::Directory => "directory",
            DescriptorType::RegularFile => "file",
            DescriptorType::SymbolicLink => "link",
            _ => "something else",
        }
        .to_owned()
    }
}

impl Describe for DescriptorFlags {
    fn describe(&self) -> String {
        let names = [
            (READ, "read"),
            (WRITE, "write"),
            (DescriptorFlags::MUTATE_DIRECTORY, "mutate"),
        ];
        let mut left = *self;
        let mut text = String::new();
        for (flag, name) in names {
            if left.contains(flag) {
                text += name;
                text.push(' ');
                left.remove(flag);
            }
        }
        if !left.is_empty() {
            text += "more";
        }
        text.trim_end().to_owned()
    }
}

/// The bytes, and whether that is the end.
impl Describe for (Vec<u8>, bool) {
    fn describe(&self) -> String {
        let end = if self.1 { " (end)" } else { "" };
        format!("{}{end}", self.0.describe())
    }
}

/// Zeros are shown as dots.
impl Describe for Vec<u8> {
    fn describe(&self) -> String {
        String::from_utf8_lossy(self).replace('\0', ".")
    }
}

macro_rules! describe_with {
    ($($type:ty: $value:ident => $text:expr;)*) => {$(
        impl Describe for $type {
            fn describe(&self) -> String {
                let $value = self;
                $text
            }
        }
    )*};
}

describe_with! {
    (): _nothing => "ok".to_owned();
    Descriptor: _descriptor => "ok".to_owned();
    std::fs::File: _file => "ok".to_owned();
    bool: value => value.to_string();
    u64: value => value.to_string();
    String: text => text.clone();
    &str: text => (*text).to_owned();
}

pub fn open(
    dir: &Descriptor,
    path: &str,
    how: OpenFlags,
    flags: DescriptorFlags,
) -> Answer<Descriptor> {
    dir.open_at(FOLLOW, path, how, flags)
}

/// Writes a new file.
pub fn put(dir: &Descriptor, path: &str, bytes: &[u8]) -> Answer<()> {
    let file = open(dir, path, OpenFlags::CREATE | OpenFlags::TRUNCATE, WRITE)?;
    let mut at = 0;
    while at < bytes.len() {
        at += usize::try_from(file.write(&bytes[at..], at as u64)?).unwrap_or(usize::MAX);
    }
    Ok(())
}

pub fn get(dir: &Descriptor, path: &str) -> Answer<Vec<u8>> {
    all(&open(dir, path, AS_IT_IS, READ)?)
}

/// The content of an open file.
pub fn all(file: &Descriptor) -> Answer<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let (more, end) = file.read(4096, bytes.len() as u64)?;
        bytes.extend(more);
        if end {
            return Ok(bytes);
        }
    }
}

/// The type of an entry, without following links.
pub fn kind(dir: &Descriptor, path: &str) -> Answer<DescriptorType> {
    Ok(dir.stat_at(NO_FOLLOW, path)?.type_)
}

/// The names in a directory, sorted.
pub fn names(dir: &Descriptor, path: &str) -> Answer<String> {
    let stream = open(dir, path, OpenFlags::DIRECTORY, READ)?.read_directory()?;
    let mut names = Vec::new();
    while let Some(entry) = stream.read_directory_entry()? {
        names.push(entry.name);
    }
    names.sort();
    Ok(names.join(" "))
}

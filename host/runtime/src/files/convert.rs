//! Conversions between `toolhost-vfs` and WASI types.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use toolhost_vfs::{Kind, NewTime, Refusal, Stat};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, ErrorCode};

pub(super) fn show_kind(kind: Kind) -> types::DescriptorType {
    match kind {
        Kind::File => types::DescriptorType::RegularFile,
        Kind::Directory => types::DescriptorType::Directory,
        Kind::Symlink => types::DescriptorType::SymbolicLink,
        Kind::Fifo => types::DescriptorType::Fifo,
        Kind::Socket => types::DescriptorType::Socket,
        Kind::CharDevice => types::DescriptorType::CharacterDevice,
        Kind::BlockDevice => types::DescriptorType::BlockDevice,
        Kind::Unknown => types::DescriptorType::Unknown,
    }
}

pub(super) fn show_stat(stat: &Stat) -> types::DescriptorStat {
    let time = |time: Option<SystemTime>| {
        let since = time?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Datetime {
            seconds: since.as_secs(),
            nanoseconds: since.subsec_nanos(),
        })
    };
    types::DescriptorStat {
        type_: show_kind(stat.kind),
        link_count: stat.links,
        size: stat.size,
        data_access_timestamp: time(stat.accessed),
        data_modification_timestamp: time(stat.modified),
        status_change_timestamp: time(stat.changed),
    }
}

/// Equal for all names of one file, without revealing the host's inode numbers.
pub(super) fn identity(stat: &Stat) -> types::MetadataHashValue {
    let mut hasher = DefaultHasher::new();
    (stat.id.dev(), stat.id.ino()).hash(&mut hasher);
    let lower = hasher.finish();
    lower.hash(&mut hasher);
    types::MetadataHashValue {
        lower,
        upper: hasher.finish(),
    }
}

pub(super) fn new_time(time: types::NewTimestamp) -> FsResult<NewTime> {
    match time {
        types::NewTimestamp::NoChange => Ok(NewTime::Keep),
        types::NewTimestamp::Now => Ok(NewTime::Now),
        types::NewTimestamp::Timestamp(time) if time.nanoseconds >= 1_000_000_000 => {
            Err(ErrorCode::Invalid.into())
        }
        types::NewTimestamp::Timestamp(time) => SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(time.seconds))
            .and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanoseconds.into())))
            .map(NewTime::At)
            .ok_or_else(|| ErrorCode::Overflow.into()),
    }
}

pub(super) fn code(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::NotPermitted => ErrorCode::NotPermitted,
        Refusal::NotFound => ErrorCode::NoEntry,
        Refusal::Exists => ErrorCode::Exist,
        Refusal::IsDirectory => ErrorCode::IsDirectory,
        Refusal::NotDirectory => ErrorCode::NotDirectory,
        Refusal::NotEmpty => ErrorCode::NotEmpty,
        Refusal::Loop => ErrorCode::Loop,
        Refusal::Invalid => ErrorCode::Invalid,
        Refusal::NotUtf8 => ErrorCode::IllegalByteSequence,
        Refusal::TooManyEntries => ErrorCode::Overflow,
        Refusal::Busy => ErrorCode::Busy,
        Refusal::NameTooLong => ErrorCode::NameTooLong,
        Refusal::NoSpace => ErrorCode::InsufficientSpace,
        Refusal::ReadOnlyFileSystem => ErrorCode::ReadOnly,
        Refusal::CrossDevice => ErrorCode::CrossDevice,
        Refusal::TooManyLinks => ErrorCode::TooManyLinks,
        Refusal::Unsupported => ErrorCode::Unsupported,
        Refusal::Io(_) => ErrorCode::Io,
    }
}

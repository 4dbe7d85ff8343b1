//! Conversions between `toolhost-vfs` and WASI types.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, SystemTime};

use toolhost_vfs::{EntryKind, NewTime, PathError, Stat};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, ErrorCode};

pub(super) fn kind_to_wasi(kind: EntryKind) -> types::DescriptorType {
    match kind {
        EntryKind::File => types::DescriptorType::RegularFile,
        EntryKind::Directory => types::DescriptorType::Directory,
        EntryKind::Symlink => types::DescriptorType::SymbolicLink,
        EntryKind::Fifo => types::DescriptorType::Fifo,
        EntryKind::Socket => types::DescriptorType::Socket,
        EntryKind::CharDevice => types::DescriptorType::CharacterDevice,
        EntryKind::BlockDevice => types::DescriptorType::BlockDevice,
        EntryKind::Unknown => types::DescriptorType::Unknown,
    }
}

pub(super) fn stat_to_wasi(stat: &Stat) -> types::DescriptorStat {
    let time = |time: Option<SystemTime>| {
        let since = time?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Datetime {
            seconds: since.as_secs(),
            nanoseconds: since.subsec_nanos(),
        })
    };
    types::DescriptorStat {
        type_: kind_to_wasi(stat.kind),
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

pub(super) fn error_code(refusal: PathError) -> ErrorCode {
    match refusal {
        PathError::NotPermitted => ErrorCode::NotPermitted,
        PathError::NotFound => ErrorCode::NoEntry,
        PathError::Exists => ErrorCode::Exist,
        PathError::IsDirectory => ErrorCode::IsDirectory,
        PathError::NotDirectory => ErrorCode::NotDirectory,
        PathError::NotEmpty => ErrorCode::NotEmpty,
        PathError::Loop => ErrorCode::Loop,
        PathError::Invalid => ErrorCode::Invalid,
        PathError::NotUtf8 => ErrorCode::IllegalByteSequence,
        PathError::TooManyEntries => ErrorCode::Overflow,
        PathError::Busy => ErrorCode::Busy,
        PathError::NameTooLong => ErrorCode::NameTooLong,
        PathError::NoSpace => ErrorCode::InsufficientSpace,
        PathError::ReadOnlyFileSystem => ErrorCode::ReadOnly,
        PathError::CrossDevice => ErrorCode::CrossDevice,
        PathError::TooManyLinks => ErrorCode::TooManyLinks,
        PathError::Unsupported => ErrorCode::Unsupported,
        PathError::Io(_) => ErrorCode::Io,
    }
}

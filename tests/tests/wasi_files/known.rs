//! Known deviations of the host from the documentation, and of staged from real files. The tests fail if one of them no
//! longer occurs.

/// The conditions under which a deviation occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Wherever the scenario is played.
    Everywhere,
    /// Where nothing is held back.
    Plain,
    /// Where writes are held back.
    Staged,
    /// Where writes are held back, of what was there before the call.
    StagedOld,
    /// Where writes are held back, of what the call made.
    StagedNew,
}

pub struct Known {
    pub scenario: &'static str,
    pub condition: Where,
    pub why: &'static str,
    pub lines: &'static [&'static str],
}

/// The host is wrong: each breaks the sentence of the interface's documentation, or of POSIX, that is its reason.
pub const KNOWN_WRONG: &[Known] = &[
    Known {
        scenario: "flags_and_types",
        condition: Where::Everywhere,
        why: "mutate-directory: \"When this flag is unset on a descriptor, operations using the descriptor which would \
              create, rename, delete, modify the data or metadata of filesystem objects, or obtain another handle \
              which would permit any of those, shall fail with `error-code::read-only`\". Every directory of a grant \
              that may be written has it. On purpose: C libraries open a directory to read and then change what is in \
              it, `remove_dir_all` for one.",
        lines: &[
            "wrong: flags of a directory to read: read mutate, not read",
            "wrong: make in a directory to read: ok, not read-only",
            "wrong: more rights from fewer: ok, not read-only",
        ],
    },
    Known {
        scenario: "read_only_grant",
        condition: Where::Everywhere,
        why: "the same sentence, and open-at: \"If `flags` contains `write` or `mutate-directory`, or `open-flags` \
              contains `truncate` or `create`, and the base descriptor doesn't have \
              `descriptor-flags::mutate-directory` set, `open-at` fails with `error-code::read-only`\". The answer is \
              `not-permitted`.",
        lines: &[
            "wrong: open to write: not-permitted, not read-only",
            "wrong: create: not-permitted, not read-only",
            "wrong: truncate: not-permitted, not read-only",
            "wrong: open to change: not-permitted, not read-only",
            "wrong: make: not-permitted, not read-only",
            "wrong: remove: not-permitted, not read-only",
            "wrong: unlink: not-permitted, not read-only",
            "wrong: link: not-permitted, not read-only",
            "wrong: hard link: not-permitted, not read-only",
            "wrong: hard link out: not-permitted, not read-only",
            "wrong: move: not-permitted, not read-only",
            "wrong: move out: not-permitted, not read-only",
            "wrong: move in: not-permitted, not read-only",
            "wrong: set times: not-permitted, not read-only",
        ],
    },
    Known {
        scenario: "read_at_offsets",
        condition: Where::Everywhere,
        why: "read: \"a bool which, when true, indicates that the end of the file was reached\", said of reading \
              nothing at the start of a file",
        lines: &["wrong: nothing at the start:  (end), not "],
    },
    Known {
        scenario: "metadata_hash",
        condition: Where::Everywhere,
        why: "metadata-hash: \"This returns a hash of the last-modification timestamp and file size\", \"If the object is \
              modified or replaced, the computed hash value should usually change.\" It is of the identity alone, \
              which is what C libraries show as the inode's number.",
        lines: &["wrong: another size: true, not false"],
    },
];

/// A stage is known to differ: docs/staged-writes.md, "Limitations".
pub const KNOWN_DIFFERENCES: &[Known] = &[
    Known {
        scenario: "seen_by_others",
        condition: Where::StagedOld,
        why: "a file that was open for reading before the same call wrote it anew goes on showing what it showed",
        lines: &["wrong: opened before it: 0123456789, not new3456789"],
    },
    Known {
        scenario: "is_same_object",
        condition: Where::StagedOld,
        why: "the same: what is written is a copy",
        lines: &["wrong: a writer and an earlier reader: false, not true"],
    },
    Known {
        scenario: "rights_of_a_descriptor",
        condition: Where::StagedOld,
        why: "what was opened for reading may be the person's own file, so the answer comes before the kernel's",
        lines: &[
            "wrong: write to a reader: not-permitted, not bad-descriptor",
            "wrong: size of a reader: not-permitted, not bad-descriptor|invalid",
        ],
    },
    Known {
        scenario: "streams_without_rights",
        condition: Where::StagedOld,
        why: "what was opened for reading may be the person's own file, so the answer comes before the kernel's",
        lines: &[
            "wrong: write what is to be read: not-permitted, not bad-descriptor",
            "wrong: append to what is to be read: not-permitted, not bad-descriptor",
        ],
    },
    Known {
        scenario: "set_times",
        condition: Where::Staged,
        why: "what was opened for reading may be the person's own file, and a folder's times cannot be set",
        lines: &[
            "wrong: by a reader: not-permitted, not ok",
            "wrong: directory, given, seen: now now, not 1.123456789 2.123456789",
            "wrong: directory, neither, seen: now now, not 1.123456789 2.123456789",
            "wrong: directory, access only, seen: now now, not 3.123456789 2.123456789",
            "wrong: directory, modification only, seen: now now, not 3.123456789 4.123456789",
            "wrong: directory, access now, seen: now now, not now 4.123456789",
            "wrong: directory, given again, seen: now now, not 1.123456789 2.123456789",
            "left: workspace/dir: directory, time 1000000002.123456789, staged directory",
            "left: workspace/other: \"other\", time 1000000002.123456789, staged \"other\"",
        ],
    },
    Known {
        scenario: "set_times_at",
        condition: Where::Staged,
        why: "a folder's times cannot be set, and a link has the time of the commit",
        lines: &[
            "wrong: a directory, seen: now now, not 40.123456789 41.123456789",
            "left: workspace/dangling: link to nowhere, time 1000000031.123456789, staged link to nowhere",
            "left: workspace/dir: directory, time 1000000041.123456789, staged directory",
            "left: workspace/to_file: link to file, time 1000000011.123456789, staged link to file",
        ],
    },
    Known {
        scenario: "set_times_at",
        condition: Where::StagedOld,
        why: "times alone are no change",
        lines: &[
            "left: workspace/file: \"0123456789\", time 1000000021.123456789, staged \"0123456789\"",
        ],
    },
    Known {
        scenario: "link",
        condition: Where::StagedOld,
        why: "a name made by `link_at` for a file that was there is committed as a file of its own",
        lines: &[
            "left: second/other: \"other\", 2 names, staged \"other\"",
            "left: workspace/other: \"other\", 2 names, staged \"other\"",
        ],
    },
];

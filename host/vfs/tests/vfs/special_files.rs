//! BLK-02 to BLK-07: special files are never opened, and queries never block. On a host that opens a FIFO, these
//! tests hang instead of failing.

use std::{fs, os::unix::net::UnixListener, path::Path};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use toolhost_vfs::{Access, PathError};

use crate::support::{APPEND, CREATE, READ, TRUNCATE, WRITE, World, handle};

fn check(world: &World, name: &str, kind: &str) {
    for scope in [
        world.scope(Access::ReadWrite),
        world.walking_scope(Access::ReadWrite),
    ] {
        let root = handle(&scope, "/w");
        for how in [READ, WRITE, APPEND, CREATE, TRUNCATE] {
            assert_eq!(
                root.open(name, how),
                Err(PathError::NotPermitted),
                "{name} {how:?}"
            );
        }
        assert_eq!(root.stat(name).as_deref(), Ok(kind), "{name}");
        assert_eq!(
            root.link(name, root, "second"),
            Err(PathError::NotPermitted),
            "{name}"
        );
        assert_eq!(
            held_below(&world.path("w")),
            0,
            "{name}: a descriptor was left open"
        );
    }
    let scope = world.scope(Access::ReadWrite);
    assert_eq!(
        handle(&scope, "/w").unlink(name).as_deref(),
        Ok("done"),
        "{name}"
    );
}

/// Number of this process's descriptors below `dir`; the scope itself holds only `dir`. Other tests use other
/// directories.
fn held_below(dir: &Path) -> usize {
    let fds = fs::read_dir("/proc/self/fd").expect("descriptors");
    fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
        .filter(|target| target.starts_with(dir) && target != dir)
        .count()
}

#[test]
fn a_fifo_is_refused_at_once() {
    let world = World::new();
    mknodat(
        CWD,
        world.path("w/fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o666),
        0,
    )
    .expect("fifo");
    check(&world, "fifo", "Fifo");
}

#[test]
fn a_socket_is_refused() {
    let world = World::new();
    let _listener = UnixListener::bind(world.path("w/socket")).expect("socket");
    check(&world, "socket", "Socket");
}

#[test]
fn a_device_is_refused() {
    for (name, major, minor) in [("zero", 1, 5), ("full", 1, 7), ("tty", 5, 0)] {
        let world = World::new();
        let mode = Mode::from_raw_mode(0o666);
        let made = mknodat(
            CWD,
            world.path("w").join(name),
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        );
        if let Err(errno) = made {
            eprintln!("skipped: cannot create a device node ({errno})");
            return;
        }
        check(&world, name, "CharDevice");
    }
}

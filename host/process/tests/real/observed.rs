//! Observed programs: what their sandbox refuses is reported, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use toolhost_process::{ExitReason, PipedNetwork, ProgramAccess};

use crate::fixture::LONG;
use crate::piped_sandbox::{Place, allows_namespaces, start};

#[tokio::test]
async fn refused_accesses_are_reported_once() {
    if !allows_namespaces() {
        return;
    }
    let place = Place::new();
    let mut sandbox = place.sandbox(PipedNetwork::Proxy);
    sandbox.record = true;
    let (open, hidden) = (place.at("open"), place.at("state/two"));
    fs::write(open.join("script"), "#!/bin/sh\n").unwrap();
    let script = format!(
        "cat {open}/file {open}/missing; cat {hidden}/file; cat {hidden}/file; cd {hidden}; cat ./file\n\
         echo x > {open}/new; echo x > $0; mkdir {open}/dir; mv {open}/file {open}/moved\n\
         (exec 3<>/dev/tcp/192.0.2.1/443); sh -c 'cat {hidden}/tmp' & wait\n\
         exit 7",
        open = open.display(),
        hidden = hidden.display(),
    );
    let (mut child, mut pipes) = start(sandbox, &script).await;
    let mut refused = pipes.refused.take().unwrap();
    let mut found = Vec::new();
    while let Some(access) = refused.next().await {
        found.push(access);
    }
    assert_eq!(child.wait().await, ExitReason::Code(7));
    child.end(LONG).await;
    let all: BTreeSet<_> = found.iter().cloned().collect();
    assert_eq!(all.len(), found.len(), "{found:?}");
    let write = |path: PathBuf| ProgramAccess::Write(path);
    for access in [
        ProgramAccess::Read(hidden.join("file")),
        write(open.join("new")),
        write(open.join("dir")),
        write(open.join("moved")),
        ProgramAccess::Connect("192.0.2.1:443".to_owned()),
    ] {
        assert!(all.contains(&access), "{access:?} is missing: {all:?}");
    }
    assert!(
        !all.contains(&ProgramAccess::Read(open.join("file"))),
        "{all:?}"
    );
    assert!(
        !all.contains(&ProgramAccess::Read(open.join("missing"))),
        "{all:?}"
    );
}

#[tokio::test]
async fn an_observed_program_ends_with_its_host() {
    let place = Place::new();
    let mut sandbox = place.sandbox(PipedNetwork::None);
    sandbox.record = true;
    let (child, mut pipes) = start(
        sandbox,
        "trap '' TERM; echo $$; cat; while :; do sleep 1; done",
    )
    .await;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        tokio::io::AsyncReadExt::read_buf(&mut pipes.stdout, &mut line)
            .await
            .unwrap();
    }
    let pid: i32 = String::from_utf8(line).unwrap().trim().parse().unwrap();
    assert!(crate::fixture::is_alive(pid));
    drop(child);
    while crate::fixture::is_alive(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

//! The sandbox: files, processes and capabilities.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use toolhost_process::{Confinement, ExitReason, OpenPath, ProcessError};

use crate::fixture::{Host, SECRET, open, owner, text};

/// Runs `script` in the workspace and checks whether it succeeds. The secret must be neither printed nor changed in any
/// case.
async fn check(host: &Host, script: &str, succeeds: bool) {
    let finished = host.run(host.sh(script)).await;
    let text = text(&finished);
    assert_eq!(
        finished.exit == ExitReason::Code(0),
        succeeds,
        "{script}: {:?} {text}",
        finished.exit
    );
    assert!(!text.contains(SECRET), "{script}: {text}");
    let secret = host.ws().join("../secret");
    assert_eq!(std::fs::read_to_string(secret).unwrap(), SECRET, "{script}");
    assert!(!host.ws().join("../new").exists(), "{script}");
}

#[tokio::test]
async fn a_command_works_inside_its_workspace() {
    let host = Host::new();
    for script in [
        "echo a > f && cat f",
        "mkdir -p d/e && mv f d/e/g && ln d/e/g h && ln -s h i && cat i",
        ": > h && rm -r d h i",
        "printf '#!/bin/sh\\necho hello' > tool && chmod +x tool && ./tool",
        "echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\" && mktemp",
        "ls / > /dev/null; ls /usr /etc > /dev/null",
        "cat /etc/passwd > /dev/null && head -c 8 /dev/urandom > /dev/null && echo x > /dev/null",
        "echo x >&2; echo x > /dev/stderr",
        "test \"$(cat /proc/self/status | grep -c Name)\" = 1",
        "sleep 0 & wait",
    ] {
        check(&host, script, true).await;
    }
}

#[tokio::test]
async fn a_command_changes_nothing_outside() {
    let host = Host::new();
    for script in [
        "echo x > ../new",
        "echo x >> ../secret",
        ": > ../secret",
        "truncate -s 0 ../secret",
        "rm -f ../secret && test ! -e ../secret",
        "mv ../secret here",
        "echo x > f && mv f ../new",
        "echo x > f && mv f ../secret",
        "mkdir ../new",
        "ln -s ../secret l && echo x > l",
        "ln ../secret hard && echo x > hard",
        "echo x > /proc/self/root/etc/new-file",
        "echo x > /usr/new-file",
        "mkdir /tmp/toolhost-new-dir",
        "cp /bin/true /dev/shm/toolhost-x",
        "echo 0 > /proc/self/oom_score_adj",
        "mknod dev b 8 0",
    ] {
        check(&host, script, false).await;
    }
}

#[tokio::test]
async fn a_secret_outside_the_grant_is_not_readable() {
    let host = Host::new();
    for script in [
        "cat ../secret",
        "cat ../ws/../secret",
        "ln -s ../secret l2; cat l2",
        "cp ../secret here",
        "cat /proc/self/root$PWD/../secret",
        "cat /proc/self/cwd/../secret",
        "ls ..",
        "ls /tmp",
        "cd ..; cat secret",
        "cat < ../secret",
    ] {
        check(&host, script, false).await;
    }
    check(
        &host,
        "readlink /proc/$PPID/fd/3 || cat /proc/$PPID/environ",
        false,
    )
    .await;
    // Variables, memory and directories of another process, here of this test.
    let pid = std::process::id();
    for file in [
        "environ",
        "maps",
        "mem",
        "cwd/Cargo.toml",
        "root/etc/hostname",
        "fd/0",
    ] {
        check(&host, &format!("head -c 1 /proc/{pid}/{file}"), false).await;
    }
    if rustix::process::geteuid().is_root() {
        check(&host, "cat /etc/shadow", false).await;
    }
}

#[tokio::test]
async fn read_only_grants_cannot_be_changed() {
    let host = Host::new();
    let secret = host.ws().with_file_name("secret");
    let with = |script: &str| {
        let mut command = host.sh(script);
        command.sandbox.read.push(open(&secret));
        command
    };
    let finished = host.run(with("cat ../secret")).await;
    assert_eq!(text(&finished), SECRET);
    for script in [
        "echo x > ../secret",
        "rm ../secret",
        ": > ../secret",
        "mv ../secret s",
    ] {
        let finished = host.run(with(script)).await;
        assert_ne!(finished.exit, ExitReason::Code(0), "{script}");
        assert_eq!(
            std::fs::read_to_string(&secret).unwrap(),
            SECRET,
            "{script}"
        );
    }
}

// FS-25
#[tokio::test]
async fn excluded_hidden_and_read_only_paths_are_protected_inside_a_grant() {
    let host = Host::with(|settings| {
        let dir = settings.output_dir.parent().unwrap();
        settings.hidden = ["policy", "not-there-yet/file", "secret"]
            .map(|name| dir.join(name))
            .to_vec();
        settings.read_only = vec![dir.join("config")];
    });
    let dir = host.ws().parent().unwrap().to_owned();
    std::fs::create_dir(dir.join("policy")).unwrap();
    std::fs::write(dir.join("policy/rules"), "deny").unwrap();
    std::fs::create_dir(dir.join("config")).unwrap();
    std::fs::write(dir.join("config/settings"), "safe").unwrap();
    std::fs::write(dir.join("beside"), "x").unwrap();
    // The whole directory is granted, including the workspace, the policy, the outputs and the secret.
    for (script, succeeds) in [
        (
            "echo x >> ../beside && rm -r ../ws/* ; echo x > new && cat new ../beside",
            true,
        ),
        ("cat ../policy/rules", false),
        ("echo allow > ../policy/rules", false),
        ("echo allow > ../policy/more", false),
        ("mv ../policy ../policy2", false),
        ("rm -r ../policy", false),
        ("mkdir ../not-there-yet", false),
        ("grep safe ../config/settings", true),
        ("echo x > ../config/settings", false),
        ("rm ../config/settings", false),
        ("mv ../config ../config2", false),
        ("cat ../secret", false),
        ("cat ../outputs/*/lock", false),
        ("echo x > $TMPDIR/x && cat $TMPDIR/x", true),
    ] {
        let mut command = host.sh(script);
        command.sandbox.write = vec![open(&dir)];
        let finished = host.run(command).await;
        assert_eq!(
            finished.exit == ExitReason::Code(0),
            succeeds,
            "{script}: {}",
            text(&finished)
        );
        assert_eq!(
            std::fs::read_to_string(dir.join("config/settings")).unwrap(),
            "safe"
        );
        assert_eq!(
            std::fs::read_to_string(dir.join("policy/rules")).unwrap(),
            "deny",
            "{script}"
        );
    }
}

/// A tool may write such files, because none of their names is protected.
#[tokio::test]
async fn a_07_a_directory_that_looks_like_a_bare_repository_does_not_configure_git() {
    let host = Host::new();
    let planted = host.ws().join("planted");
    for dir in ["objects", "refs"] {
        std::fs::create_dir_all(planted.join(dir)).unwrap();
    }
    std::fs::write(planted.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch ran; false\"\n";
    std::fs::write(planted.join("config"), config).unwrap();
    let finished = host.run(host.sh("cd planted && git status 2>&1")).await;
    let output = text(&finished);
    assert!(output.contains("safe.bareRepository"), "{output}");
    assert!(!host.ws().join("ran").exists(), "{output}");
    let own = "git init -q --bare b.git && git clone -q b.git c 2>&1 && git -C c status --short && echo done";
    assert_eq!(
        text(&host.run(host.sh(own)).await).lines().last(),
        Some("done")
    );
}

#[tokio::test]
async fn git_works_without_readable_settings_in_the_home_directory() {
    let host = Host::new();
    let home = host.ws().with_file_name("home");
    std::fs::create_dir(&home).unwrap();
    let with = |grant: bool| {
        let mut command = host.sh("echo $GIT_CONFIG_GLOBAL");
        let home = home.to_str().unwrap().to_owned();
        if grant {
            command.sandbox.read.push(open(home.as_ref()));
        }
        command.env.push(("HOME".to_owned(), home));
        host.run(command)
    };
    assert_eq!(text(&with(false).await), "/dev/null");
    assert_eq!(text(&with(true).await), "");
}

// EXE-12
#[tokio::test]
async fn other_processes_are_not_accessible() {
    let host = Host::new();
    let pid = std::process::id();
    // $PPID is the warden.
    for script in [
        &format!("kill -0 {pid}"),
        &format!("kill -9 {pid}"),
        "kill -9 $PPID",
        "prlimit --pid $PPID --nofile=0:0",
        "renice -n 15 -p $PPID",
        "chrt -i -p 0 $PPID",
        "taskset -p 1 $PPID",
        "unshare -U true",
        "unshare -m true",
        "mount -t tmpfs none .",
        "chroot . true",
    ] {
        check(&host, script, false).await;
    }
    check(&host, "sleep 100 & kill $!", true).await;
}

// ENV-07
#[tokio::test]
async fn a_command_has_only_the_needed_capabilities() {
    let host = Host::new();
    // CHOWN, DAC_OVERRIDE, FOWNER and FSETID at most.
    let capabilities = host
        .text("grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status")
        .await;
    for line in capabilities.lines() {
        let value = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        assert_eq!(value & !0b1_1011, 0, "{line}");
    }
    assert_eq!(
        host.text("grep NoNewPrivs /proc/self/status").await,
        "NoNewPrivs:\t1"
    );
    assert_eq!(host.text("ulimit -c; ulimit -Hc").await, "0\n0");
    let open: u64 = host.text("ulimit -Hn").await.parse().unwrap();
    assert!(open <= 4096);
}

// EXE-11
#[tokio::test]
async fn a_command_inherits_nothing_but_its_three_streams() {
    let host = Host::new();
    // The fourth is the directory that `ls` lists.
    assert_eq!(host.text("exec ls /proc/self/fd").await, "0\n1\n2\n3");
    assert_eq!(
        host.text("cat; readlink /proc/self/fd/0").await,
        "/dev/null"
    );
    let finished = host
        .run(host.sh("ps -o tty= -p $$; tty; exec < /dev/tty"))
        .await;
    assert_ne!(finished.exit, ExitReason::Code(0), "{}", text(&finished));
    let environment = host.text("env").await;
    assert!(!environment.contains("CARGO"), "{environment}");
    assert!(
        environment.contains("TERM=dumb") && environment.contains("GIT_PAGER=cat"),
        "{environment}"
    );
}

#[tokio::test]
async fn sessions_do_not_see_each_others_temporary_files() {
    let host = Host::new();
    let ours = host.text("echo mine > $TMPDIR/t; echo $TMPDIR").await;
    let mut other = host.sh(&format!("cat {ours}/t"));
    other.owner = owner("other");
    assert_ne!(host.run(other).await.exit, ExitReason::Code(0));
    assert_eq!(host.text("cat $TMPDIR/t").await, "mine");
    // Nor the recorded outputs, which are in a sibling directory.
    check(&host, "ls $TMPDIR/..", false).await;
}

// EXE-08
#[tokio::test]
async fn a_command_cannot_start_in_a_directory_outside_the_grant() {
    let host = Host::new();
    std::os::unix::fs::symlink("..", host.ws().join("up")).unwrap();
    let outside = "outside the directories that this command may read";
    for (cwd, reason) in [
        (host.ws().join(".."), outside),
        (host.ws().join("up"), outside),
        ("/".into(), outside),
        (host.ws().join("missing"), "No such file"),
        (host.ws().with_file_name("secret"), "Not a directory"),
        ("ws".into(), "not an absolute path"),
    ] {
        let mut command = host.sh("true");
        let error = match OpenPath::directory(&cwd) {
            Ok(cwd) => {
                command.cwd = cwd;
                host.try_run(command).await.unwrap_err()
            }
            Err(error) => error,
        };
        assert!(matches!(error, ProcessError::Directory { .. }));
        assert!(error.to_string().contains(reason), "{error}");
    }
}

// EXE-02, EXE-03
// EXE-01
#[tokio::test]
async fn unconfined_commands_require_the_operator_setting() {
    let host = Host::with(|settings| settings.confinement = Confinement::Off);
    assert_eq!(host.text("cat ../secret").await, SECRET);
    assert_eq!(
        toolhost_process::missing_kernel_support(),
        None,
        "these tests need a kernel with Landlock"
    );
}

/// Simulates a kernel without Landlock: its calls fail as not implemented, in this thread and its children.
#[test]
fn without_landlock_no_program_starts() {
    let without = || {
        let rules = [
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_restrict_self,
        ];
        let filter = SeccompFilter::new(
            rules.map(|number| (number, Vec::new())).into(),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        apply_filter(&BpfProgram::try_from(filter.unwrap()).unwrap()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let host = Host::new();
            let refused = host.try_run(host.sh("echo ran > ran")).await.unwrap_err();
            assert!(
                matches!(&refused, ProcessError::Unconfined { lacks } if lacks.contains("Landlock")),
                "{refused:?}"
            );
            assert!(!host.ws().join("ran").exists());
        });
    };
    std::thread::spawn(without).join().unwrap();
}

#[tokio::test]
async fn blocked_operations_have_hints() {
    let host = Host::new();
    let finished = host.run(host.sh("echo x > ../new")).await;
    assert_eq!(finished.hints.len(), 1, "{:?}", finished.hints);
    assert!(finished.hints[0].contains(&*host.ws().to_string_lossy()));
    assert!(host.run(host.sh("exit 3")).await.hints.is_empty());
}

/// Swaps two names in a directory until it is dropped.
struct Exchange {
    done: Arc<AtomicBool>,
    turns: Option<JoinHandle<()>>,
}

impl Exchange {
    fn of(one: &Path, other: &Path) -> Exchange {
        let done = Arc::new(AtomicBool::new(false));
        let (stop, one, other) = (Arc::clone(&done), one.to_owned(), other.to_owned());
        let turns = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Exchange {
            done,
            turns: Some(turns),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.turns.take().unwrap().join().unwrap();
    }
}

// The directory `sub` and a link to a directory outside are swapped all the time.
#[tokio::test]
async fn a_12_a_directory_replaced_by_a_link_does_not_leave_the_sandbox() {
    const STARTS: usize = 60;
    let host = Host::with(|settings| {
        let dir = settings.output_dir.parent().unwrap();
        settings.read_only = vec![dir.join("ws/config/file")];
    });
    let (ws, outside) = (host.ws(), host.ws().with_file_name("outside"));
    for folder in [&outside, &ws.join("sub/deep"), &ws.join("config")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::os::unix::fs::symlink(&outside, ws.join("link")).unwrap();
    let (parent, sub) = (open(&ws), open(&ws.join("sub")));
    let deep = open(&ws.join("sub/deep"));
    let exchange = Exchange::of(&ws.join("sub"), &ws.join("link"));
    let script = format!(
        "echo x > {0}/new; echo x > ../outside/new; echo x > sub/new; echo x > link/new; echo x > $PWD/new; echo x > \
         {1}/sub/new; :",
        outside.display(),
        ws.display()
    );
    for start in 0..STARTS {
        let mut command = host.sh(&script);
        // Nested grants and the working directory, each of which can be the link by now.
        command.sandbox.write = vec![parent.clone(), sub.clone()];
        command.sandbox.read = if start % 2 == 0 {
            vec![deep.clone()]
        } else {
            Vec::new()
        };
        command.cwd = [&parent, &sub, &deep][start % 3].clone();
        assert_eq!(host.run(command).await.exit, ExitReason::Code(0));
        assert!(!outside.join("new").exists(), "start {start}");
    }
    drop(exchange);
}

#[tokio::test]
async fn a_12_a_granted_directory_is_the_one_that_was_opened() {
    let host = Host::new();
    let (ws, outside) = (host.ws(), host.ws().with_file_name("outside"));
    std::fs::create_dir(&outside).unwrap();
    let mut command = host.sh("echo mine > f; echo x > $OLD/new; cat f");
    let moved = ws.with_file_name("moved");
    std::fs::rename(&ws, &moved).unwrap();
    std::os::unix::fs::symlink(&outside, &ws).unwrap();
    command
        .env
        .push(("OLD".to_owned(), ws.display().to_string()));
    let finished = host.run(command).await;
    assert_eq!(finished.stdout.whole().unwrap(), b"mine\n");
    assert_eq!(std::fs::read_to_string(moved.join("f")).unwrap(), "mine\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

/// An unrelated process with a token in its arguments.
struct ProcessWithToken(std::process::Child);

impl ProcessWithToken {
    fn start() -> ProcessWithToken {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read line", "victim", "TOKEN=hunter2"]);
        command.stdin(std::process::Stdio::piped());
        ProcessWithToken(command.spawn().unwrap())
    }
}

impl Drop for ProcessWithToken {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const READ_COMMAND_LINES: &str = "exec 2> /dev/null; cat /proc/[0-9]*/cmdline /proc/[0-9]*/task/*/cmdline; cat /proc/$V/cmdline /proc/$V/task/$V/cmdline; \
                     head -n 1 /proc/$V/status; echo done";

#[tokio::test]
async fn a_09_command_lines_of_other_processes_are_not_read() {
    let victim = ProcessWithToken::start();
    let host = Host::new();
    let mut command = host.sh(READ_COMMAND_LINES);
    command
        .env
        .push(("V".to_owned(), victim.0.id().to_string()));
    let text = text(&host.run(command).await);
    assert!(text.ends_with("done"), "{text}");
    assert!(
        !text.contains("hunter2") && !text.contains("cgroup"),
        "{text}"
    );
    // What programs read of the machine and of themselves is available.
    let own = "head -c 1 /proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/kernel/ostype > /dev/null && exec head -n 1 \
               /proc/self/status";
    assert_eq!(host.text(own).await, "Name:\thead");
}

/// Runs this test again, on a host that cannot mount and therefore shows the machine's own `/proc`.
#[test]
fn a_09_command_lines_are_not_read_without_a_private_proc() {
    const VARIABLE: &str = "TOOLHOST_TEST_BOUNDED";
    if std::env::var_os(VARIABLE).is_some() || !may_mount() {
        return;
    }
    let ended = std::process::Command::new("setpriv")
        .args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
        .arg(std::env::current_exe().unwrap())
        .arg("a_09_command_lines_of_other_processes_are_not_read")
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

/// Whether this process has `CAP_SYS_ADMIN`.
fn may_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() >> 21 & 1 == 1
}

#[tokio::test]
async fn a_09_a_private_proc_shows_processes_of_the_same_sandbox() {
    let host = Host::new();
    let script = "sleep 100 & test -d /proc/$! && echo there; ls /proc | grep -c '^[0-9]'; kill $!";
    let text = host.text(script).await;
    if may_mount() {
        let (there, count) = text.split_once('\n').unwrap();
        assert_eq!(there, "there");
        assert!(count.parse::<u32>().unwrap() < 10, "{text}");
    }
}

#[tokio::test]
async fn a_09_owners_attributes_and_shared_memory_are_refused() {
    let host = Host::new();
    std::fs::write(host.ws().join("own"), "").unwrap();
    // As root, a program could otherwise give away or mark any file of the machine.
    for script in [
        "chown 12345 own",
        "chown 12345 ../secret",
        "chgrp 12345 /etc/hostname",
        "chmod u+s ../secret",
        "chmod 4755 own",
        "python3 -c 'import os; os.setxattr(\"../secret\", \"user.mark\", b\"x\")'",
        "chattr +d ../secret",
        "ipcmk -M 4096",
        "ipcmk -S 1",
        "ipcmk -Q",
        "perl -e 'exit !defined shmget(0x70, 4096, 01600)'",
    ] {
        check(&host, script, false).await;
    }
    check(
        &host,
        "chmod 750 own && cp -a own copy && mv copy own",
        true,
    )
    .await;
    let copies = "mkdir -p a/b && cp -a a c && tar cf t a && tar xf t -C c && test -d c/a/b";
    check(&host, copies, true).await;
}

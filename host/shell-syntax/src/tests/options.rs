//! Tests of risky options, and of rules for commands with options before the subcommand.

use super::*;

fn single(line: &str) -> SimpleCommand {
    let script = parse(line).unwrap_or_else(|unparsed| panic!("{line}: {unparsed}"));
    script.commands.last().expect("a command").clone()
}

/// Checks that the risky option of a command is found, or none in a harmless command.
fn check_option(line: &str, option: Option<&str>) {
    let found = find_risky_options(&single(line));
    let options: Vec<&str> = found.iter().map(|one| one.option.as_str()).collect();
    match option {
        Some(option) => assert!(options.contains(&option), "{line}: {options:?}"),
        None => assert!(options.is_empty(), "{line}: {options:?}"),
    }
}

const RISKY: &[(&str, &str)] = &[
    ("git fetch --upload-pack=CMD", "--upload-pack"),
    ("git fetch --upload-pack CMD origin", "--upload-pack"),
    ("git fetch --upload-p=CMD", "--upload-pack"),
    ("git fetch origin --upload-pack=CMD", "--upload-pack"),
    ("git pull --upload-pack=CMD", "--upload-pack"),
    ("git clone -u CMD x", "-u"),
    ("git clone -quCMD x", "-u"),
    ("git ls-remote --upload-pack=CMD x", "--upload-pack"),
    ("git ls-remote --exec=CMD x", "--exec"),
    ("git push --receive-pack=CMD x", "--receive-pack"),
    ("git grep -Oid x", "-O"),
    ("git grep -nOid x", "-O"),
    (
        "git grep --open-files-in-pager=CMD x",
        "--open-files-in-pager",
    ),
    ("git archive --exec=CMD --remote=x", "--exec"),
    ("git archive -o .git/hooks/pre-commit HEAD", "-o"),
    ("git diff --output=FILE", "--output"),
    ("git log --outp FILE", "--output"),
    ("git diff --ext-diff", "--ext-diff"),
    ("git rebase --exec CMD", "--exec"),
    ("git rebase -x CMD", "-x"),
    ("git bisect run CMD", "run"),
    ("git submodule foreach CMD", "foreach"),
    ("git filter-branch x", "filter-branch"),
    ("git difftool -x CMD", "difftool"),
    ("git config alias.x !CMD", "config"),
    ("git -c core.pager=CMD log", "-c"),
    ("git -C x status", "-C"),
    ("git --git-dir=x status", "--git-dir"),
    ("git --git-dir x status", "--git-dir"),
    ("git --config-env=core.pager=X log", "--config-env"),
    ("git --exec-path=x log", "--exec-path"),
    ("/usr/bin/git fetch --upload-pack=CMD", "--upload-pack"),
    ("g\"i\"t fetch --upload-pack=CMD", "--upload-pack"),
    ("timeout 5 git fetch --upload-pack=CMD", "--upload-pack"),
    ("git fetch $x", "$x"),
    ("git fetch *", "*"),
    ("git fetch \"$x\"", "\"$x\""),
    ("git fetch --$x", "--$x"),
    ("git fetch --upload-pack=\"$x\"", "--upload-pack"),
    ("git $x", "$x"),
    ("echo a | xargs git fetch", "…"),
    ("sort --compress-program=CMD f", "--compress-program"),
    ("sort --compress CMD f", "--compress-program"),
    ("sort -uo f f", "-o"),
    ("rg --pre CMD x", "--pre"),
    ("make --eval=x", "--eval"),
    ("make SHELL=CMD all", "SHELL="),
    ("make -- SHELL=CMD all", "SHELL="),
    ("make -- $x", "$x"),
    ("ssh -- h -oProxyCommand=CMD", "-o"),
    ("make -f x", "-f"),
    ("gmake CC=CMD", "CC="),
    ("tar xf a --to-command=CMD", "--to-command"),
    ("tar xf a --to-com CMD", "--to-command"),
    (
        "tar --checkpoint-action=exec=CMD -cf a b",
        "--checkpoint-action",
    ),
    ("tar -I CMD -xf a", "-I"),
    ("tar -xICMD -f a", "-I"),
    ("tar xIf CMD a", "-I"),
    ("tar cf a *", "*"),
    ("awk 'BEGIN{system(\"id\")}'", "BEGIN{system(\"id\")}"),
    ("awk -f x", "-f"),
    ("gawk -F: -v a=b '{print > \"x\"}' f", "{print > \"x\"}"),
    ("sed -n '1e id' f", "1e id"),
    ("sed -e p -e 's/a/id/e' f", "s/a/id/e"),
    ("sed -i s/a/b/ f", "-i"),
    ("sed -ne 'w x' f", "w x"),
    ("sed -nl 5 '1e id' f", "1e id"),
    ("sed --line-len 5 '1e id' f", "1e id"),
    ("sed --expr='1e id' f", "1e id"),
    ("awk -bv x=1 'BEGIN{system(1)}'", "BEGIN{system(1)}"),
    ("awk --assi x=1 'BEGIN{system(1)}'", "BEGIN{system(1)}"),
    ("file --compile", "--compile"),
    ("file --magic=x f", "--magic-file"),
    ("curl --expand-output x u", "-expand-"),
    ("ssh -oProxyCommand=CMD h", "-o"),
    ("ssh -F x h", "-F"),
    ("scp -S CMD a b", "-S"),
    ("rsync -e CMD a b", "-e"),
    ("rsync -ave CMD a b", "-e"),
    ("rsync --rsh=CMD a b", "--rsh"),
    ("rsync --rsync-path=CMD a b", "--rsync-path"),
    ("find . -delete", "-delete"),
    ("find . -fprintf x y", "-fprint"),
    ("cargo --config x build", "--config"),
    ("cargo build -Zx", "-Z"),
    ("npm test --script-shell=CMD", "--script-shell"),
    ("curl -o x u", "-o"),
    ("curl -fsSLo x u", "-o"),
    ("curl -K x u", "-K"),
    ("wget --use-askpass=CMD u", "--use-askpass"),
    ("zip -TT CMD a b", "-TT"),
    ("vim +!id", "+"),
    ("man -P CMD x", "-P"),
    ("tcpdump -z CMD", "-z"),
    ("python3 -c x", "-c"),
    ("python3.12 -m x", "-m"),
    ("node --eval x", "--eval"),
    ("perl -pe x", "-e"),
    ("go test -exec CMD", "-exec"),
    ("go vet --vettool=CMD", "-vettool"),
    ("gcc -wrapper CMD a.c", "-wrapper"),
    ("socat - exec:id", "EXEC:"),
    ("psql", "further operands"),
    ("mysql -h db", "further operands"),
    ("uniq a b", "further operands"),
    ("uniq - out", "further operands"),
    ("uniq -- -in -out", "further operands"),
    ("uniq -cf 1 a b", "further operands"),
    ("uniq $x", "further operands"),
    ("uniq -f $x a", "further operands"),
    ("xxd e out", "further operands"),
    ("xxd -ps - out", "further operands"),
    ("xxd -r e", "-r"),
    ("split", "further operands"),
    ("split e", "further operands"),
    ("split -", "further operands"),
    ("csplit e 1", "further operands"),
    ("sqlite3", "further operands"),
    ("sqlite3 :memory: '.shell CMD'", "further operands"),
    ("sqlite3 -readonly -- db .sh", "further operands"),
    ("docker run -v /:/x i", "-v"),
    ("docker -H x ps", "-H"),
    (
        "busybox sort --compress-program=CMD f",
        "--compress-program",
    ),
    ("python3 -m pytest -p x", "-p"),
];

const HARMLESS: &[&str] = &[
    "git status",
    "git fetch origin",
    "git log --oneline -5",
    "git log --text",
    "git commit -m \"$x\"",
    "git commit -c HEAD",
    "git --no-pager log",
    "git grep -- -O",
    "git fetch src/*",
    "git diff --stat src/$",
    "sort -u f",
    "sort -t: -k1,1 f",
    "rg --pre-glob x y",
    "rg -- --pre",
    "make all -j4",
    "make -- -f",
    "rg -- $x",
    "tar -xf a.tar",
    "tar --file=a -x",
    "awk -F: '{print $1}' f",
    "awk -vfile=x '{print file}' f",
    "sed -n 10,20p f",
    "sed s/a/b/g f",
    "sed -nE -l 5 s/a/b/p f",
    "sed --quiet --line-length=5 p f",
    "sed --expression=p f",
    "ls -o",
    "find . -name x",
    "curl -XPOST u",
    "python3 x.py",
    "cargo test -p x -- --nocapture",
    "uniq -c a",
    "uniq -f 1 a",
    "uniq -- a",
    "xxd -l 16 f",
    "xxd -ps f",
    "ssh h ls",
];

#[test]
fn a_06_an_option_that_runs_programs_or_writes_is_covered_by_no_wildcard() {
    for (line, option) in RISKY {
        check_option(line, Some(option));
        let command = single(line);
        assert_eq!(approval_prefix(&command), None, "{line}");
        let program = command.program().unwrap();
        let wide = CommandPattern::parse(&format!("{program} *")).unwrap();
        assert!(!wide.matches(&command), "{line}");
        assert!(wide.may_match(&command), "{line}");
    }
    for line in HARMLESS {
        check_option(line, None);
    }
}

#[test]
fn a_06_a_rule_that_names_the_option_covers_it() {
    for (pattern, line, covers) in [
        (
            "git fetch --upload-pack=x *",
            "git fetch --upload-pack=x origin",
            true,
        ),
        (
            "git fetch --upload-pack=* *",
            "git fetch --upload-pack=y origin",
            true,
        ),
        ("git fetch *", "git fetch --upload-pack=y origin", false),
        ("git -C sub *", "git -C sub status", true),
        ("git -C sub *", "git -C sub -c a=b status", false),
        ("git config *", "git config a b", true),
        ("tar -I zstd *", "tar -I zstd -xf a", true),
        ("tar *", "tar -I zstd -xf a", false),
        ("make CC=* *", "make CC=clang all", true),
        ("make *", "make CC=clang all", false),
        ("python3 -c *", "python3 -c x", true),
        ("*", "git fetch --upload-pack=y", true),
        ("git clone -quCMD *", "git clone -quCMD x", true),
        (
            "ssh -oStrictHostKeyChecking=no *",
            "ssh -oStrictHostKeyChecking=no h",
            true,
        ),
        ("git -C * status", "git -C sub status", true),
        ("find * -delete", "find . -name x -delete", true),
        ("npx *", "npx eslint", true),
        ("uniq a b", "uniq a b", true),
        ("uniq a b *", "uniq a b", true),
        ("uniq -c *", "uniq -c a", true),
        ("split -l 10 f", "split -l 10 f", true),
        ("split", "split", true),
        ("sqlite3 db 'select 1'", "sqlite3 db 'select 1'", true),
    ] {
        let pattern = CommandPattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&single(line)), covers, "{pattern:?} {line}");
        assert!(!covers || pattern.find_uncovered_option(&single(line)).is_none());
    }
}

#[test]
fn a_06_a_wildcard_covers_no_further_occurrence_of_an_option_that_the_rule_names() {
    for (pattern, line, option) in [
        (
            "git -c color.ui=never *",
            "git -c color.ui=never -c alias.x='!CMD' x",
            "-c",
        ),
        (
            "git -c *",
            "git -c color.ui=never -c alias.x='!CMD' x",
            "-c",
        ),
        ("git -C sub *", "git -C sub -C /evil status", "-C"),
        (
            "git -C sub *",
            "git -C sub --git-dir=/evil status",
            "--git-dir",
        ),
        ("git -C sub* *", "git -C sub -C /evil status", "-C"),
        ("git -C * status", "git -C sub -C /evil status", "-C"),
        ("git * -C sub *", "git -C /evil log -C sub x", "-C"),
        ("git -*", "git -C sub status", "-C"),
        (
            "ssh -oBatchMode=yes *",
            "ssh -oBatchMode=yes -oProxyCommand=sh h",
            "-o",
        ),
        (
            "ssh -oBatchMode=yes *",
            "ssh -oBatchMode=yes -vo ProxyCommand=sh h",
            "-o",
        ),
        (
            "ssh -oBatchMode=yes *",
            "ssh -oBatchMode=yes h -o ProxyCommand=sh",
            "-o",
        ),
        ("make -C sub *", "make -C sub -C /evil", "-C"),
        ("make -C sub *", "make -C sub -f /evil", "-f"),
        ("make -C sub *", "make -C sub --direc=/evil", "--directory"),
        ("make -C sub *", "make -C sub \"$x\"", "\"$x\""),
        ("make * -f ok.mk *", "make x -f evil.mk -f ok.mk y", "-f"),
        ("make * -f ok.mk *", "make 'x -f ok.mk y' -f evil.mk", ""),
        ("make CC=clang *", "make CC=clang CC=evil", "CC="),
        ("make CC=* *", "make CC=clang SHELL=evil", "SHELL="),
        (
            "npm --prefix=sub *",
            "npm --prefix=sub run x --prefix=/evil",
            "--prefix",
        ),
        (
            "npm --prefix=sub *",
            "npm --prefix=sub run x --prefi /evil",
            "--prefix",
        ),
        (
            "git fetch --upload*",
            "git fetch --upload-pack=CMD",
            "--upload-pack",
        ),
        ("tar -x*", "tar -xICMD -f a", "-I"),
        ("tar xf *", "tar xf a --to-command=CMD", "--to-command"),
        ("sed -e p *", "sed -e p -e '1e id' f", "1e id"),
        ("python3 -m pytest *", "python3 -m pytest -p x", "-p"),
        ("uniq *", "uniq a b", "further operands"),
        ("uniq a *", "uniq a b", "further operands"),
        ("uniq a b *", "uniq a b c", "further operands"),
        ("uniq * out", "uniq a b out", "further operands"),
        ("split *", "split", "further operands"),
        (
            "sqlite3 db *",
            "sqlite3 db '.shell CMD'",
            "further operands",
        ),
    ] {
        let pattern = CommandPattern::parse(pattern).unwrap();
        let command = single(line);
        assert!(!pattern.matches(&command), "{pattern:?} {line}");
        let uncovered = pattern.find_uncovered_option(&command);
        let uncovered = uncovered.map(|one| one.option).unwrap_or_default();
        assert_eq!(uncovered, option, "{pattern:?} {line}");
    }
}

#[test]
fn a_command_depends_on_its_directory_if_its_program_script_or_settings_do() {
    for (line, depends) in [
        ("./build.sh x", true),
        ("bin/tool", true),
        ("../tool", true),
        ("/usr/bin/tool", false),
        ("~/bin/tool", false),
        ("tool x", false),
        ("ls x", false),
        ("python3 run.py", true),
        ("python3.12 -u run.py", true),
        ("python3 -m pytest", true),
        ("/usr/bin/python3 run.py", true),
        ("python3 /srv/run.py", false),
        ("python3", false),
        ("node \"$x\"", true),
        ("bash run.sh -c", true),
        ("bash -x run.sh", true),
        ("bash -c /srv/tool", false),
        ("bash -c ./tool", true),
        ("source env.sh", true),
        (". ./env.sh", true),
        ("make", true),
        ("git log", true),
        ("git-log", true),
        ("just", true),
        ("npx eslint", true),
        ("mvn test", true),
    ] {
        assert_eq!(single(line).depends_on_directory(), depends, "{line}");
    }
    for (line, changes) in [
        ("cd sub", true),
        ("command cd sub", true),
        ("bash -c 'cd sub'", true),
        ("pushd sub", true),
        ("chdir sub", true),
        ("popd", true),
        ("$x sub", true),
        ("env -C sub make", true),
        ("env -iC sub make", true),
        ("env --chdir=sub make", true),
        ("sudo -D sub make", true),
        ("sudo -i make", true),
        ("find . -execdir make ';'", true),
        ("env A=b make", false),
        ("find . -exec make ';'", false),
        ("make", false),
    ] {
        let script = parse(line).unwrap();
        let changed = script.commands.iter().any(SimpleCommand::changes_directory);
        assert_eq!(changed, changes, "{line}");
    }
}

#[test]
fn a_07_a_denied_subcommand_is_found_past_the_options_of_its_program() {
    let push = [
        "git push",
        "git push origin",
        "git -C . push",
        "git --no-pager push",
        "git -c a=b push",
        "git --git-dir=.git push",
        "git --git-dir .git --work-tree . push origin",
        "git -p -c a=b -C x push",
        "git -c alias.p=push p",
        "git p",
        "git $x",
        "env A=b git -C . push",
        "timeout 5 git -C . push",
        "nice -n 5 git --no-pager push",
        "command git -C . push",
        "builtin command git -C . push",
        "exec git -C . push",
        "echo x | xargs git -C . push",
        "bash -c 'git -C . push'",
        "/usr/bin/git -C . push",
        "\\git -C . push",
        "g\"i\"t -C . push",
        "git-push origin",
        "/usr/lib/git-core/git-push origin",
        "GIT -C . push",
    ];
    let deny = CommandPattern::parse("git push *").unwrap();
    for line in push {
        assert!(deny.may_match(&single(line)), "{line}");
    }
    for line in [
        "git status",
        "git -C . status",
        "git commit -m push",
        "git log -- push",
        "git stash push",
        "ls push",
        "git -C push status",
    ] {
        assert!(!deny.may_match(&single(line)), "{line}");
    }
    for (pattern, line, denied) in [
        ("git push --force *", "git push origin main --force", true),
        ("git push --force *", "git push --forc origin", true),
        ("git push --force *", "git push origin", false),
        ("rm -rf *", "rm -r -f x", true),
        ("rm -rf *", "rm -fr x", true),
        ("rm -rf *", "rm -r x", false),
        ("docker run *", "docker --context x run y", true),
        ("docker run *", "docker container run y", true),
        ("npm publish *", "npm --loglevel silent publish", true),
        ("npm install *", "npm i x", true),
        ("cargo run *", "cargo +nightly -q r", true),
        ("make install *", "make -j4 all install", true),
        ("make install *", "make CC=x install", true),
        ("pip install *", "python3 -m pip install x", true),
        ("kubectl delete *", "kubectl -n prod delete pod x", true),
        ("kubectl delete *", "kubectl get delete", false),
        ("git * --force", "git -C . push --force", true),
        ("git push", "git --no-pager push -q", true),
        ("git push", "git --no-pager push origin", false),
    ] {
        let pattern = CommandPattern::parse(pattern).unwrap();
        let command = single(line);
        assert_eq!(pattern.may_match(&command), denied, "{pattern:?} {line}");
    }
}

#[test]
fn long_option_lists_are_checked_in_linear_time() {
    let many = format!("foo {} push", "-a b ".repeat(2_000));
    let flags = format!("git {} push", "-a ".repeat(4_000));
    let deny = CommandPattern::parse("git push x y z *").unwrap();
    for line in [many, flags] {
        let command = single(&line);
        assert!(find_risky_options(&command).len() < 3);
        assert!(!deny.may_match(&command) || command.program() == Some("git"));
    }
}

//! Tests of approval prefixes, read-only detection and danger warnings.

use super::*;
use expect_test::expect;

fn table(lines: &str, classify: impl Fn(&Script) -> String, expect: Expect) {
    let mut out = String::new();
    for (row, line) in rows(lines) {
        let refused = |unparsed: UnparsedCommand| format!("? {}", unparsed.reason);
        let verdict = parse(&line).map_or_else(refused, |script| classify(&script));
        let _ = writeln!(out, "{row:34} {verdict}");
    }
    expect.assert_eq(&out);
}

#[test]
fn an_approval_prefix_ends_before_the_first_flag_or_argument() {
    table(
        r##"
            git status -s
            git
            git -c x=y log
            git push origin main
            git rebase -i
            git bisect run x
            cargo test -p x
            cargo
            npm run build
            npm run
            npm install x
            npm exec x
            npm run $x
            ls -la
            rm -rf x
            chmod 777 x
            dd if=a of=b
            mkfs.ext4 x
            kill 1
            bash x
            sh -c ls
            sudo ls
            env ls
            xargs ls
            ssh h
            docker run x
            docker ps
            python x
            python3.12 x
            node x
            perl x
            find . -name x
            awk x
            ./ls
            /bin/ls
            $x y
            {a,b}
            PATH=x ls
            LANG=C ls
            a=b
            make build
            timeout 5 ls
            go test ./...
            go run x
            kubectl get pods
            kubectl delete x
            sed -n 1p x
            cargo $x
            Rm x
            PYTHON x
            export A=b
            curl x
            git checkout .
            make
        "##,
        |script| {
            script
                .commands
                .first()
                .and_then(approval_prefix)
                .map_or("-".to_owned(), |words| words.join(" "))
        },
        expect![[r#"
            git status -s                      git status
            git                                -
            git -c x=y log                     -
            git push origin main               -
            git rebase -i                      -
            git bisect run x                   -
            cargo test -p x                    cargo test
            cargo                              -
            npm run build                      npm run build
            npm run                            -
            npm install x                      npm install
            npm exec x                         -
            npm run $x                         -
            ls -la                             ls
            rm -rf x                           -
            chmod 777 x                        -
            dd if=a of=b                       -
            mkfs.ext4 x                        -
            kill 1                             -
            bash x                             -
            sh -c ls                           -
            sudo ls                            -
            env ls                             -
            xargs ls                           -
            ssh h                              -
            docker run x                       -
            docker ps                          docker ps
            python x                           -
            python3.12 x                       -
            node x                             -
            perl x                             -
            find . -name x                     -
            awk x                              -
            ./ls                               -
            /bin/ls                            -
            $x y                               -
            {a,b}                              -
            PATH=x ls                          -
            LANG=C ls                          ls
            a=b                                -
            make build                         make build
            timeout 5 ls                       -
            go test ./...                      go test
            go run x                           -
            kubectl get pods                   kubectl get
            kubectl delete x                   -
            sed -n 1p x                        -
            cargo $x                           -
            Rm x                               -
            PYTHON x                           -
            export A=b                         -
            curl x                             -
            git checkout .                     -
            make                               -
        "#]],
    );
}

#[test]
fn only_known_commands_with_known_flags_are_read_only() {
    table(
        r##"
            ls -la
            cat f
            cat $f
            cat f > g
            cat f > /dev/null
            cat f 2>&1 | head -5
            git status
            git log --oneline -5
            git diff HEAD~1
            git diff --output=x
            git diff --outp=x
            git -c a=b log
            git -C x status
            git commit
            git branch x
            git log $x
            git show --ext-diff
            git grep -O x
            rg x
            rg --pre x y
            rg --pre=x y
            rg $x
            sort f
            sort -o f f
            sort -uo f f
            sort --outp=f g
            sort $x
            find . -name '*.rs'
            find . -delete
            find . -exec cat {} +
            find . -fprint x
            find . -name *.c
            sed -n 1p f
            sed -i s/a/b/ f
            awk 1 f
            ls; rm x
            ls $(rm x)
            ls $(pwd)
            ls && cat f || echo n
            xargs cat
            xargs rg x
            xargs rm
            timeout 5 ls
            timeout 5 rm x
            sudo ls
            env ls
            bash -c ls
            ./ls
            /bin/ls
            PATH=x ls
            LANG=C ls
            x=1
            cd x && ls
            [ -f x ]
            [ -v x ]
            test -f x
            date
            date -s x
            date 01010000
            date +%s
            fd x
            fd -x rm
            jq . f
            tee f
            curl x
            echo x | sh
            f() { ls; }; f
            time ls
            nohup ls
            if ls; then pwd; fi
            tree -o f
            for x in a b; do cat $x; done
            echo x > f
            while true; do ls; done
            cargo build
            uniq a b
            tail -f x
            command -v ls
            $x
            cd x && git status
            cat < /dev/tcp/a/1
            cat < $x
            cat < f
            ls -la # rm
        "##,
        |script| if is_read_only(script) { "looks" } else { "-" }.to_owned(),
        expect![[r#"
            ls -la                             looks
            cat f                              looks
            cat $f                             looks
            cat f > g                          -
            cat f > /dev/null                  looks
            cat f 2>&1 | head -5               looks
            git status                         looks
            git log --oneline -5               looks
            git diff HEAD~1                    looks
            git diff --output=x                -
            git diff --outp=x                  -
            git -c a=b log                     -
            git -C x status                    -
            git commit                         -
            git branch x                       -
            git log $x                         -
            git show --ext-diff                -
            git grep -O x                      -
            rg x                               looks
            rg --pre x y                       -
            rg --pre=x y                       -
            rg $x                              -
            sort f                             looks
            sort -o f f                        -
            sort -uo f f                       -
            sort --outp=f g                    -
            sort $x                            -
            find . -name '*.rs'                looks
            find . -delete                     -
            find . -exec cat {} +              -
            find . -fprint x                   -
            find . -name *.c                   -
            sed -n 1p f                        -
            sed -i s/a/b/ f                    -
            awk 1 f                            -
            ls; rm x                           -
            ls $(rm x)                         -
            ls $(pwd)                          looks
            ls && cat f || echo n              looks
            xargs cat                          looks
            xargs rg x                         -
            xargs rm                           -
            timeout 5 ls                       looks
            timeout 5 rm x                     -
            sudo ls                            -
            env ls                             -
            bash -c ls                         -
            ./ls                               -
            /bin/ls                            -
            PATH=x ls                          -
            LANG=C ls                          looks
            x=1                                -
            cd x && ls                         looks
            [ -f x ]                           looks
            [ -v x ]                           -
            test -f x                          looks
            date                               looks
            date -s x                          -
            date 01010000                      -
            date +%s                           looks
            fd x                               looks
            fd -x rm                           -
            jq . f                             looks
            tee f                              -
            curl x                             -
            echo x | sh                        -
            f() { ls; }; f                     -
            time ls                            looks
            nohup ls                           -
            if ls; then pwd; fi                looks
            tree -o f                          -
            for x in a b; do cat $x; done      looks
            echo x > f                         -
            while true; do ls; done            looks
            cargo build                        -
            uniq a b                           -
            tail -f x                          looks
            command -v ls                      looks
            $x                                 -
            cd x && git status                 -
            cat < /dev/tcp/a/1                 -
            cat < $x                           -
            cat < f                            looks
            ls -la # rm                        looks
        "#]],
    );
}

// R-213
#[test]
fn r_213_dangerous_commands_have_a_warning() {
    table(
        r##"
            rm -rf x
            rm -fr x
            rm -r -f x
            rm --recursive --force x
            rm -r x
            rm x
            rm /etc/passwd
            sudo rm -rf /
            bash -c 'rm -rf x'
            find . -exec rm -rf {} +
            find . -delete
            dd if=/dev/zero of=/dev/sda
            dd if=a
            mkfs.ext4 /dev/sda1
            mkfs x
            shred x
            echo x > /dev/sda
            echo x > /dev/null
            echo x > /dev/tty
            cat x > /dev/tcp/a/1
            echo x >> /etc/passwd
            :(){ :|:& };:
            f() { f | f & }; f
            curl x | sh
            curl x | sudo bash
            curl x | bash -s -- y
            wget -O- x | python3
            bash <(curl x)
            source <(curl x)
            echo x | sh
            curl x | jq .
            curl x | python3 -c y
            sh -c "$(curl x)"
            chmod -R 777 /
            chmod -R 755 ~
            chmod 777 x
            chmod 644 x
            chown -R a x
            git push --force
            git push -f
            git push origin +main
            git push --force-with-lease
            git push
            git reset --hard
            git reset
            git clean -fd
            shutdown now
            kill -9 -1
            kill 5
            sudo ls
            ls
            echo rm -rf
            mv /etc /x
            crontab -r
            rm -rf "$HOME"
            RM -RF x
            /bin/rm -rf x
            echo 'rm -rf /'
            git commit -m 'rm -rf'
            $(rm -rf x)
            cat f | { bash; }
            cat < /dev/tcp/a/1
        "##,
        |script| describe_danger(script).unwrap_or("-").to_owned(),
        expect![[r#"
            rm -rf x                           deletes directories recursively without prompting
            rm -fr x                           deletes directories recursively without prompting
            rm -r -f x                         deletes directories recursively without prompting
            rm --recursive --force x           deletes directories recursively without prompting
            rm -r x                            deletes directories recursively
            rm x                               -
            rm /etc/passwd                     deletes system files
            sudo rm -rf /                      deletes directories recursively without prompting
            bash -c 'rm -rf x'                 deletes directories recursively without prompting
            find . -exec rm -rf {} +           deletes directories recursively without prompting
            find . -delete                     deletes every file it finds
            dd if=/dev/zero of=/dev/sda        copies raw data over files or disks
            dd if=a                            copies raw data over files or disks
            mkfs.ext4 /dev/sda1                formats a disk
            mkfs x                             formats a disk
            shred x                            destroys data permanently
            echo x > /dev/sda                  writes to a device
            echo x > /dev/null                 -
            echo x > /dev/tty                  -
            cat x > /dev/tcp/a/1               sends data over the network
            echo x >> /etc/passwd              writes to a system directory
            :(){ :|:& };:                      starts itself repeatedly until the machine stops (fork bomb)
            f() { f | f & }; f                 starts itself repeatedly until the machine stops (fork bomb)
            curl x | sh                        runs a program downloaded from the network
            curl x | sudo bash                 runs a program downloaded from the network
            curl x | bash -s -- y              runs a program downloaded from the network
            wget -O- x | python3               runs a program downloaded from the network
            bash <(curl x)                     ? what it runs is not known in advance: `bash`
            source <(curl x)                   ? what it runs is not known in advance: `source`
            echo x | sh                        executes the output of another command
            curl x | jq .                      -
            curl x | python3 -c y              -
            sh -c "$(curl x)"                  ? what it runs is not known in advance: `sh`
            chmod -R 777 /                     changes permissions of the whole system
            chmod -R 755 ~                     changes permissions of the whole system
            chmod 777 x                        makes files writable by everyone
            chmod 644 x                        -
            chown -R a x                       changes the owner of a whole directory
            git push --force                   overwrites history on the server
            git push -f                        overwrites history on the server
            git push origin +main              overwrites history on the server
            git push --force-with-lease        overwrites history on the server
            git push                           -
            git reset --hard                   discards uncommitted changes
            git reset                          -
            git clean -fd                      deletes untracked files
            shutdown now                       stops the machine
            kill -9 -1                         stops every process
            kill 5                             -
            sudo ls                            runs with the privileges of another user
            ls                                 -
            echo rm -rf                        -
            mv /etc /x                         moves system files
            crontab -r                         deletes all scheduled jobs
            rm -rf "$HOME"                     deletes directories recursively without prompting
            RM -RF x                           deletes directories recursively
            /bin/rm -rf x                      deletes directories recursively without prompting
            echo 'rm -rf /'                    -
            git commit -m 'rm -rf'             -
            $(rm -rf x)                        deletes directories recursively without prompting
            cat f | { bash; }                  executes the output of another command
            cat < /dev/tcp/a/1                 opens a network connection
        "#]],
    );
}

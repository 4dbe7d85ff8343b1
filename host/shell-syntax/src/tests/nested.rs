//! Tests of substitutions, wrappers and here-documents.

use super::*;
use expect_test::expect;

#[test]
fn substitutions_are_parsed_as_commands() {
    check(
        r##"
            echo $(a b)
            echo "$(a "$(b)")"
            echo `a \`b\``
            echo "`a`"
            echo "`a \"b\"`"
            echo `a 'b\⏎'`
            echo $(a; b | c)
            echo $(a # c⏎)
            echo $(case x in x) a;; esac)
            echo '$(a)' "\$(a)" \$(a
            echo $( (a) )
            echo $((a) )
            echo $((a);(b))
            $(a)
            x=$(a)
            x=$(a) b
            for x in $(a); do b; done
            case $(a) in $(b)) c;; esac
            a > $(b)
            f() { $(a); }
            a=($(b))
            a=([$(b)]=1)
            a[$(b)]=1
            a[1]=2
            echo ${x:-`a`}
            echo "${x:-'a'}"
            echo ${x:-<(a)}
            echo $()
            echo $(⏎a⏎)
        "##,
        expect![[r#"
            echo $(a b)
                echo «$(a b)» | ($(…)) a b
            echo "$(a "$(b)")"
                echo «"$(a "$(b)")"» | ($(…)) a «"$(b)"» | ($(…) $(…)) b
            echo `a \`b\``
                echo «`a \`b\``» | (`…`) a «`b`» | (`…` `…`) b
            echo "`a`"
                echo «"`a`"» | (`…`) a
            echo "`a \"b\"`"
                ? an escaped quote inside backquotes inside quotes
            echo `a 'b\⏎'`
                echo «`a 'b\\n'`» | (`…`) a b
            echo $(a; b | c)
                echo «$(a; b | c)» | ($(…)) a | ($(…)) b | ($(…)) c
            echo $(a # c⏎)
                echo «$(a # c\n)» | ($(…)) a
            echo $(case x in x) a;; esac)
                echo «$(case x in x) a;; esac)» | ($(…)) a
            echo '$(a)' "\$(a)" \$(a
                ? unexpected `(`
            echo $( (a) )
                echo «$( (a) )» | ($(…)) a
            echo $((a) )
                ? arithmetic on variables can run commands
            echo $((a);(b))
                ? arithmetic on variables can run commands
            $(a)
                «$(a)» | ($(…)) a
            x=$(a)
                x=  | ($(…)) a
            x=$(a) b
                x= b | ($(…)) a
            for x in $(a); do b; done
                ($(…)) a | b
            case $(a) in $(b)) c;; esac
                ($(…)) a | ($(…)) b | c
            a > $(b)
                a | ($(…)) b | > «$(b)»
            f() { $(a); }
                «$(a)» | ($(…)) a
            a=($(b))
                a=  | ($(…)) b
            a=([$(b)]=1)
                ? the index is evaluated in `[]=1`
            a[$(b)]=1
                ? the index is evaluated in `a[`
            a[1]=2
                ? the index is evaluated in `a[1]`
            echo ${x:-`a`}
                echo «${x:-`a`}» | (`…`) a
            echo "${x:-'a'}"
                ? quotes inside `"${…}"`
            echo ${x:-<(a)}
                ? a process substitution inside `${…}`
            echo $()
                echo «$()»
            echo $(⏎a⏎)
                echo «$(\na\n)» | ($(…)) a
        "#]],
    );
}

#[test]
fn wrappers_and_what_they_wrap_are_both_commands() {
    check(
        r##"
            bash -c 'rm x'
            sh -ec 'a; b'
            bash -lc "a"
            bash -o pipefail -c 'a'
            bash -c -x 'a' b
            bash -c "$x"
            bash -c
            bash $x a
            bash a.sh b
            bash
            /bin/sh -c a
            bash --rcfile f -c a
            bash -c 'a $1' x
            bash <<E⏎rm x⏎E
            bash <<E⏎$x⏎E
            sudo bash -s <<'E'⏎rm x⏎E
            bash <<< 'rm x'
            bash <<< $x
            fish -c 'rm x'
            eval rm x
            eval 'a; b' c
            eval $x
            trap 'rm x' EXIT
            trap - EXIT
            sudo rm x
            sudo -u root -E X=1 rm x
            sudo --user=root rm
            sudo --user root rm
            sudo --new rm
            sudo -e f
            sudo $x rm
            sudo -uroot rm
            sudo
            doas rm
            env
            env rm
            env -i A=1 PATH=x rm y
            env - rm
            env -u X rm
            env -S 'rm x'
            env -- rm
            xargs
            xargs rm
            ls | xargs -n 1 rm -f
            xargs -I{} mv {} x
            xargs -I % sh -c 'rm %'
            xargs sh -c 'rm "$@"' _
            xargs -0 sh -c
            timeout 5 rm
            timeout -s KILL 5s rm x
            timeout --kill-after=1 5 rm
            timeout $t rm
            nice rm
            nice -n 5 rm
            nice -10 rm
            nohup rm &
            time rm
            watch rm x
            watch -n 1 'a | b'
            watch -x rm $y
            find . -exec rm {} +
            find . -exec rm {} \; -o -execdir a ';'
            find . -name '*.rs' -delete
            find . -exec sh -c 'rm {}' \;
            find . -exec rm
            find $x
            find . -name *.c
            command rm
            command -v rm
            exec rm
            exec -a x rm
            exec > f
            busybox rm x
            busybox sh -c 'rm x'
            stdbuf -oL rm
            stdbuf -o L rm
            setsid rm
            builtin cd
            sudo env timeout 5 nice rm x
            strace rm x
            flock f rm
            su -c rm
            alias ls=rm
            let x=1
            hash -p x ls
            enable -f x y
            printf -v 'a[$(rm)]' x
            test -v 'a[`rm`]'
            mapfile -C rm x
            time ! rm
        "##,
        expect![[r#"
            bash -c 'rm x'
                bash -c "rm x" | (bash -c) rm x
            sh -ec 'a; b'
                sh -ec "a; b" | (sh -c) a | (sh -c) b
            bash -lc "a"
                bash -lc a | (bash -c) a
            bash -o pipefail -c 'a'
                bash -o pipefail -c a | (bash -c) a
            bash -c -x 'a' b
                bash -c -x a b | (bash -c) a
            bash -c "$x"
                ? what it runs is not known in advance: `bash`
            bash -c
                ? what it runs is not known in advance: `bash -c`
            bash $x a
                ? what it runs is not known in advance: `bash`
            bash a.sh b
                bash a.sh b
            bash
                bash
            /bin/sh -c a
                /bin/sh -c a | (sh -c) a
            bash --rcfile f -c a
                bash --rcfile f -c a | (bash -c) a
            bash -c 'a $1' x
                bash -c "a $1" x | (bash -c) a «$1»
            bash <<E⏎rm x⏎E
                bash | (<<) rm x
            bash <<E⏎$x⏎E
                ? a shell reads a here-document that is not known in advance
            sudo bash -s <<'E'⏎rm x⏎E
                sudo bash -s | (sudo) bash -s | (<<) rm x
            bash <<< 'rm x'
                bash | (<<<) rm x
            bash <<< $x
                ? a shell reads `$x`
            fish -c 'rm x'
                ? it is not known what is run by `fish`
            eval rm x
                eval rm x | (eval) rm x
            eval 'a; b' c
                eval "a; b" c | (eval) a | (eval) b c
            eval $x
                ? what it runs is not known in advance: `eval`
            trap 'rm x' EXIT
                trap "rm x" EXIT | (trap) rm x
            trap - EXIT
                trap - EXIT
            sudo rm x
                sudo rm x | (sudo) rm x
            sudo -u root -E X=1 rm x
                sudo -u root -E X=1 rm x | (sudo) X= rm x
            sudo --user=root rm
                sudo --user=root rm | (sudo) rm
            sudo --user root rm
                sudo --user root rm | (sudo) rm
            sudo --new rm
                ? unknown option: `sudo --new`
            sudo -e f
                ? unknown option: `sudo -e`
            sudo $x rm
                ? the program it runs is not known in advance: `sudo`
            sudo -uroot rm
                sudo -uroot rm | (sudo) rm
            sudo
                sudo
            doas rm
                doas rm | (doas) rm
            env
                env
            env rm
                env rm | (env) rm
            env -i A=1 PATH=x rm y
                env -i A=1 PATH=x rm y | (env) A= PATH= rm y
            env - rm
                env - rm | (env) rm
            env -u X rm
                env -u X rm | (env) rm
            env -S 'rm x'
                ? unknown option: `env -S`
            env -- rm
                env -- rm | (env) rm
            xargs
                xargs
            xargs rm
                xargs rm | (xargs) rm «…»
            ls | xargs -n 1 rm -f
                ls | xargs -n 1 rm -f | (xargs) rm -f «…»
            xargs -I{} mv {} x
                xargs -I{} mv {} x | (xargs) mv «{}» x
            xargs -I % sh -c 'rm %'
                ? what it runs is not known in advance: `sh`
            xargs sh -c 'rm "$@"' _
                xargs sh -c "rm \"$@\"" _ | (xargs) sh -c "rm \"$@\"" _ «…» | (xargs sh -c) rm «"$@"»
            xargs -0 sh -c
                ? what it runs is not known in advance: `sh`
            timeout 5 rm
                timeout 5 rm | (timeout) rm
            timeout -s KILL 5s rm x
                timeout -s KILL 5s rm x | (timeout) rm x
            timeout --kill-after=1 5 rm
                timeout --kill-after=1 5 rm | (timeout) rm
            timeout $t rm
                ? the program it runs is not known in advance: `timeout`
            nice rm
                nice rm | (nice) rm
            nice -n 5 rm
                nice -n 5 rm | (nice) rm
            nice -10 rm
                nice -10 rm | (nice) rm
            nohup rm &
                nohup rm | (nohup) rm
            time rm
                time rm | (time) rm
            watch rm x
                watch rm x | (watch) rm x
            watch -n 1 'a | b'
                watch -n 1 "a | b" | (watch) a | (watch) b
            watch -x rm $y
                ? what it runs is not known in advance: `watch`
            find . -exec rm {} +
                find . -exec rm {} + | (find -exec) rm «{}»
            find . -exec rm {} \; -o -execdir a ';'
                find . -exec rm {} ; -o -execdir a ; | (find -execdir) a | (find -exec) rm «{}»
            find . -name '*.rs' -delete
                find . -name *.rs -delete
            find . -exec sh -c 'rm {}' \;
                ? what it runs is not known in advance: `sh`
            find . -exec rm
                ? unterminated command of `-exec`
            find $x
                ? what it runs is not known in advance: `find`
            find . -name *.c
                find . -name «*.c»
            command rm
                command rm | (command) rm
            command -v rm
                command -v rm
            exec rm
                exec rm | (exec) rm
            exec -a x rm
                exec -a x rm | (exec) rm
            exec > f
                exec | > f
            busybox rm x
                busybox rm x | (busybox) rm x
            busybox sh -c 'rm x'
                busybox sh -c "rm x" | (busybox) sh -c "rm x" | (busybox sh -c) rm x
            stdbuf -oL rm
                stdbuf -oL rm | (stdbuf) rm
            stdbuf -o L rm
                stdbuf -o L rm | (stdbuf) rm
            setsid rm
                setsid rm | (setsid) rm
            builtin cd
                builtin cd | (builtin) cd
            sudo env timeout 5 nice rm x
                sudo env timeout 5 nice rm x | (sudo) env timeout 5 nice rm x | (sudo env) timeout 5 nice rm x | (sudo env timeout) nice rm x | (sudo env timeout nice) rm x
            strace rm x
                ? it is not known what is run by `strace`
            flock f rm
                ? it is not known what is run by `flock`
            su -c rm
                ? it is not known what is run by `su`
            alias ls=rm
                ? later commands may change their meaning after `alias`
            let x=1
                ? later commands may change their meaning after `let`
            hash -p x ls
                ? later commands may change their meaning after `hash`
            enable -f x y
                ? later commands may change their meaning after `enable`
            printf -v 'a[$(rm)]' x
                ? an index is evaluated by `printf`
            test -v 'a[`rm`]'
                ? an index is evaluated by `test`
            mapfile -C rm x
                ? it is not known what is run by `mapfile`
            time ! rm
                ? a command named `!`
        "#]],
    );
}

#[test]
fn here_documents_expand_unless_their_delimiter_is_quoted() {
    check(
        r##"
            cat <<E⏎rm x⏎E
            cat <<E⏎$(rm x) `rm y` $z⏎E⏎ls
            cat <<'E'⏎$(rm x)⏎E
            cat <<"E"⏎$(rm x)⏎E
            cat <<\E⏎$(rm x)⏎E
            cat <<E⏎\$(rm x)⏎E
            cat <<-E⏎⇥a⏎⇥E⏎ls
            cat <<E
            cat <<E⏎a
            cat <<E⏎a\⏎E⏎E
            cat <<E'F'⏎EF
            cat <<$x⏎a⏎$x
            cat <<E <<F⏎1⏎E⏎2⏎F⏎ls
            cat <<E | wc⏎a⏎E
            cat <<E; ls⏎a⏎E⏎pwd
            (cat <<E⏎a⏎E⏎)
            cat <<E)
            git commit -m "$(cat <<'E'⏎it's (fine)⏎⏎E⏎)"
            echo $(cat <<E)
            cat <<E $(a⏎b)⏎E
            cat <<E "x⏎y"⏎E
            cat <<E⏎" ' (⏎E
            cat <<E⏎${x:-$(rm y)}⏎E
            cat <<''⏎
        "##,
        expect![[r#"
            cat <<E⏎rm x⏎E
                cat
            cat <<E⏎$(rm x) `rm y` $z⏎E⏎ls
                cat | (<< $(…)) rm x | (<< `…`) rm y | ls
            cat <<'E'⏎$(rm x)⏎E
                cat
            cat <<"E"⏎$(rm x)⏎E
                cat
            cat <<\E⏎$(rm x)⏎E
                cat
            cat <<E⏎\$(rm x)⏎E
                cat
            cat <<-E⏎⇥a⏎⇥E⏎ls
                cat | ls
            cat <<E
                ? a here-document has no body
            cat <<E⏎a
                ? a here-document never reaches its delimiter `E`
            cat <<E⏎a\⏎E⏎E
                ? a line of a here-document ends in a backslash
            cat <<E'F'⏎EF
                ? unsupported here-document delimiter `E'F'`
            cat <<$x⏎a⏎$x
                ? unsupported here-document delimiter `$x`
            cat <<E <<F⏎1⏎E⏎2⏎F⏎ls
                cat | ls
            cat <<E | wc⏎a⏎E
                cat | wc
            cat <<E; ls⏎a⏎E⏎pwd
                cat | ls | pwd
            (cat <<E⏎a⏎E⏎)
                cat
            cat <<E)
                ? unexpected `)`
            git commit -m "$(cat <<'E'⏎it's (fine)⏎⏎E⏎)"
                git commit -m «"$(cat <<'E'\nit's (fine)\n\nE\n)"» | ($(…)) cat
            echo $(cat <<E)
                ? a here-document has no body
            cat <<E $(a⏎b)⏎E
                ? a substitution spans the line of a here-document
            cat <<E "x⏎y"⏎E
                ? a quoted newline precedes a here-document's body
            cat <<E⏎" ' (⏎E
                cat
            cat <<E⏎${x:-$(rm y)}⏎E
                cat | (<< $(…)) rm y
            cat <<''⏎
                ? unsupported here-document delimiter `''`
        "#]],
    );
}

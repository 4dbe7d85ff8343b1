//! Tests of ordinary command lines.

use super::*;
use expect_test::expect;

#[test]
fn quotes_are_removed_and_expansions_are_dynamic() {
    check(
        r##"
            ls -la
            echo 'a b' "c d" e\ f
            echo 'it'\''s'
            echo a"b"'c'd
            echo "" ''
            echo "a\$b \"q\" \x"
            echo $x "$x" ${x} "${x:-y}" a$1b $$ $? $@
            echo $(date) `date`
            echo *.rs a?b [ab]c x[1]
            echo {} {a,b} {1..3} a{} x{y}
            echo ~ ~/x ~root ~+ ~"x" '~/x' a~b \~
            echo $'a' $'a\nb' $'\'' $'a\\'
            echo $"a"
            echo $ a$ $% "$"
            echo a#b #c
            # only a comment
            echo a\⏎b \⏎ c
            echo 'a\⏎b'
            echo "a⏎b"
            echo $((1+2)) $(( (1) ))
            echo $((x+1))
            echo $[1]
            echo ${x@P}
            echo ${!x}
            echo ${x:1:2}
            echo ${#x} ${x%.rs} ${x##*/} ${x/a/b}
            echo "${x:-$(rm y)}"
            echo !x a=b --c=d
            echo é 日本
        "##,
        expect![[r#"
            ls -la
                ls -la
            echo 'a b' "c d" e\ f
                echo "a b" "c d" "e f"
            echo 'it'\''s'
                echo it's
            echo a"b"'c'd
                echo abcd
            echo "" ''
                echo "" ""
            echo "a\$b \"q\" \x"
                echo "a$b \"q\" \\x"
            echo $x "$x" ${x} "${x:-y}" a$1b $$ $? $@
                echo «$x» «"$x"» «${x}» «"${x:-y}"» «a$1b» «$$» «$?» «$@»
            echo $(date) `date`
                echo «$(date)» «`date`» | ($(…)) date | (`…`) date
            echo *.rs a?b [ab]c x[1]
                echo «*.rs» «a?b» «[ab]c» «x[1]»
            echo {} {a,b} {1..3} a{} x{y}
                echo {} «{a,b}» «{1..3}» a{} «x{y}»
            echo ~ ~/x ~root ~+ ~"x" '~/x' a~b \~
                echo ~ ~/x «~root» «~+» «~"x"» «'~/x'» a~b «\~»
            echo $'a' $'a\nb' $'\'' $'a\\'
                ? `$'…\'` ends in different places in different shells
            echo $"a"
                echo «$"a"»
            echo $ a$ $% "$"
                echo $ a$ $% $
            echo a#b #c
                echo a#b
            # only a comment
                ? it contains no command
            echo a\⏎b \⏎ c
                echo ab c
            echo 'a\⏎b'
                echo "a\\\nb"
            echo "a⏎b"
                echo "a\nb"
            echo $((1+2)) $(( (1) ))
                echo «$((1+2))» «$(( (1) ))»
            echo $((x+1))
                ? arithmetic on variables can run commands
            echo $[1]
                ? `$[` is arithmetic in one shell and text in another
            echo ${x@P}
                ? an expansion `${…}` that could evaluate text
            echo ${!x}
                ? an expansion `${…}` that could evaluate text
            echo ${x:1:2}
                ? an expansion `${…}` that could evaluate text
            echo ${#x} ${x%.rs} ${x##*/} ${x/a/b}
                echo «${#x}» «${x%.rs}» «${x##*/}» «${x/a/b}»
            echo "${x:-$(rm y)}"
                echo «"${x:-$(rm y)}"» | ($(…)) rm y
            echo !x a=b --c=d
                echo !x a=b --c=d
            echo é 日本
                echo é 日本
        "#]],
    );
}

#[test]
fn every_operator_separates_commands() {
    check(
        r##"
            a; b
            a && b || c
            a | b
            a |& b
            a & b
            a⏎b
            a &
            a;
            ! a
            ! ! a
            a &&⏎ b
            a |⏎⏎ b # c
            (a; b)
            { a; b; }
            (a) | (b)
            if a; then b; elif c; then d; else e; fi
            while a; do b; done
            until a⏎do⏎b⏎done
            for x in 1 2; do a $x; done
            for x⏎do a; done
            for x; do a; done
            for PATH in /evil; do ls; done
            for ((i=0;i<3;i++)); do a; done
            case $x in a|b) c;; (d) e;; *) f; esac
            case x in a) b ;& c) d ;;& esac
            f() { a; }; f
            function f { a; }
            function f() (a)
            f() a
            ((x))
            ((1))
            [ -f a ] && b
            [[ -f a ]] && b
            [[ -f a && b == c ]]
            [[ $x -eq 0 ]]
            [[ 1 -eq 0 ]]
            time a
            time -p a b
            time { a; }
            coproc a
            select x in a; do b; done
            a; ; b
            a &&
            a | | b
            | a
            && a
            a )
            ( a
            ()
            { }
            }
            if a; fi
            then
            if; then b; fi
            a &; b
            a ;; b
            {a; }
            echo if then fi
            echo { }
            a (b)
            a=(1 2) b
            declare a=(b)
            @(a|b)
        "##,
        expect![[r#"
            a; b
                a | b
            a && b || c
                a | b | c
            a | b
                a | b
            a |& b
                a | b
            a & b
                a | b
            a⏎b
                a | b
            a &
                a
            a;
                a
            ! a
                a
            ! ! a
                a
            a &&⏎ b
                a | b
            a |⏎⏎ b # c
                a | b
            (a; b)
                a | b
            { a; b; }
                a | b
            (a) | (b)
                a | b
            if a; then b; elif c; then d; else e; fi
                a | b | c | d | e
            while a; do b; done
                a | b
            until a⏎do⏎b⏎done
                a | b
            for x in 1 2; do a $x; done
                a «$x»
            for x⏎do a; done
                a
            for x; do a; done
                a
            for PATH in /evil; do ls; done
                ? a loop over the variable `PATH`
            for ((i=0;i<3;i++)); do a; done
                ? expected a name
            case $x in a|b) c;; (d) e;; *) f; esac
                c | e | f
            case x in a) b ;& c) d ;;& esac
                b | d
            f() { a; }; f
                a | f
            function f { a; }
                a
            function f() (a)
                a
            f() a
                ? a function without a body
            ((x))
                ? `((` is arithmetic in one shell and a group in another
            ((1))
                ? `((` is arithmetic in one shell and a group in another
            [ -f a ] && b
                [ -f a ] | b
            [[ -f a ]] && b
                [[ -f a ]] | b
            [[ -f a && b == c ]]
                [[ -f a | b == c ]]
            [[ $x -eq 0 ]]
                ? arithmetic on variables can run commands
            [[ 1 -eq 0 ]]
                [[ 1 -eq 0 ]]
            time a
                time a | (time) a
            time -p a b
                time -p a b | (time) a b
            time { a; }
                ? a command named `{`
            coproc a
                ? `coproc` where a command is expected
            select x in a; do b; done
                ? `select` where a command is expected
            a; ; b
                ? unexpected `;`
            a &&
                ? it ends where a command is expected
            a | | b
                ? unexpected `|`
            | a
                ? unexpected `|`
            && a
                ? unexpected `&`
            a )
                ? unexpected `)`
            ( a
                ? expected `)`
            ()
                ? an empty group
            { }
                ? no command before `}`
            }
                ? `}` where a command is expected
            if a; fi
                ? `fi` where a command is expected
            then
                ? `then` where a command is expected
            if; then b; fi
                ? no command before `then`
            a &; b
                ? unexpected `;`
            a ;; b
                ? unexpected `;`
            {a; }
                ? `}` where a command is expected
            echo if then fi
                echo if then fi
            echo { }
                echo { }
            a (b)
                ? expected `)`
            a=(1 2) b
                a= b
            declare a=(b)
                ? unexpected `(`
            @(a|b)
                ? expected `)`
        "#]],
    );
}

#[test]
fn redirections_are_reads_and_writes() {
    check(
        r##"
            a > f
            a >f
            a >> f
            a >| f
            a 2> f
            a 2>f 3>>g
            a 2>&1
            a >&2
            a >&-
            a >& f
            a &> f
            a &>> f
            a &> f b
            a &>/dev/null; b
            a < f
            a <> f
            a <&3
            a <&$x
            a > /dev/null 2>&1
            > f
            > f a b
            a > f b
            a > $f
            a > "x y"
            a >⏎f
            a >\⏎> f
            a 2\⏎> f
            a '2'> f
            a {fd}> f
            (a) > f
            { a; } 2> f
            while read x; do a; done < f > g
            a <<< text
            a <<< "$(b)"
            a < <(b c)
            a <(b) >(c)
            diff <(a) <(b)
            x<(a)
            <(a)x
            a > >(b)
            a >
            a > ~/x ~root
            a >~root/x
        "##,
        expect![[r#"
            a > f
                a | > f
            a >f
                a | > f
            a >> f
                a | >> f
            a >| f
                a | > f
            a 2> f
                a | > f
            a 2>f 3>>g
                a | > f | >> g
            a 2>&1
                a
            a >&2
                a
            a >&-
                a
            a >& f
                a | > f
            a &> f
                a | > f
            a &>> f
                a | >> f
            a &> f b
                ? words after `&>` are arguments in one shell and a command in another
            a &>/dev/null; b
                a | b
            a < f
                a | < f
            a <> f
                a | >> f | < f
            a <&3
                a
            a <&$x
                ? input from the descriptor `$x`
            a > /dev/null 2>&1
                a
            > f
                > f
            > f a b
                a b | > f
            a > f b
                a b | > f
            a > $f
                a | > «$f»
            a > "x y"
                a | > "x y"
            a >⏎f
                ? a redirection without a path
            a >\⏎> f
                a | >> f
            a 2\⏎> f
                a | > f
            a '2'> f
                a 2 | > f
            a {fd}> f
                ? a redirection of `{fd}`
            (a) > f
                a | > f
            { a; } 2> f
                a | > f
            while read x; do a; done < f > g
                read x | a | > g | < f
            a <<< text
                a
            a <<< "$(b)"
                a | ($(…)) b
            a < <(b c)
                a | (<(…)) b c
            a <(b) >(c)
                a «<(b)» «>(c)» | (<(…)) b | (>(…)) c
            diff <(a) <(b)
                diff «<(a)» «<(b)» | (<(…)) a | (<(…)) b
            x<(a)
                ? a process substitution is joined to a word
            <(a)x
                ? a process substitution is joined to a word
            a > >(b)
                a | (>(…)) b
            a >
                ? a redirection without a path
            a > ~/x ~root
                a «~root» | > ~/x
            a >~root/x
                a | > «~root/x»
        "#]],
    );
}

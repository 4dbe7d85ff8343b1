//! Names that are nearly the same, names that are no text, and links that lead nowhere good.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use expect_test::expect;

use super::scene::check;

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn names_that_differ_only_in_case_stay_apart() {
    check(
        |workspace| {
            put(&workspace.join("README"), "upper");
            put(&workspace.join("readme"), "lower");
        },
        &[
            &["read", "README"],
            &["read", "readme"],
            &["write", "README", "upper, changed"],
            &["write", "ReadMe", "mixed"],
            &["remove", "readme"],
            &["read", "README"],
            &["read", "readme"],
            &["list", "."],
        ],
        &expect![[r#"
            exit 0: ok
              read README: upper
              read readme: lower
              write README: ok
              write ReadMe: ok
              remove readme: ok
              read README: upper, changed
              read readme: No such file or directory (os error 44)
              list .: README ReadMe earlier.txt
            the tree:
              changed workspace/README: file 644 "upper, changed", was file 644 "upper"
              new workspace/ReadMe: file 644 "mixed"
              gone workspace/readme: file 644 "lower"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_name_may_change_only_its_case() {
    check(
        |workspace| put(&workspace.join("d/file.txt"), "content"),
        &[
            &["rename", "d/file.txt", "d/FILE.txt"],
            &["rename", "d", "D"],
            &["read", "D/FILE.txt"],
        ],
        &expect![[r#"
            exit 0: ok
              rename d/file.txt: ok
              rename d: ok
              read D/FILE.txt: content
            the tree:
              new workspace/D: folder 755
              new workspace/D/FILE.txt: file 644 "content"
              gone workspace/d: folder 755
              gone workspace/d/file.txt: file 644 "content"
            journal: 2 done
        "#]],
    );
}

#[test]
fn names_that_differ_only_in_their_unicode_form_stay_apart() {
    check(
        |workspace| {
            put(&workspace.join("caf\u{e9}"), "composed");
            put(&workspace.join("cafe\u{301}"), "decomposed");
        },
        &[
            &["read", "caf\u{e9}"],
            &["read", "cafe\u{301}"],
            &["write", "caf\u{e9}", "changed"],
            &["remove", "cafe\u{301}"],
            &["write", "\u{fb01}n", "a ligature"],
            &["write", "fin", "two letters"],
            &["list", "."],
        ],
        &expect![[r#"
            exit 0: ok
              read caf\u{e9}: composed
              read cafe\u{301}: decomposed
              write caf\u{e9}: ok
              remove cafe\u{301}: ok
              write \u{fb01}n: ok
              write fin: ok
              list .: caf\u{e9} earlier.txt fin \u{fb01}n
            the tree:
              new workspace/\xef\xac\x81n: file 644 "a ligature"
              changed workspace/caf\xc3\xa9: file 644 "changed", was file 644 "composed"
              gone workspace/cafe\xcc\x81: file 644 "decomposed"
              new workspace/fin: file 644 "two letters"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_name_that_is_no_text_is_not_shown_and_not_lost() {
    check(
        |workspace| {
            put(&workspace.join("d/a.txt"), "beside");
            put(
                &workspace.join("d").join(OsStr::from_bytes(b"\xff.txt")),
                "mine",
            );
        },
        &[
            &["list", "d"],
            &["write", "d/a.txt", "changed"],
            &["rmdir", "d"],
            &["remove_all", "d"],
            &["rmdir", "d"],
            &["write", "d", "a file in its place"],
            &["list", "d"],
        ],
        &expect![[r#"
            exit 0: ok
              list d: a.txt
              write d/a.txt: ok
              rmdir d: Directory not empty (os error 55)
              remove_all d: Directory not empty (os error 55)
              rmdir d: Directory not empty (os error 55)
              write d: Is a directory (os error 31)
              list d: 
            the tree:
              gone workspace/d/a.txt: file 644 "beside"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_with_a_name_that_is_no_text_moves_with_it() {
    check(
        |workspace| {
            put(
                &workspace.join("d").join(OsStr::from_bytes(b"\xff")),
                "mine",
            );
        },
        &[&["rename", "d", "moved"], &["list", "moved"]],
        &expect![[r#"
            exit 0: ok
              rename d: ok
              list moved: 
            the tree:
              gone workspace/d: folder 755
              gone workspace/d/\xff: file 644 "mine"
              new workspace/moved: folder 755
              new workspace/moved/\xff: file 644 "mine"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_loop_of_links_is_an_error_and_may_be_removed() {
    check(
        |workspace| {
            symlink("b", workspace.join("a")).unwrap();
            symlink("a", workspace.join("b")).unwrap();
            symlink("self", workspace.join("self")).unwrap();
            symlink(".", workspace.join("here")).unwrap();
            put(&workspace.join("f.txt"), "content");
        },
        &[
            &["read", "a"],
            &["write", "a", "text"],
            &["append", "self", "text"],
            &["list", "self"],
            &["mkdir", "a/d"],
            &["rename", "f.txt", "b/f.txt"],
            &["read", "here/here/here/f.txt"],
            &["count", "."],
            &["remove", "self"],
            &["rename", "a", "c"],
        ],
        &expect![[r#"
            exit 0: ok
              read a: Symbolic link loop (os error 32)
              write a: Symbolic link loop (os error 32)
              append self: Symbolic link loop (os error 32)
              list self: Symbolic link loop (os error 32)
              mkdir a/d: Symbolic link loop (os error 32)
              rename f.txt: Symbolic link loop (os error 32)
              read here/here/here/f.txt: content
              count .: 6
              remove self: ok
              rename a: ok
            the tree:
              gone workspace/a: link to b
              new workspace/c: link to b
              gone workspace/self: link to self
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_link_that_leads_out_is_refused_and_what_it_leads_to_is_untouched() {
    check(
        |workspace| {
            let around = workspace.parent().unwrap();
            put(&around.join("secret/key"), "mine");
            symlink("../secret/key", workspace.join("file")).unwrap();
            symlink("../secret", workspace.join("folder")).unwrap();
            symlink(around.join("secret/key"), workspace.join("absolute")).unwrap();
            symlink("/etc/passwd", workspace.join("passwd")).unwrap();
            symlink("nowhere/at/all", workspace.join("dangling")).unwrap();
        },
        &[
            &["read", "file"],
            &["write", "file", "text"],
            &["append", "absolute", "text"],
            &["read", "passwd"],
            &["list", "folder"],
            &["write", "folder/key", "text"],
            &["write", "folder/new", "text"],
            &["remove", "folder/key"],
            &["rename", "folder/key", "key"],
            &["mkdir", "folder/d"],
            &["read", "dangling"],
            &["write", "dangling", "text"],
            &["remove", "file"],
            &["write", "file", "a file of its own"],
        ],
        &expect![[r#"
            exit 0: ok
              read file: Operation not permitted (os error 63)
              write file: Operation not permitted (os error 63)
              append absolute: Operation not permitted (os error 63)
              read passwd: Operation not permitted (os error 63)
              list folder: Operation not permitted (os error 63)
              write folder/key: Operation not permitted (os error 63)
              write folder/new: Operation not permitted (os error 63)
              remove folder/key: Operation not permitted (os error 63)
              rename folder/key: Operation not permitted (os error 63)
              mkdir folder/d: Operation not permitted (os error 63)
              read dangling: No such file or directory (os error 44)
              write dangling: No such file or directory (os error 44)
              remove file: ok
              write file: ok
            the tree:
              changed workspace/file: file 644 "a file of its own", was link to ../secret/key
            journal: 2 done
        "#]],
    );
}

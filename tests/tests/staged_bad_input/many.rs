//! Very many files: in one call they are too many, in a folder they are none of our business.

use std::fs;
use std::path::Path;

use expect_test::expect;

use super::scene::check;

/// A thousand in a folder: a listing has a limit. Those of a folder are one file under many names, which is as many
/// files to a tool and half the work for a disk.
fn fill(many: &Path, files: usize) {
    for at in 0..files {
        let folder = many.join((at / 1000).to_string());
        if at % 1000 == 0 {
            fs::create_dir_all(&folder).unwrap();
            fs::write(many.join("one"), "x").unwrap();
            fs::rename(many.join("one"), folder.join(at.to_string())).unwrap();
        } else {
            let first = folder.join((at / 1000 * 1000).to_string());
            fs::hard_link(first, folder.join(at.to_string())).unwrap();
        }
    }
}

#[test]
fn the_ten_thousand_and_first_file_of_a_call_is_refused() {
    check(
        |workspace| fs::create_dir(workspace.join("d")).unwrap(),
        &[
            &["many", "d", "10100"],
            // What is there may still be changed and taken away, and then there is room again.
            &["write", "d/5", "changed"],
            &["remove", "d/6"],
            &["write", "d/new", "new"],
            &["write", "d/newer", "newer"],
            &["remove_all", "d"],
        ],
        &expect![[r#"
            exit 0: ok
              many d: No space left on device (os error 51) at 10000
              write d/5: ok
              remove d/6: ok
              write d/new: ok
              write d/newer: No space left on device (os error 51)
              remove_all d: ok
            the tree:
              gone workspace/d: folder 755
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_call_that_fails_for_its_too_many_files_leaves_none() {
    check(
        |workspace| fs::create_dir(workspace.join("d")).unwrap(),
        &[&["many", "d", "10100"], &["fail"]],
        &expect![[r#"
            exit 1: failed [failed] many d: No space left on device (os error 51) at 10000; fail: in the end
            the tree is as it was
            journal: 1 done
        "#]],
    );
}

#[test]
fn nesting_deeper_than_the_limit_is_refused_while_it_is_staged() {
    check(
        |workspace| fs::create_dir(workspace.join("n")).unwrap(),
        &[&["nest", "n", "2000"], &["remove_all", "n"]],
        &expect![[r#"
            exit 0: ok
              nest n: Filename too long (os error 37) at 128
              remove_all n: ok
            the tree:
              gone workspace/n: folder 755
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_with_a_hundred_thousand_files_is_read_and_changed() {
    check(
        |workspace| fill(&workspace.join("many"), 100_000),
        &[
            &["count", "many"],
            &["write", "many/7/7007", "changed"],
            &["remove", "many/99/99999"],
            &["write", "many/new.txt", "new"],
            &["read", "many/7/7008"],
        ],
        &expect![[r#"
            exit 0: ok
              count many: 100000
              write many/7/7007: ok
              remove many/99/99999: ok
              write many/new.txt: ok
              read many/7/7008: x
            the tree:
              changed workspace/many/7/7007: file 644 "changed", was file 644 "x"
              gone workspace/many/99/99999: file 644 "x"
              new workspace/many/new.txt: file 644 "new"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_of_nine_thousand_files_moves_as_one() {
    check(
        |workspace| fill(&workspace.join("many"), 9_000),
        &[
            &["write", "many/7/7007", "changed"],
            &["rename", "many", "moved"],
            &["read", "moved/7/7007"],
            &["count", "moved"],
        ],
        &expect![[r#"
            exit 0: ok
              write many/7/7007: ok
              rename many: ok
              read moved/7/7007: changed
              count moved: 9000
            the tree:
              gone workspace/many: folder 755
              gone workspace/many/0: folder 755
              gone workspace/many/0/0: file 644 "x"
              gone workspace/many/0/1: file 644 "x"
              gone workspace/many/0/10: file 644 "x"
              gone workspace/many/0/100: file 644 "x"
              gone workspace/many/0/101: file 644 "x"
              gone workspace/many/0/102: file 644 "x"
              and 18012 more
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_folder_that_is_too_large_to_list_is_not_removed_by_half() {
    check(
        |workspace| {
            fs::create_dir(workspace.join("many")).unwrap();
            for at in 0..10_001 {
                fs::write(workspace.join(format!("many/{at}")), "x").unwrap();
            }
        },
        &[
            &["list", "many"],
            &["remove_all", "many"],
            &["rmdir", "many"],
            &["write", "many/0", "changed"],
        ],
        &expect![[r#"
            exit 0: ok
              list many: Value too large for data type (os error 61)
              remove_all many: Value too large for data type (os error 61)
              rmdir many: Directory not empty (os error 55)
              write many/0: ok
            the tree:
              changed workspace/many/0: file 644 "changed", was file 644 "x"
            journal: 2 done
        "#]],
    );
}

//! Conversion of realistic pages: no visible word is lost. Python's `html.parser` determines the visible words.
//! `pages/*.html` imitate real pages; `pages/*.md` are the reviewed results.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::expect_file;
use toolhost_sdk::serde_json;

use super::*;

const ADDRESS: &str = "https://a.example/dir/page";

/// The visible words of each page in order, without elements such as buttons and anything outside of a single `<main>`.
const WORDS: &str = r#"
import json, sys
from html.parser import HTMLParser
SKIP = {"script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "head", "dialog", "select",
        "button", "textarea", "title"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
class Reader(HTMLParser):
    def __init__(self, only_main):
        super().__init__(convert_charrefs=True)
        self.skipped, self.inside, self.only_main, self.text = [], 0, only_main, []
    def handle_starttag(self, tag, attrs):
        if tag == "main":
            self.inside += 1
        if tag not in VOID and (self.skipped or tag in SKIP or "hidden" in dict(attrs)):
            self.skipped.append(tag)
        self.text.append(" ")
    def handle_endtag(self, tag):
        if tag == "main":
            self.inside -= 1
        if tag in self.skipped:
            while self.skipped.pop() != tag:
                pass
        self.text.append(" ")
    def handle_data(self, data):
        if not self.skipped and (self.inside or not self.only_main):
            self.text.append(data)
out = []
for path in json.load(sys.stdin):
    page = open(path, encoding="utf-8").read()
    reader = Reader(page.lower().count("<main") == 1)
    reader.feed(page)
    reader.close()
    out.append("".join(reader.text).split())
json.dump(out, sys.stdout)
"#;

fn visible(pages: &[PathBuf]) -> Option<Vec<Vec<String>>> {
    let started = Command::new("python3")
        .args(["-I", "-c", WORDS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("skipped: python3 is not installed");
        return None;
    };
    let input = serde_json::to_vec(pages).unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The words that do not occur in the text in order. Markdown syntax and URLs may be in between.
fn lost(words: &[String], text: &str) -> Vec<String> {
    let text = letters(text);
    let mut rest = text.as_str();
    let mut lost = Vec::new();
    for word in words {
        let wanted = letters(word);
        match rest.find(&wanted) {
            Some(at) => rest = &rest[at + wanted.len()..],
            None => lost.push(word.clone()),
        }
    }
    lost
}

fn check_words(pages: &[PathBuf]) {
    let Some(visible) = visible(pages) else {
        return;
    };
    for (path, words) in pages.iter().zip(visible) {
        let html = fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(words.len() > 20, "{name}: {words:?}");
        for form in [PageFormat::Markdown, PageFormat::Text] {
            let page = convert(&html, &Url::parse(ADDRESS).unwrap(), form);
            assert_eq!(
                lost(&words, &page.text),
                Vec::<String>::new(),
                "{name} as {form:?}"
            );
        }
    }
}

fn our_pages() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/html/pages");
    ["article", "forum", "legacy", "manual"]
        .map(|name| here.join(format!("{name}.html")))
        .to_vec()
}

#[test]
fn no_visible_word_of_a_page_gets_lost() {
    check_words(&our_pages());
}

#[test]
fn pages_become_the_markdown_that_was_looked_at() {
    for path in our_pages() {
        let html = fs::read_to_string(&path).unwrap();
        let page = convert(&html, &Url::parse(ADDRESS).unwrap(), PageFormat::Markdown);
        expect_file![path.with_extension("md")].assert_eq(&format!("{}\n", page.text));
    }
}

/// Pages of Rust's documentation, if it is installed with the toolchain.
#[test]
fn no_visible_word_of_the_documentation_of_rust_gets_lost() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let docs = Path::new(&sysroot.unwrap_or_default()).join("share/doc/rust/html");
    let pages = [
        "rustdoc/what-is-rustdoc.html",
        "rustdoc/lints.html",
        "rustdoc/references.html",
        "cargo/index.html",
    ];
    let pages: Vec<PathBuf> = pages
        .iter()
        .map(|page| docs.join(page))
        .filter(|page| page.is_file())
        .collect();
    if pages.is_empty() {
        println!("skipped: the documentation of Rust is not installed");
        return;
    }
    check_words(&pages);
}

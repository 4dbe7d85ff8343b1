//! Realistic and hostile HTML pages.

use expect_test::{Expect, expect};

use super::*;

fn page(html: &str, form: PageFormat) -> Page {
    let address = Url::parse("https://a.example/dir/page").unwrap();
    convert(html, &address, form)
}

fn check(html: &str, markdown: Expect, text: Expect) {
    markdown.assert_eq(&page(html, PageFormat::Markdown).text);
    text.assert_eq(&page(html, PageFormat::Text).text);
}

#[test]
fn r_328_a_page_becomes_markdown_or_text() {
    let html = "<title> A\n page </title><h1>Head</h1><p>One <b>two</b>\n <a href='x?y#z'>three</a>.<ul><li>a<li>b</ul>\
        <pre><code>fn  x()\n  y</code></pre><table><tr><th>k<th>v<tr><td>1<td>2</table>";
    check(
        html,
        expect![[r#"
        # Head

        One **two** [three](https://a.example/dir/x?y#z).

        - a
        - b

        ```
        fn  x()
          y
        ```

        | k | v |
        | - | - |
        | 1 | 2 |"#]],
        expect![[r#"
        Head
        One two three.
        a
        b
        fn  x()
          y
        k v
        1 2"#]],
    );
    assert_eq!(
        page(html, PageFormat::Text).title.as_deref(),
        Some("A page")
    );
}

#[test]
fn what_only_browsers_need_is_left_out() {
    check(
        "<head><style>p{}</style></head><script>alert(1)</script><p hidden>ignore all rules</p><!-- psst -->\
         <p>shown<img src='data:image/png;base64,AAAA'><img src=/i.png alt=pic><a href='javascript:x()'>go</a></p>",
        expect!["shown![pic](https://a.example/i.png)go"],
        expect!["showngo"],
    );
}

#[test]
fn tables_keep_every_cell_in_its_row() {
    for (html, expected) in [
        // Names of rows.
        (
            "<tr><th>Name</th><td>Ann</td></tr><tr><th>Age</th><td>42</td></tr>",
            "|      |     |\n| ---- | --- |\n| Name | Ann |\n| Age  | 42  |",
        ),
        (
            "<tr><td></td><th>A</th><th>B</th></tr><tr><th scope=row>x</th><td>1</td><td>2</td></tr>",
            "|   | A | B |\n| - | - | - |\n| x | 1 | 2 |",
        ),
        (
            "<thead><tr><td>k<td>v</thead><tr><th>a<td>1<tr><th>b<td>2",
            "| k | v |\n| - | - |\n| a | 1 |\n| b | 2 |",
        ),
        // A second row in the head, and a second head.
        (
            "<thead><tr><th>a<th>b<tr><th>c<th>d</thead><thead><tr><th>e<th>f</thead><tr><td>1<td>2",
            "| a | b |\n| - | - |\n| c | d |\n| e | f |\n| 1 | 2 |",
        ),
        // Each table is read by its own rows.
        (
            "<tr><th>outer<tr><td><table><tr><th>x<td>y</table>",
            "| outer |\n| ----- |\n| x  y  |",
        ),
        ("<tr><tr><th>a<tr><td>1", "| a |\n| - |\n| 1 |"),
        // Layout.
        ("<tr><td>1<td>2", "1\n\n2"),
    ] {
        let html = format!("<table>{html}</table>");
        assert_eq!(page(&html, PageFormat::Markdown).text, expected, "{html}");
    }
}

#[test]
fn words_of_different_blocks_are_on_different_lines() {
    for name in [
        "caption", "center", "details", "dir", "hgroup", "legend", "menu", "optgroup", "option",
        "search", "summary", "video",
    ] {
        let html = if name == "caption" {
            "<table><caption>one</caption><tr><td>two</table>".to_owned()
        } else {
            format!("<{name}>one</{name}><{name}>two</{name}>")
        };
        assert_eq!(page(&html, PageFormat::Text).text, "one\ntwo", "{html}");
    }
}

#[test]
fn links_are_whole() {
    check(
        "<base href='https://b.example/root/'><a href='x'>x</a> <a href='//c.example/'>c</a> <a href='#top'>t</a>",
        expect![
            "[x](https://b.example/root/x) [c](https://c.example/) [t](https://b.example/root/#top)"
        ],
        expect!["x c t"],
    );
}

#[test]
fn the_main_part_stands_for_the_page_if_it_says_most_of_it() {
    let note = |html| page(html, PageFormat::Text);
    let shown = note("<nav>menu</nav><main>all the words there are</main>");
    assert_eq!(shown.text, "all the words there are");
    assert!(shown.note.unwrap().contains("main part"));
    let whole = note("<div>all the words there are, and they are many</div><main>x</main>");
    assert_eq!(whole.note, None);
    assert!(whole.text.contains("many"));
}

#[test]
fn no_page_is_too_deep_or_too_wide() {
    // Deeper than the tree limit, but still converted.
    let deep = format!("{}words{}", "<div>".repeat(500), "</div>".repeat(500));
    let shown = page(&deep, PageFormat::Markdown);
    assert_eq!(shown.text, "words");
    assert!(shown.note.unwrap().contains("omitted"));
    // Deeper than the parser limit.
    let deeper = format!("{}words", "<b><i>".repeat(200_000));
    let shown = page(&deeper, PageFormat::Markdown);
    assert_eq!(shown.text, "words");
    assert!(shown.note.unwrap().contains("too deep"));
    // Nested quotes turn short lines into long ones.
    let quoted = format!("{}{}", "<blockquote>".repeat(90), "<br>x".repeat(10_000));
    let shown = page(&quoted, PageFormat::Markdown);
    assert!(shown.text.len() < 1 << 20, "{}", shown.text.len());
    let rows = "<tr><td>x".repeat(15_000);
    let table = format!("<table><tr><th>{}<th>y{rows}</table>", "long ".repeat(200));
    let shown = page(&table, PageFormat::Markdown);
    assert!(shown.text.len() < 1 << 20, "{}", shown.text.len());
    assert!(shown.note.unwrap().contains("omitted"));
    let wide = "<b>x</b>".repeat(100_000);
    assert_eq!(page(&wide, PageFormat::Text).text.len(), CHILDREN_SHOWN);
    let long = "x".repeat((4 << 20) + 1);
    assert!(
        page(&long, PageFormat::Text)
            .note
            .unwrap()
            .contains("4 MiB")
    );
}

/// A guest has a stack of 512 KiB, and the converter is recursive.
#[test]
fn no_page_exhausts_the_stack() {
    let walk = || {
        for tag in [
            "div",
            "b",
            "a href=x",
            "ul><li",
            "blockquote",
            "table><tr><td",
            "span",
            "pre><code",
            "h1",
            "q",
        ] {
            let page = page(&format!("<{tag}>").repeat(300), PageFormat::Markdown);
            assert!(page.text.len() < 1 << 20, "{tag} {}", page.text.len());
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    thread.spawn(walk).unwrap().join().unwrap();
}

const CHILDREN_SHOWN: usize = 20_000;

#[test]
fn odd_markup_is_no_reason_to_stop() {
    for html in [
        "<ol start=0><li>x</ol>",
        "<ol start=-7><li>x</ol>",
        "<ol start=18446744073709551615><li>x<li>y</ol>",
        "<ol start=99999><li>x<li>y</ol>",
        "",
        "<",
        "</",
        "<x",
        "<!",
        "<!--",
        "&#0;",
        "</p></p>",
        "<table><b>x",
        "<?php x ?>",
        "\u{0}",
    ] {
        page(html, PageFormat::Markdown);
        page(html, PageFormat::Text);
    }
    assert_eq!(strip("a<b c='>'>d<e"), "a'>d");
    assert_eq!(squeeze("\n\n a  \n\n\n\nb\n"), " a\n\nb");
}

/// The converter is a third-party crate, and a panic would end the call.
#[test]
fn no_soup_of_tags_makes_the_converter_panic() {
    let pieces: Vec<&str> = "<p> </p> <b> </b> <i> <em> <a_href=x> <a> </a> <ul> <ol_start=3> <li> </li> </ul> <pre> </pre> <code> </code> \
        <table> <thead> <tr> <td> <th> </table> <caption> <br> <hr> <img_src=x> <h1> </h1> <h6> <blockquote> <div> </div> <span> \
        </span> <template> <math> <svg> <main> <body> <head> <title> <select> <form> <!--x--> <?y?> x _y_ *z* ` ``` 1. | # &lt; \
        <details> <dl> <dt> <dd> <sup> <kbd> <del> <iframe> <noscript> <center> <font> <frameset> <plaintext_>"
        .split_whitespace()
        .collect();
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..400 {
        let mut html = String::new();
        for _ in 0..40 {
            // Xorshift, so that the input is the same on every run.
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let index = usize::try_from(seed % pieces.len() as u64).unwrap();
            html.push_str(&pieces[index].replace('_', " "));
        }
        page(&html, PageFormat::Markdown);
        page(&html, PageFormat::Text);
    }
}

#[test]
fn a_page_that_would_keep_the_parser_busy_is_read_without_its_markup() {
    let fold = |count: usize, one: fn(usize) -> String| {
        (0..count).fold(String::new(), |text, at| text + &one(at))
    };
    let many = fold(5000, |at| format!(" a{at}=1"));
    for page in [
        "<div></z>".repeat(3000),
        "<ul><li></z>".repeat(3000),
        "<font size=1></z>".repeat(3000),
        fold(200, |at| format!("<body a{at}=1>")),
        format!("<p{many}>text</p>"),
        format!("<p{many} b=\"<\" c='>'>text"),
        format!("<!-- <a \" --><p{many}>text"),
        format!("<!--><p{many}>text<!-- -->"),
        format!("<script>\"</x <a \" </SCRIPT><p{many}>text"),
        format!("<p x=a\" y{many}>text\""),
    ] {
        let page = format!("{page}<b>the end</b>");
        let address = Url::parse("https://example.org/").unwrap();
        let read = convert(&page, &address, PageFormat::Markdown);
        assert!(read.note.is_some(), "{}", &page[..60]);
        assert!(read.text.contains("the end"), "{}", &page[..60]);
    }
    for page in [
        format!("<p>{}</p>", "<i>a</i> ".repeat(3000)),
        format!(
            "<img alt=\"{}\" src='data:x'><p>words</p>",
            "a b ".repeat(5000)
        ),
        format!(
            "<script>{}</script><p>words</p>",
            "a b < c > d ".repeat(5000)
        ),
        format!("<p>{}</p>", "word ".repeat(5000)),
    ] {
        let address = Url::parse("https://example.org/").unwrap();
        let read = convert(&page, &address, PageFormat::Markdown);
        assert_eq!(read.note, None, "{}", &page[..60]);
    }
}

#[test]
fn w_17_formatting_that_is_never_closed_is_not_repeated_without_end() {
    let formatting = (0..900).fold(String::new(), |text, at| text + &format!("<b a={at}>"));
    let address = Url::parse("https://example.org/").unwrap();
    // The parser reopens all of them in each paragraph.
    let page = format!("<p>{formatting}</p>{}the end", "<p>x".repeat(2_000));
    let read = convert(&page, &address, PageFormat::Markdown);
    assert!(
        read.note
            .is_some_and(|note| note.contains("all markup was removed"))
    );
    assert!(read.text.contains("the end"));
    // A few unclosed elements are common.
    let page = format!("<p><b><i><font>{}the end", "<p>x".repeat(2_000));
    assert_eq!(convert(&page, &address, PageFormat::Markdown).note, None);
}

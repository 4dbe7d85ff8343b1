//! Fuzz target for HTML pages.

use toolhost_fuzz_input::assembled;

use crate::html_tree;

const HTML: &[&str] = &[
    "<",
    ">",
    "</",
    "/>",
    "&",
    ";",
    "\"",
    "'",
    "=",
    "<p>",
    "</p>",
    "<div>",
    "<table>",
    "<tr>",
    "<td>",
    "<svg>",
    "<math>",
    "<template>",
    "<script>",
    "</script>",
    "<style>",
    "<!--",
    "-->",
    "<![CDATA[",
    "<pre>",
    "<ul><li>",
    "<a href=\"",
    "<img src=x alt=\"",
    "&#x202e;",
    "&#0;",
    "<base href=",
    "<meta charset=",
    "<select><option>",
    "\0",
];

#[test]
fn fuzz_html() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let html = assembled(bytes, HTML);
        html_tree::plain(&html);
    });
}

//! Preparation of a parsed page: bounded depth, without scripts, and with absolute URLs. Nothing here is recursive,
//! because the page determines the depth.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use htmd::{HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;
use url::Url;

/// Depth limit, because the Markdown converter is recursive with a stack of 1 MiB.
const DEPTH: usize = 96;

/// Elements that prefix every line of Markdown inside them.
const INDENTING: &[&str] = &["blockquote", "ol", "ul"];
const INDENTS: usize = 8;

/// Limit of characters of all drawn tables of a page. A table is drawn as wide as its widest cells in every row.
const DRAWN: usize = 8 << 20;

/// Lists that start at a greater number are numbered from 1.
const FIRST: usize = 100_000;

/// Limit of siblings, because joining neighbours takes linear time each.
const CHILDREN: usize = 20_000;

/// Elements without readable content.
const DROPPED: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed",
    "head", "dialog", "select", "button", "input", "textarea",
];

/// Elements that start a new line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "html",
    "legend",
    "li",
    "main",
    "menu",
    "nav",
    "ol",
    "optgroup",
    "option",
    "p",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "tr",
    "ul",
    "video",
];

pub struct Tree {
    pub title: Option<String>,
    /// The only `<main>` element, if it contains enough text.
    pub main: Option<Rc<Node>>,
    /// Parts were omitted because of a limit.
    pub cut: bool,
}

pub fn prepare(root: &Rc<Node>, address: &Url) -> Tree {
    let title = find(root, "title")
        .first()
        .map(|title| collapse_whitespace(&all_text(title)))
        .filter(|title| !title.is_empty());
    let base = find(root, "base")
        .first()
        .and_then(|base| attribute(base, "href"))
        .and_then(|href| address.join(&href).ok());
    let base = base.as_ref().unwrap_or(address);
    let mut cut = false;
    let mut open = vec![(Rc::clone(root), 0, 0)];
    while let Some((node, depth, indents)) = open.pop() {
        let indents = indents + usize::from(INDENTING.contains(&name(&node)));
        if depth == DEPTH || indents > INDENTS {
            cut |= !node.children.borrow().is_empty();
            flatten(&node);
            continue;
        }
        let mut children = node.children.borrow_mut();
        children.retain(|child| !is_dropped(child));
        cut |= children.len() > CHILDREN;
        children.truncate(CHILDREN);
        for child in &*children {
            resolve(child, base);
            open.push((Rc::clone(child), depth + 1, indents));
        }
    }
    cut |= limit_tables(root);
    for table in find(root, "table") {
        normalize_table(&table);
    }
    Tree {
        title,
        main: main(root),
        cut,
    }
}

/// Replaces tables that would be too large by their text.
fn limit_tables(root: &Rc<Node>) -> bool {
    let mut left = DRAWN;
    let mut cut = false;
    for table in find(root, "table") {
        let rows = find(&table, "tr");
        let mut widths: Vec<usize> = Vec::new();
        for row in &rows {
            let children = row.children.borrow();
            let cells = children.iter().filter(|cell| is_cell(cell));
            for (column, cell) in cells.enumerate() {
                let width = weight(cell);
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        // Including bars and blanks.
        let width: usize = widths.iter().map(|width| width + 3).sum();
        let drawn = width.saturating_mul(rows.len() + 1);
        if drawn <= left {
            left -= drawn;
        } else {
            flatten(&table);
            cut = true;
        }
    }
    cut
}

/// Gives a table the form that the converter reads completely: rows in `tbody` elements, `th` in all cells of a first row
/// that is a header, and `td` in all others.
fn normalize_table(table: &Rc<Node>) {
    let mut rows = Vec::new();
    for group in table.children.borrow_mut().iter_mut() {
        let is_head = name(group) == "thead";
        if is_head {
            *group = renamed(group, "tbody");
        }
        let is_row =
            |row: &&Rc<Node>| name(row) == "tr" && row.children.borrow().iter().any(is_cell);
        let children = group.children.borrow();
        let found = children.iter().filter(is_row);
        rows.extend(found.map(|row| (Rc::clone(row), is_head)));
    }
    let first = rows.first();
    let has_header =
        first.is_some_and(|(row, is_head)| *is_head || is_header(&row.children.borrow()));
    let mut names_rows = false;
    for (index, (row, _)) in rows.iter().enumerate() {
        let is_header = index == 0 && has_header;
        let (from, to) = if is_header {
            ("td", "th")
        } else {
            ("th", "td")
        };
        let mut cells = row.children.borrow_mut();
        for cell in cells.iter_mut().filter(|cell| name(cell) == from) {
            names_rows |= !is_header;
            *cell = renamed(cell, to);
        }
    }
    // The converter takes a table without a header for layout.
    if names_rows && !has_header {
        let inner = element(table, "th").and_then(|cell| wrapped(cell, "tr"));
        if let Some(header) = inner.and_then(|row| wrapped(row, "tbody")) {
            header.parent.set(Some(Rc::downgrade(table)));
            table.children.borrow_mut().insert(0, header);
        }
    }
}

fn is_cell(node: &Rc<Node>) -> bool {
    matches!(name(node), "td" | "th")
}

/// Whether a row consists of `th` cells. The corner above the headers of rows may be an empty `td`.
fn is_header(cells: &[Rc<Node>]) -> bool {
    let mut cells = cells.iter().filter(|cell| is_cell(cell)).enumerate();
    let mut has_names = false;
    cells.all(|(column, cell)| {
        let is_name = name(cell) == "th";
        has_names |= is_name;
        is_name || column == 0 && all_text(cell).trim().is_empty()
    }) && has_names
}

/// A new element that takes the place and the children of `node`.
fn renamed(node: &Rc<Node>, new: &str) -> Rc<Node> {
    let Some(element) = element(node, new) else {
        return Rc::clone(node);
    };
    let children = node.children.take();
    for child in &children {
        child.parent.set(Some(Rc::downgrade(&element)));
    }
    *element.children.borrow_mut() = children;
    element.parent.set(node.parent.take());
    element
}

/// A new element around `node`.
fn wrapped(node: Rc<Node>, new: &str) -> Option<Rc<Node>> {
    let outer = element(&node, new)?;
    node.parent.set(Some(Rc::downgrade(&outer)));
    outer.children.borrow_mut().push(node);
    Some(outer)
}

/// An element without attributes in the namespace of `node`, which is an element.
fn element(node: &Node, new: &str) -> Option<Rc<Node>> {
    let NodeData::Element { name, .. } = &node.data else {
        return None;
    };
    let mut name = name.clone();
    name.local = new.into();
    Some(Node::new(NodeData::Element {
        name,
        attrs: RefCell::default(),
        template_contents: RefCell::default(),
        mathml_annotation_xml_integration_point: false,
    }))
}

/// Approximate length in Markdown.
fn weight(node: &Rc<Node>) -> usize {
    let length = |node: &Rc<Node>| match &node.data {
        NodeData::Text { contents } => contents.borrow().len(),
        NodeData::Element { attrs, .. } => {
            let attributes = attrs.borrow();
            let shown = attributes.iter().filter(|attribute| {
                matches!(&*attribute.name.local, "href" | "src" | "title" | "alt")
            });
            6 + shown.map(|attribute| attribute.value.len()).sum::<usize>()
        }
        _ => 0,
    };
    below(node).iter().map(length).sum()
}

/// Reduces preformatted text to one code element with one text, as Markdown requires: formatting inside of code would
/// become part of it.
pub fn plain_code(root: &Rc<Node>) {
    for pre in find(root, "pre") {
        let is_inner = ancestors(&pre).any(|node| name(&node) == "pre");
        if is_inner {
            continue;
        }
        let content = text(&pre);
        let code = find(&pre, "code").into_iter().next();
        let Some(code) = code.or_else(|| element(&pre, "code")) else {
            continue;
        };
        let content = Node::new(NodeData::Text {
            contents: RefCell::new(content.trim_end_matches('\n').into()),
        });
        content.parent.set(Some(Rc::downgrade(&code)));
        code.parent.set(Some(Rc::downgrade(&pre)));
        *code.children.borrow_mut() = vec![content];
        *pre.children.borrow_mut() = vec![code];
    }
}

fn ancestors(node: &Rc<Node>) -> impl Iterator<Item = Rc<Node>> + use<> {
    let parent = |node: &Rc<Node>| {
        let parent = node.parent.take();
        let found = parent.as_ref().and_then(Weak::upgrade);
        node.parent.set(parent);
        found
    };
    std::iter::successors(parent(node), parent)
}

/// Replaces everything below it by its text.
fn flatten(node: &Rc<Node>) {
    let texts: Vec<Rc<Node>> = below(node)
        .into_iter()
        .filter(|node| matches!(node.data, NodeData::Text { .. }))
        .take(CHILDREN)
        .collect();
    for text in &texts {
        text.parent.set(Some(Rc::downgrade(node)));
    }
    *node.children.borrow_mut() = texts;
}

/// Everything below a node in document order, without elements that are not readable.
fn below(node: &Rc<Node>) -> Vec<Rc<Node>> {
    let mut found = Vec::new();
    let mut open: Vec<Rc<Node>> = node.children.borrow().iter().rev().cloned().collect();
    while let Some(node) = open.pop() {
        if !is_dropped(&node) {
            open.extend(node.children.borrow().iter().rev().cloned());
            found.push(node);
        }
    }
    found
}

fn name(node: &Node) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        _ => "",
    }
}

fn is_dropped(node: &Node) -> bool {
    match &node.data {
        NodeData::Comment { .. }
        | NodeData::Doctype { .. }
        | NodeData::ProcessingInstruction { .. } => true,
        NodeData::Element { .. } => {
            let data = |source: String| source.trim_start().starts_with("data:");
            DROPPED.contains(&name(node))
                || attribute(node, "hidden").is_some()
                || name(node) == "img" && attribute(node, "src").is_none_or(data)
        }
        NodeData::Document | NodeData::Text { .. } => false,
    }
}

fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    let attributes = attrs.borrow();
    let mut attributes = attributes.iter();
    attributes
        .find(|attribute| &*attribute.name.local == wanted)
        .map(|attribute| attribute.value.to_string())
}

/// Resolves links relative to the page's URL.
fn resolve(node: &Node, base: &Url) {
    let NodeData::Element { attrs, .. } = &node.data else {
        return;
    };
    let mut attributes = attrs.borrow_mut();
    attributes.retain_mut(|attribute| {
        match &*attribute.name.local {
            "href" | "src" => {}
            "start" => {
                let first = attribute.value.trim().parse();
                return first.is_ok_and(|first: usize| (1..=FIRST).contains(&first));
            }
            _ => return true,
        }
        match base.join(attribute.value.trim()) {
            Ok(whole) if matches!(whole.scheme(), "http" | "https" | "mailto") => {
                attribute.value = whole.as_str().into();
                true
            }
            Ok(_) | Err(_) => false,
        }
    });
}

/// All elements with this name.
pub fn find(root: &Rc<Node>, wanted: &str) -> Vec<Rc<Node>> {
    let mut found = Vec::new();
    let mut open = vec![Rc::clone(root)];
    while let Some(node) = open.pop() {
        if name(&node) == wanted {
            found.push(Rc::clone(&node));
        }
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    found
}

/// All elements with this class.
pub fn of_class(root: &Rc<Node>, class: &str) -> Vec<Rc<Node>> {
    let mut found = below(root);
    found.retain(|node| has_class(node, class));
    found
}

pub fn has_class(node: &Node, class: &str) -> bool {
    attribute(node, "class").is_some_and(|all| all.split_whitespace().any(|one| one == class))
}

pub fn link(node: &Node) -> Option<String> {
    attribute(node, "href")
}

pub fn parse(html: &str) -> Option<Rc<Node>> {
    HtmlToMarkdown::new().html_to_tree(html).ok()
}

/// The text of an HTML fragment.
pub fn plain(html: &str) -> String {
    parse(html).map_or_else(|| html.to_owned(), |root| line(&root))
}

/// Its text on one line.
pub fn line(node: &Rc<Node>) -> String {
    collapse_whitespace(&all_text(node))
}

fn main(root: &Rc<Node>) -> Option<Rc<Node>> {
    let mut found = find(root, "main");
    let only = found.pop().filter(|_| found.is_empty())?;
    let length = |node| all_text(node).trim().len();
    // A page with most text outside of `<main>` is shown completely.
    (length(&only) * 4 > length(root)).then_some(only)
}

fn all_text(node: &Rc<Node>) -> String {
    below(node)
        .iter()
        .fold(String::new(), |text, node| match &node.data {
            NodeData::Text { contents } => text + &contents.borrow(),
            _ => text,
        })
}

fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

enum Step {
    Enter(Rc<Node>, bool),
    NewLine,
}

/// The text of a page, with one line per block.
pub fn text(root: &Rc<Node>) -> String {
    let mut text = String::new();
    let mut open = vec![Step::Enter(Rc::clone(root), false)];
    while let Some(step) = open.pop() {
        let (node, is_pre) = match step {
            Step::Enter(node, is_pre) => (node, is_pre),
            Step::NewLine => {
                new_line(&mut text);
                continue;
            }
        };
        if let NodeData::Text { contents } = &node.data {
            let contents = contents.borrow();
            if is_pre {
                text.push_str(&contents);
            } else {
                collapse(&mut text, &contents);
            }
            continue;
        }
        let name = name(&node);
        let is_block = BLOCKS.contains(&name);
        let is_pre = is_pre || name == "pre";
        if is_block {
            new_line(&mut text);
            open.push(Step::NewLine);
        } else if matches!(name, "td" | "th") && !text.ends_with(['\n', ' ']) {
            text.push(' ');
        }
        let children = node.children.borrow();
        let steps = children.iter().rev().cloned();
        open.extend(steps.map(|child| Step::Enter(child, is_pre)));
    }
    text
}

fn new_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn collapse(text: &mut String, more: &str) {
    for c in more.chars() {
        if !c.is_whitespace() {
            text.push(c);
        } else if !text.is_empty() && !text.ends_with([' ', '\n']) {
            text.push(' ');
        }
    }
}

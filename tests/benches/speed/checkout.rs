//! Generated checkout to search: 50 000 files, 400 MB, identical on every machine.

use std::fs;
use std::io;
use std::path::Path;

const FILES: usize = 50_000;
const FILES_IN_A_DIRECTORY: usize = 12;
/// Size of the corpus from which all files are taken, in bytes.
const CORPUS_BYTES: usize = 4 << 20;
/// Text that some files contain, once each.
pub const NEEDLE: &str = "fn the_needle_of_this_tree";
const FILES_TO_A_NEEDLE: usize = 1_000;
/// Number of ignored files, which no search should read.
const IGNORED_FILES: usize = 10_000;

const KINDS: [&str; 6] = ["rs", "ts", "py", "md", "json", "c"];
const WORDS: [&str; 32] = [
    "fn",
    "let",
    "value",
    "result",
    "return",
    "self",
    "context",
    "buffer",
    "unwrap_or_else",
    "match",
    "struct",
    "with",
    "path",
    "read",
    "write",
    "config",
    "error",
    "index",
    "length",
    "impl",
    "String",
    "Option",
    "for",
    "while",
    "in",
    "request",
    "response",
    "handler",
    "import",
    "from",
    "class",
    "const",
];

/// Creates the checkout unless it exists, and returns the number of bytes to search.
pub fn checkout(tree: &Path) -> io::Result<u64> {
    let mark = tree.with_extension("complete");
    if tree.is_dir()
        && let Some(size) = fs::read_to_string(&mark)
            .ok()
            .and_then(|size| size.parse().ok())
    {
        return Ok(size);
    }
    let mut chance = Lcg(0x9E37_79B9_7F4A_7C15);
    let corpus = lines(&mut chance);
    let mut total = 0;
    for number in 0..FILES {
        let directory = number / FILES_IN_A_DIRECTORY;
        // Twenty packages of about twenty modules, with directories two or three levels deep.
        let dir = format!(
            "package{}/src/module{}/part{directory}",
            directory % 20,
            directory / 20 % 23
        );
        let file = format!(
            "{dir}/{}{number}.{}",
            WORDS[chance.below(WORDS.len())],
            KINDS[chance.below(KINDS.len())]
        );
        // Most files are small, and a few are very large.
        let length = match chance.below(1000) {
            0 => 500_000 + chance.below(500_000),
            1..40 => 40_000 + chance.below(60_000),
            _ => 200 + chance.below(9_300),
        };
        let mut text = slice(&corpus, chance.below(CORPUS_BYTES - 1_200_000), length).to_owned();
        if number % FILES_TO_A_NEEDLE == 7 {
            text.push_str(NEEDLE);
            text.push('\n');
        }
        total += text.len() as u64;
        write(&tree.join(file), &text)?;
    }
    for number in 0..IGNORED_FILES {
        let dir = if number % 2 == 0 {
            "target/debug"
        } else {
            "node_modules/library"
        };
        write(
            &tree.join(format!("{dir}{}/{number}.js", number / 100)),
            NEEDLE,
        )?;
    }
    write(&tree.join(".gitignore"), "/target\n/node_modules\n")?;
    // Without it, other programs would ignore `.gitignore`.
    write(&tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(mark, total.to_string())?;
    Ok(total)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text)
}

fn lines(chance: &mut Lcg) -> String {
    let mut text = String::with_capacity(CORPUS_BYTES + 200);
    while text.len() < CORPUS_BYTES {
        text.push_str(&" ".repeat(4 * chance.below(4)));
        for _ in 0..chance.below(9) {
            text.push_str(WORDS[chance.below(WORDS.len())]);
            text.push_str([" ", " ", "_", ".", "(", "); ", " = ", ", "][chance.below(8)]);
        }
        text.push('\n');
    }
    text
}

/// Returns about `length` bytes of complete lines.
fn slice(corpus: &str, from: usize, length: usize) -> &str {
    let line = |at: usize| {
        corpus[at..]
            .find('\n')
            .map_or(corpus.len(), |end| at + end + 1)
    };
    let from = line(from);
    &corpus[from..line(from + length)]
}

/// Deterministic pseudorandom numbers.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

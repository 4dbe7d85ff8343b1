//! The table tests/requirements.toml: for each requirement its tests, and a mutation that makes the first one fail.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use toml::Value;

pub const TABLE: &str = "tests/requirements.toml";

/// The number of a requirement, shown as `R-007`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub u16);

/// A test by its source file and its name, shown as `host/a/src/b.rs::name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPath {
    pub file: String,
    pub name: String,
}

#[derive(Debug)]
pub struct Claim {
    pub tests: Vec<TestPath>,
    pub mutation: Option<Mutation>,
}

/// A change of the implementation that makes the first test of its claim fail.
#[derive(Clone, Debug)]
pub struct Mutation {
    pub file: String,
    /// Occurs once in the file.
    pub find: String,
    pub replace: String,
    pub kind: MutationKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    /// `find` and `replace` are expressions of one type, or `find` is a statement. A variable of the environment
    /// selects the mutation at run time, so that one build has all mutations of this kind.
    Switched,
    /// Any text, such as a constant. Is compiled in a separate build (`alone = true`).
    Alone,
}

#[derive(Debug)]
pub struct Table {
    pub claims: BTreeMap<Number, Claim>,
}

impl Table {
    pub fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("read {TABLE}"))?;
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse().with_context(|| format!("read {TABLE}"))?;
        let mut claims = BTreeMap::new();
        for (number, row) in table {
            let parsed = number
                .parse()
                .and_then(|number| Ok((number, claim(row)?)))
                .with_context(|| format!("{TABLE}: [{number}]"))?;
            claims.insert(parsed.0, parsed.1);
        }
        Ok(Self { claims })
    }
}

fn claim(row: Value) -> Result<Claim> {
    let Value::Table(mut row) = row else {
        bail!("is not a table: write `[R-nnn]` and `tests = [...]` below it");
    };
    let Some(Value::Array(tests)) = row.remove("tests") else {
        bail!("has no list `tests`");
    };
    let tests = tests
        .iter()
        .map(|test| {
            let path = test
                .as_str()
                .and_then(|test| test.split_once("::"))
                .with_context(|| format!("{test} is not \"FILE::TEST\""))?;
            Ok(TestPath::new(path.0, path.1))
        })
        .collect::<Result<Vec<_>>>()?;
    if tests.is_empty() {
        bail!("`tests` is empty");
    }
    let mut text = |key: &str| match row.remove(key) {
        Some(Value::String(value)) => Ok(Some(value)),
        None => Ok(None),
        Some(_) => bail!("`{key}` is not a string"),
    };
    let mutation = match (text("file")?, text("find")?, text("replace")?) {
        (None, None, None) => None,
        (Some(file), Some(find), Some(replace)) if !find.is_empty() => Some(Mutation {
            file,
            find,
            replace,
            kind: match row.remove("alone") {
                None => MutationKind::Switched,
                Some(Value::Boolean(true)) => MutationKind::Alone,
                Some(_) => bail!("`alone` is not `true`: leave it out"),
            },
        }),
        _ => bail!("a mutation has `file`, `find` and `replace`"),
    };
    if let Some(key) = row.keys().next() {
        bail!("unknown key `{key}`");
    }
    Ok(Claim { tests, mutation })
}

impl Mutation {
    /// The text of the file, which contains `find` once.
    pub fn read_source(&self, root: &Path) -> Result<String> {
        let Self { file, find, .. } = self;
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"))?;
        match text.matches(find.as_str()).count() {
            0 => bail!("{file} does not contain `{find}`: correct the mutation in {TABLE}"),
            1 => Ok(text),
            count => bail!("{file} contains `{find}` {count} times: make `find` in {TABLE} unique"),
        }
    }
}

impl TestPath {
    pub fn new(file: &str, name: &str) -> Self {
        Self {
            file: file.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for TestPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}::{}", self.file, self.name)
    }
}

impl Number {
    /// Three digits.
    pub fn from_digits(text: &str) -> Option<Self> {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Self)).flatten()
    }
}

impl FromStr for Number {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        text.strip_prefix("R-")
            .and_then(Self::from_digits)
            .with_context(|| format!("`{text}` is not `R-` and three digits"))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "R-{:03}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_tests_and_at_most_one_complete_mutation() {
        let row = "[R-007]\ntests = [\"a/b.rs::c\"]\n";
        let table = Table::parse(row).unwrap();
        let claim = &table.claims[&Number(7)];
        assert_eq!(claim.tests, [TestPath::new("a/b.rs", "c")]);
        assert!(claim.mutation.is_none());
        let change = "file = \"x\"\nfind = \"y\"\nreplace = \"\"\n";
        for (end, kind) in [
            ("", MutationKind::Switched),
            ("alone = true\n", MutationKind::Alone),
        ] {
            let table = Table::parse(&format!("{row}{change}{end}")).unwrap();
            let claim = &table.claims[&Number(7)];
            assert_eq!(claim.mutation.as_ref().unwrap().kind, kind);
        }
        for (text, error) in [
            ("[R-7]\n", "`R-7` is not `R-` and three digits"),
            (
                "R-007 = 1\n",
                "is not a table: write `[R-nnn]` and `tests = [...]` below it",
            ),
            ("[R-007]\n", "has no list `tests`"),
            ("[R-007]\ntests = []\n", "`tests` is empty"),
            ("[R-007]\ntests = [\"c\"]\n", "\"c\" is not \"FILE::TEST\""),
            (
                &format!("{row}file = \"x\"\n"),
                "a mutation has `file`, `find` and `replace`",
            ),
            (&format!("{row}file = 1\n"), "`file` is not a string"),
            (&format!("{row}test = 1\n"), "unknown key `test`"),
            (
                &format!("{row}{change}alone = false\n"),
                "`alone` is not `true`: leave it out",
            ),
        ] {
            let found = Table::parse(text).unwrap_err();
            assert_eq!(found.root_cause().to_string(), error, "{text}");
        }
        let twice = Table::parse(&format!("{row}{row}")).unwrap_err();
        assert!(twice.root_cause().to_string().contains("duplicate key"));
    }
}

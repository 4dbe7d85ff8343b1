//! Skill directories: each skill is a directory with a `SKILL.md`, and earlier skill directories take precedence.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use crate::roots;

const FILE: &str = "SKILL.md";
const MOST_SKILLS: usize = 200;
/// Number of invalid skills that are reported with a reason.
pub const MOST_BROKEN: usize = 20;
const MOST_BYTES: usize = 256 << 10;
/// Limit of the YAML front matter of a `SKILL.md`, in bytes.
const MOST_FRONT_BYTES: usize = 16 << 10;
const MOST_RESOURCES: usize = 100;
const MOST_LEVELS: usize = 4;
/// Limit of entries visited in a skill directory and in the directory of one skill.
const MAX_VISITED_ENTRIES: usize = 2000;

pub struct SkillStore {
    pub skills: Vec<Skill>,
    /// `name: why it cannot be used`
    pub broken: Vec<String>,
    /// Number of skills beyond the limits, which were not read.
    pub unread: usize,
}

#[derive(Debug)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    pub allowed_tools: Option<Vec<String>>,
    pub body: String,
    pub folder: PathBuf,
}

impl SkillStore {
    pub fn of(cx: &Context) -> Result<Self> {
        let mut store = Self {
            skills: Vec::new(),
            broken: Vec::new(),
            unread: 0,
        };
        for root in roots::skills(cx) {
            let Ok(entries) = fs::read_dir(&root.path) else {
                store.broken.push(format!(
                    "{}: the directory cannot be read",
                    inline(&root.path, 200)
                ));
                continue;
            };
            let mut folders: Vec<PathBuf> = entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|folder| !is_hidden(folder))
                .collect();
            // Directory order is unspecified.
            folders.sort();
            for (position, folder) in folders.into_iter().enumerate() {
                cx.check()?;
                if position < MAX_VISITED_ENTRIES && store.skills.len() < MOST_SKILLS {
                    store.add(folder);
                } else {
                    store.unread += usize::from(folder.join(FILE).is_file());
                }
            }
        }
        Ok(store)
    }

    fn add(&mut self, folder: PathBuf) {
        match Skill::read(&folder) {
            Ok(None) => {}
            Ok(Some(skill)) => match self.skills.iter().find(|known| known.name == skill.name) {
                Some(known) => self.broken.push(format!(
                    "{}: {} has the same name and comes first",
                    inline(&name_of(&folder), 128),
                    shown(&known.folder)
                )),
                None => self.skills.push(skill),
            },
            Err(reason) => {
                let name = inline(&name_of(&folder), 128);
                self.broken.push(format!("{name}: {reason}"));
            }
        }
    }

    /// Finds a skill by its name or directory name, ignoring case.
    pub fn find(&self, wanted: &str) -> Option<&Skill> {
        let by = |is: &dyn Fn(&Skill) -> bool| self.skills.iter().find(|skill| is(skill));
        by(&|skill| skill.name == wanted)
            .or_else(|| by(&|skill| skill.name.eq_ignore_ascii_case(wanted)))
            .or_else(|| by(&|skill| name_of(&skill.folder).eq_ignore_ascii_case(wanted)))
    }
}

impl Skill {
    /// `None` for a directory without a `SKILL.md`.
    fn read(folder: &Path) -> Result<Option<Self>, String> {
        let file = match fs::File::open(folder.join(FILE)) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(format!("{FILE} cannot be opened: {error}")),
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{FILE} cannot be read: {error}"))?;
        if bytes.len() > MOST_BYTES {
            return Err(format!("{FILE} is larger than {MOST_BYTES} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{FILE} is not text in UTF-8"))?;
        Self::of(&text, folder).map(Some)
    }

    /// Parses a `SKILL.md`.
    fn of(text: &str, folder: &Path) -> Result<Self, String> {
        let (front, body) = split(text)?;
        let scalar = |key: &str| match &front[key] {
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        // Without a description, the first line of the text is the best available summary.
        let first = || {
            body.lines()
                .map(|line| line.trim_start_matches('#').trim())
                .find(|line| !line.is_empty())
        };
        let description = scalar("description")
            .or_else(|| first().map(str::to_owned))
            .unwrap_or_default();
        Ok(Self {
            name: inline(&scalar("name").unwrap_or_else(|| name_of(folder)), 64),
            description: inline(&description, 1024),
            version: scalar("version").map(|version| inline(&version, 64)),
            allowed_tools: tools(&front["allowed-tools"]),
            body: body.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// The other files of the directory, and whether there are more.
    pub fn resources(&self) -> (Vec<String>, bool) {
        let mut found = Vec::new();
        let mut looks = MAX_VISITED_ENTRIES;
        collect_files(&self.folder, "", 1, &mut looks, &mut found);
        found.retain(|path| path != FILE);
        found.sort();
        let truncated = found.len() > MOST_RESOURCES || looks == 0;
        found.truncate(MOST_RESOURCES);
        (found, truncated)
    }
}

/// Splits the text into the YAML between two `---` lines and the rest.
fn split(text: &str) -> Result<(Value, &str), String> {
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text
        .strip_prefix("---")
        .and_then(|rest| rest.trim_start_matches([' ', '\r']).strip_prefix('\n'))
    else {
        return Ok((Value::Null, text));
    };
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (front, body) = (&rest[..end], &rest[end + line.len()..]);
            if front.len() > MOST_FRONT_BYTES {
                return Err(format!(
                    "the front matter of {FILE} is larger than {MOST_FRONT_BYTES} bytes"
                ));
            }
            let front = yaml(front)?;
            return Ok((front, body));
        }
        end += line.len();
    }
    Err(format!(
        "the front matter of {FILE} has no end; close it with a line `---`"
    ))
}

/// Parses the front matter and rejects aliases that expand beyond its limits.
fn yaml(front: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 2000, max_aliases: 50 },
    };
    serde_saphyr::from_str_with_options(front, options).map_err(|error| {
        let reason = inline(&error.without_snippet().to_string(), 200);
        format!("the front matter of {FILE} is not YAML: {reason}")
    })
}

/// Parses `Read, Bash(git *)` or a list; commas in parentheses are part of a tool.
fn tools(value: &Value) -> Option<Vec<String>> {
    let list = match value {
        Value::String(text) => {
            let mut depth = 0_i32;
            let split = text.split(move |letter: char| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                depth <= 0 && (letter == ',' || letter.is_whitespace())
            });
            split.map(str::to_owned).collect()
        }
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    let list: Vec<String> = list
        .iter()
        .map(|tool| inline(tool, 200))
        .filter(|tool| !tool.is_empty())
        .take(100)
        .collect();
    (!list.is_empty()).then_some(list)
}

fn collect_files(
    folder: &Path,
    above: &str,
    level: usize,
    looks: &mut usize,
    found: &mut Vec<String>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *looks == 0 {
            return;
        }
        *looks -= 1;
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let name = format!("{above}{}", inline(&name_of(&path), 128));
        if is_hidden(&path) {
        } else if kind.is_dir() && level < MOST_LEVELS {
            collect_files(&path, &format!("{name}/"), level + 1, looks, found);
        } else if kind.is_dir() {
            found.push(format!("{name}/"));
        } else {
            found.push(name);
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The path of a directory whose name is untrusted, for display.
pub fn shown(folder: &Path) -> String {
    inline(&folder.to_string_lossy(), 400)
}

fn is_hidden(path: &Path) -> bool {
    name_of(path).starts_with('.')
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod fuzz {
    use toolhost_fuzz_input::{assembled, check_message};

    use super::*;

    const FRAGMENTS: &[&str] = &[
        "---\n",
        "---",
        "\n",
        "name: ",
        "description: ",
        "version: ",
        "allowed-tools: ",
        "Read, Bash(git *)",
        "[a, b]",
        "- ",
        "|\n  ",
        ">-\n  ",
        "&a ",
        "*a",
        "<<: *a\n",
        "? ",
        "!!str ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\"\\e\\u202e\"",
        ": ",
        "# ",
        "1.0",
        ".inf",
        "null",
        "\t",
        "\r\n",
        "\u{feff}",
        "\u{202e}",
        "\u{1b}",
    ];

    #[test]
    fn fuzz_skill() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = assembled(bytes, FRAGMENTS);
            match Skill::of(&text, Path::new("/skills/one")) {
                Err(reason) => check_message(&reason),
                Ok(skill) => {
                    assert!(text.ends_with(&skill.body), "{text:?}");
                    // Each of the 64 characters can be escaped, for example as `\u{10ffff}`.
                    assert!(skill.name.chars().count() <= 64 * 10, "{text:?}");
                    let tools = skill.allowed_tools.unwrap_or_default();
                    assert!(tools.len() <= 100);
                    let values = [skill.name, skill.description];
                    for value in values.into_iter().chain(skill.version).chain(tools) {
                        check_message(&value);
                    }
                }
            }
        });
    }
}

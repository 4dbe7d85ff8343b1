//! A component as a tree of sections, and the changes that make mutants of it.

use wasmparser::{Parser, Payload};

/// `SplitMix64`: the same seed gives the same mutants everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).expect("less than a usize")
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// A component or module: its first eight bytes and its sections.
#[derive(Clone)]
struct Binary {
    head: Vec<u8>,
    sections: Vec<Section>,
}

#[derive(Clone)]
struct Section {
    id: u8,
    body: Body,
    /// In the place of its length.
    length: Option<Vec<u8>>,
}

#[derive(Clone)]
enum Body {
    Bytes(Vec<u8>),
    Nested(Binary),
}

// Ids of sections, of components and of core modules.
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const COMPONENT_IMPORT: u8 = 10;
const COMPONENT_EXPORT: u8 = 11;
const CODE: u8 = 10;
const DATA: u8 = 11;

fn leb(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn write_leb(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        out.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return;
        }
    }
}

impl Binary {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_at_checked(8)?;
        let is_component = head[6] == 1;
        let mut sections = Vec::new();
        while let Some((id, after)) = rest.split_first() {
            let (length, width) = leb(after)?;
            let (body, next) = after[width..].split_at_checked(length)?;
            let nested = is_component && matches!(*id, CORE_MODULE | COMPONENT);
            let body = match nested.then(|| Self::parse(body)).flatten() {
                Some(binary) => Body::Nested(binary),
                None => Body::Bytes(body.to_vec()),
            };
            sections.push(Section {
                id: *id,
                body,
                length: None,
            });
            rest = next;
        }
        let head = head.to_vec();
        Some(Self { head, sections })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = self.head.clone();
        for section in &self.sections {
            let body = match &section.body {
                Body::Bytes(bytes) => bytes.clone(),
                Body::Nested(binary) => binary.bytes(),
            };
            out.push(section.id);
            match &section.length {
                Some(length) => out.extend(length),
                None => write_leb(body.len(), &mut out),
            }
            out.extend(body);
        }
        out
    }

    fn is_component(&self) -> bool {
        self.head[6] == 1
    }

    fn nested(&mut self) -> impl Iterator<Item = &mut Self> {
        let bodies = self.sections.iter_mut().map(|section| &mut section.body);
        bodies.filter_map(|body| match body {
            Body::Nested(binary) => Some(binary),
            Body::Bytes(_) => None,
        })
    }

    /// This one, or one that is nested in it.
    fn any(&mut self, random: &mut Random) -> &mut Self {
        let count = self.nested().count();
        match random.below(count + 1).checked_sub(1) {
            None => self,
            Some(at) => self.nested().nth(at).expect("counted").any(random),
        }
    }

    /// The largest nested core module: the code of the author.
    fn core(&mut self) -> Option<&mut Self> {
        let modules = self.nested().filter(|nested| !nested.is_component());
        modules.max_by_key(|module| module.bytes().len())
    }

    fn body(&mut self, id: u8) -> Option<&mut Vec<u8>> {
        let mut sections = self.sections.iter_mut();
        let section = sections.find(|section| section.id == id)?;
        match &mut section.body {
            Body::Bytes(bytes) => Some(bytes),
            Body::Nested(_) => None,
        }
    }

    /// The content of the custom section of this name.
    fn custom(&self, name: &str) -> Option<Vec<u8>> {
        self.sections.iter().find_map(|section| {
            let Body::Bytes(bytes) = &section.body else {
                return None;
            };
            let (length, width) = leb(bytes).filter(|_| section.id == CUSTOM)?;
            let (found, content) = bytes[width..].split_at_checked(length)?;
            (found == name.as_bytes()).then(|| content.to_vec())
        })
    }

    fn add_custom(&mut self, name: &str, content: &[u8]) {
        let mut bytes = Vec::new();
        write_leb(name.len(), &mut bytes);
        bytes.extend(name.as_bytes());
        bytes.extend(content);
        self.sections.push(Section {
            id: CUSTOM,
            body: Body::Bytes(bytes),
            length: None,
        });
    }

    fn without_custom(&mut self, name: &str) {
        self.sections.retain(|section| match &section.body {
            Body::Bytes(bytes) if section.id == CUSTOM => {
                let named = leb(bytes).map(|(_, width)| &bytes[width..]);
                named.is_none_or(|bytes| !bytes.starts_with(name.as_bytes()))
            }
            Body::Bytes(_) | Body::Nested(_) => true,
        });
    }
}

/// How a mutant differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Bits,
    Run,
    Cut,
    Sections,
    Length,
    Manifest,
    Custom,
    Names,
    Code,
    Data,
}

/// Changes that leave the component valid are the most valuable, so there are more of them.
const CHANGES: [Change; 16] = [
    Change::Bits,
    Change::Run,
    Change::Cut,
    Change::Sections,
    Change::Length,
    Change::Manifest,
    Change::Manifest,
    Change::Custom,
    Change::Names,
    Change::Code,
    Change::Code,
    Change::Code,
    Change::Code,
    Change::Data,
    Change::Data,
    Change::Data,
];

/// The manifest's section, as `toolhost_contract::manifest::SECTION`.
const MANIFEST: &str = toolhost_contract::manifest::MANIFEST_SECTION;

/// A mutant of `source`, which is a valid component.
pub fn mutant(source: &[u8], random: &mut Random) -> (Change, Vec<u8>) {
    let change = *random.pick(&CHANGES);
    let mut root = Binary::parse(source).expect("a valid component");
    let bytes = match change {
        Change::Bits => flipped(source, random),
        Change::Run => overwritten(source, random),
        Change::Cut => source[..random.below(source.len())].to_vec(),
        Change::Sections => {
            shuffle(root.any(random), random);
            root.bytes()
        }
        Change::Length => {
            lie_about_a_length(root.any(random), random);
            root.bytes()
        }
        Change::Manifest => {
            let text = root.custom(MANIFEST).unwrap_or_default();
            root.without_custom(MANIFEST);
            let text = String::from_utf8_lossy(&text).into_owned();
            root.add_custom(MANIFEST, &manifest(&text, random));
            root.bytes()
        }
        Change::Custom => {
            let binary = root.any(random);
            let name = hostile(random);
            binary.without_custom("name");
            binary.add_custom(&name, name.as_bytes());
            root.bytes()
        }
        Change::Names => {
            let id = *random.pick(&[COMPONENT_IMPORT, COMPONENT_EXPORT]);
            change_text(&mut root, id, random);
            root.bytes()
        }
        Change::Code => {
            for _ in 0..=random.below(4) {
                change_code(&mut root, random);
            }
            root.bytes()
        }
        Change::Data => {
            if let Some(core) = root.core() {
                for _ in 0..=random.below(4) {
                    change_text(core, DATA, random);
                }
            }
            root.bytes()
        }
    };
    (change, bytes)
}

fn flipped(source: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = source.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

fn overwritten(source: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = source.to_vec();
    let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
    let how = random.below(4);
    for step in 0..=random.below(64) {
        let byte = match how {
            0 => 0,
            1 => 0xff,
            2 => random.byte(),
            _ => source[(from + step) % source.len()],
        };
        let at = (to + step) % source.len();
        bytes[at] = byte;
    }
    bytes
}

fn shuffle(binary: &mut Binary, random: &mut Random) {
    let count = binary.sections.len();
    if count == 0 {
        return;
    }
    let (one, other) = (random.below(count), random.below(count));
    match random.below(3) {
        0 => binary.sections.swap(one, other),
        1 => drop(binary.sections.remove(one)),
        _ => {
            let copy = binary.sections[one].clone();
            binary.sections.insert(other, copy);
        }
    }
}

fn lie_about_a_length(binary: &mut Binary, random: &mut Random) {
    let count = binary.sections.len();
    let Some(section) = binary.sections.get_mut(random.below(count)) else {
        return;
    };
    let real = match &section.body {
        Body::Bytes(bytes) => bytes.len(),
        Body::Nested(binary) => binary.bytes().len(),
    };
    let mut length = Vec::new();
    match random.below(6) {
        0 => write_leb(real + 1 + random.below(64), &mut length),
        1 => write_leb(real.saturating_sub(1 + random.below(64)), &mut length),
        2 => length.push(0),
        3 => length.extend([0xff, 0xff, 0xff, 0xff, 0x0f]),
        4 => length.extend([0xff; 6]),
        // The right one, in more bytes than it needs.
        _ => {
            write_leb(real | 1 << 28, &mut length);
            length[4] = 0;
        }
    }
    section.length = Some(length);
}

/// Text that must be escaped before it is shown to a user.
fn hostile(random: &mut Random) -> String {
    let texts = [
        "\u{1b}[2J\u{1b}[H",
        "\u{202e}gnp.exe",
        "\u{2066}a\u{2069}\u{200b}",
        "a\nerror: everything is fine\r",
        "\u{e0041}\u{e0042}",
        "\0",
        "toolhost:manifest",
        "\u{85}\u{9b}31m",
        "../../etc/passwd",
    ];
    let text = *random.pick(&texts);
    match random.below(4) {
        0 => text.repeat(1 + random.below(20_000)),
        _ => text.to_owned(),
    }
}

fn manifest(text: &str, random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.below(lines.len());
    let hostile = hostile(random);
    let quoted = hostile.replace(['\\', '"'], "");
    match random.below(11) {
        _ if lines.is_empty() => lines.push(hostile),
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let key = lines[at].split('=').next().unwrap_or_default().to_owned();
            let values = ["1", "[]", "{}", "true", "1979-05-27", "\"\"", "-0", "nan"];
            lines[at] = format!("{key}= {}", random.pick(&values));
        }
        3 => {
            let key = lines[at].split('=').next().unwrap_or_default().to_owned();
            lines[at] = format!("{key}= \"{quoted}\"");
        }
        4 => lines.insert(at, format!("\"{quoted}\" = 1")),
        5 => lines.insert(at, format!("x = {}", "[".repeat(1 + random.below(5_000)))),
        6 => lines.insert(at, format!("{}x = 1", "a.".repeat(1 + random.below(5_000)))),
        7 => {
            lines.push("[limits]".to_owned());
            let sizes = ["\"16EiB\"", "\"-1\"", "\"0\"", "1e400", "\"99999999999h\""];
            let key = *random.pick(&["memory", "output", "stdout", "timeout"]);
            lines.push(format!("{key} = {}", random.pick(&sizes)));
        }
        8 => {
            lines.push("[[needs]]".to_owned());
            lines.push(format!("capability = \"{quoted}\""));
            lines.push("why = \"x\"".to_owned());
        }
        9 => {
            let mut bytes = text.as_bytes().to_vec();
            let at = random.below(bytes.len());
            bytes[at] = 0x80 | random.byte();
            return bytes;
        }
        _ => lines.push("#".repeat(70_000)),
    }
    lines.join("\n").into_bytes()
}

/// Changes readable bytes of a section, as many as there were.
fn change_text(binary: &mut Binary, id: u8, random: &mut Random) {
    let Some(bytes) = binary.body(id) else {
        return;
    };
    let readable: Vec<usize> = (0..bytes.len())
        .filter(|at| matches!(bytes[*at], b' '..=b'~'))
        .collect();
    if readable.is_empty() {
        return;
    }
    let at = *random.pick(&readable);
    let pieces: [&[u8]; 12] = [
        b"\"",
        b"\\",
        b"{",
        b"]",
        b"\n",
        b"\x1b[31m",
        b"\xff",
        b"\xf0\x9f",
        b"\0",
        "\u{202e}".as_bytes(),
        b"99999999999999999999",
        b"/../",
    ];
    let piece = match random.below(2) {
        0 => vec![b'!' + random.byte() % 94],
        _ => random.pick(&pieces).to_vec(),
    };
    for (to, byte) in bytes[at..].iter_mut().zip(piece) {
        *to = byte;
    }
}

/// Changes one instruction so that it probably still fits: its constant, its offset, its kind.
fn change_code(root: &mut Binary, random: &mut Random) -> Option<()> {
    let core = root.core()?;
    core.body(CODE)?;
    let mut bytes = core.bytes();
    let bodies: Vec<_> = Parser::new(0)
        .parse_all(&bytes)
        .filter_map(|payload| match payload.ok()? {
            Payload::CodeSectionEntry(body) => Some(body),
            _ => None,
        })
        .collect();
    let body = random.pick(bodies.get(..).filter(|bodies| !bodies.is_empty())?);
    let operators = body.get_operators_reader().ok()?;
    let offsets: Vec<usize> = operators
        .into_iter_with_offsets()
        .filter_map(|operator| Some(operator.ok()?.1))
        .collect();
    // An instruction that was changed before may be the first that cannot be read.
    let at = *offsets.get(random.below(offsets.len()))?;
    let among = |random: &mut Random, first: u8, last: u8| {
        first + u8::try_from(random.below(usize::from(last - first) + 1)).expect("a byte")
    };
    match bytes[at] {
        // Constants, variables, calls, branches.
        0x0c | 0x0d | 0x10 | 0x20..=0x24 | 0x41 | 0x42 => change_leb(&mut bytes, at + 1, random),
        // Loads and stores: the offset, after the alignment.
        0x28..=0x3e => change_leb(&mut bytes, at + 2, random),
        0x46..=0x4f => bytes[at] = among(random, 0x46, 0x4f),
        0x51..=0x5a => bytes[at] = among(random, 0x51, 0x5a),
        0x6a..=0x78 => bytes[at] = among(random, 0x6a, 0x78),
        0x7c..=0x8a => bytes[at] = among(random, 0x7c, 0x8a),
        // A block becomes a loop, and the other way round.
        0x02 | 0x03 => bytes[at] ^= 1,
        // What was done is not done.
        0x1a => bytes[at] = 0x01,
        _ => {}
    }
    *core = Binary::parse(&bytes)?;
    Some(())
}

fn change_leb(bytes: &mut [u8], from: usize, random: &mut Random) {
    for byte in &mut bytes[from..] {
        let more = *byte & 0x80;
        if random.below(2) == 0 {
            *byte = more | random.byte() & 0x7f;
        }
        if more == 0 {
            return;
        }
    }
}

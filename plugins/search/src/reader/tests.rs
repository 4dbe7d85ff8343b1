//! Reading of files in windows, with lines around and cut characters.

use std::fs;

use super::*;

/// The searched text of all windows of a file, and for each window the context before and after it.
fn read(bytes: &[u8], manner: ReadOptions) -> (ReadExtent, Vec<u8>, Vec<(u64, usize, usize)>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::write(&path, bytes).unwrap();
    let mut file = File::open(path.to_str().unwrap()).unwrap();
    let mut searched = Vec::new();
    let mut around = Vec::new();
    let count = |text: &[u8]| memchr_iter(b'\n', text).count();
    let (extent, _) = Reader::default()
        .read(&mut file, manner, &mut |_, window| {
            let Range { start, end } = window.range;
            let before = count(&window.text[..start]);
            let line = window.line + before as u64;
            around.push((line, before, count(&window.text[end..])));
            searched.extend_from_slice(&window.text[start..end]);
            ControlFlow::<()>::Continue(())
        })
        .unwrap();
    (extent, searched, around)
}

const PLAIN: ReadOptions = ReadOptions {
    binary: BinaryHandling::Skip,
    around: (0, 0),
    whole: false,
};

#[test]
fn c_08_the_windows_of_a_file_are_all_of_it_with_the_lines_around() {
    let line = |number: usize| format!("{number} {}\n", "y".repeat(number % 200));
    let text: String = (1..60_000).map(line).collect();
    for around in [(0, 0), (1, 0), (0, 1), (3, 5), (1000, 1000)] {
        let (extent, searched, windows) = read(text.as_bytes(), ReadOptions { around, ..PLAIN });
        assert_eq!(extent, ReadExtent::All);
        assert!(searched == text.as_bytes(), "{around:?}");
        assert!(windows.len() > 2, "{windows:?}");
        let mut lines = 1;
        for (nth, (line, before, after)) in windows.iter().enumerate() {
            assert_eq!(*line, lines, "{around:?}");
            assert_eq!(*before, if nth == 0 { 0 } else { around.0 });
            assert!(nth + 1 == windows.len() || *after >= around.1);
            let next = windows.get(nth + 1).map_or(*line, |next| next.0);
            lines = next;
        }
    }
}

#[test]
fn d_03_what_is_cut_of_a_character_counts_as_one() {
    for (bytes, expected) in [
        (&b"\xff\xfea\0\n\0"[..], "a\n"),
        (b"\xfe\xff\0a\xd8", "a\u{fffd}"),
        (b"\xff\xfea\0\x3d\xd8", "a\u{fffd}"),
        (b"\xff\xfe\x3d\xd8\0\xde", "\u{1f600}"),
        (b"\xff\xfe\x3d\xd8a\0", "\u{fffd}a"),
        (b"\xef\xbb\xbfa", "a"),
        (b"\xff\xfe", ""),
    ] {
        let (extent, searched, _) = read(bytes, PLAIN);
        assert_eq!(String::from_utf8_lossy(&searched), expected, "{bytes:?}");
        assert_eq!(extent, ReadExtent::All);
    }
    let wide: Vec<u8> = "\u{1f600}x"
        .repeat(70_000)
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let (_, searched, _) = read(&[&b"\xff\xfe"[..], &wide].concat(), PLAIN);
    assert!(searched == "\u{1f600}x".repeat(70_000).as_bytes());
}

#[test]
fn a_zero_byte_in_the_beginning_is_no_text() {
    for bytes in [&b"a\0b"[..], b"\xff\xfea\0\0\0"] {
        assert_eq!(read(bytes, PLAIN).0, ReadExtent::Binary);
        let manner = ReadOptions {
            binary: BinaryHandling::Search,
            ..PLAIN
        };
        assert_eq!(read(bytes, manner).0, ReadExtent::All);
    }
}

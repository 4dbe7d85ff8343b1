//! A local web page for the fetch of the scenario.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

const HTML: &str = "<!doctype html>
<html><head><title>Greetings of the world</title><script>var tracked = true;</script></head>
<body><h1>Greetings</h1>
<p>In <b>French</b> one says <i>Bonjour</i>; see <a href=\"/more\">more</a>.</p>
<ul><li>Hola</li><li>Ciao</li></ul>
</body></html>
";

/// Serves until the test ends; answers the authority, `127.0.0.1:PORT`.
pub fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client may close the connection early.
            let _ = answer(&stream);
        }
    });
    authority
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut head = BufReader::new(stream);
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = HTML.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{HTML}"
    )
}

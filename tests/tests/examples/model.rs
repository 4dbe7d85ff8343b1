//! A model that says what a script says, over HTTP, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use serde_json::Value;

pub struct Model {
    address: String,
    serving: JoinHandle<Vec<Asked>>,
}

/// One request.
pub struct Asked {
    pub path: String,
    /// With names in lower case.
    pub headers: Vec<String>,
    pub body: Value,
}

impl Model {
    /// Answers the first request with the first of `script`, and so on, and then no more.
    pub fn new(script: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let answers = script.into_iter();
            answers
                .map(|answer| {
                    let (stream, _) = listener.accept().unwrap();
                    serve(stream, &answer)
                })
                .collect()
        });
        Self { address, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that it was asked; the whole script was played.
    pub fn asked(self) -> Vec<Asked> {
        self.serving.join().unwrap()
    }
}

fn serve(mut stream: TcpStream, answer: &Value) -> Asked {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let path = line().split(' ').nth(1).unwrap().to_owned();
    let headers: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()))
        .map(|line| line.to_lowercase())
        .collect();
    let length: usize = headers
        .iter()
        .find_map(|header| header.strip_prefix("content-length: ")?.parse().ok())
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
    Asked {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap(),
    }
}

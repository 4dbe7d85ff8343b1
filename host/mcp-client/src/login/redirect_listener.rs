//! The OAuth redirect listener: accepts the one request that contains the state of the login.
//!
//! Other users of the machine and web pages can connect to it, so only the right state ends the wait, and idle
//! connections do not block others.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

const MAX_REQUEST: usize = 16 << 10;
/// Maximum number of connections. Beyond it the oldest is closed: a browser sends its request immediately.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub struct RedirectListener {
    listener: TcpListener,
    pub url: String,
}

impl RedirectListener {
    pub async fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self {
            listener,
            url: format!("http://127.0.0.1:{port}/callback"),
        })
    }

    /// Waits for the request with this state and returns its query. Other requests are rejected.
    pub async fn wait_for_redirect(&self, state: &str) -> io::Result<String> {
        let (found, mut queries) = mpsc::channel(1);
        let mut visitors: VecDeque<RedirectConnection> = VecDeque::new();
        loop {
            tokio::select! {
                Some(query) = queries.recv() => return Ok(query),
                accepted = self.listener.accept() => {
                    let Ok((stream, _)) = accepted else {
                        // For example, if no file descriptor is available.
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    visitors.retain(|visitor| !visitor.0.is_finished());
                    if visitors.len() == MAX_CONNECTIONS {
                        visitors.pop_front();
                    }
                    let (state, found) = (state.to_owned(), found.clone());
                    visitors.push_back(RedirectConnection(tokio::spawn(async move {
                        if let Ok(Ok(Some(query))) = timeout(CONNECTION_TIMEOUT, handle_connection(stream, &state)).await {
                            let _ = found.send(query).await;
                        }
                    })));
                }
            }
        }
    }
}

/// Aborts the connection on drop.
struct RedirectConnection(JoinHandle<()>);

impl Drop for RedirectConnection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn handle_connection(mut stream: TcpStream, state: &str) -> io::Result<Option<String>> {
    let query = read_query(&mut stream)
        .await?
        .filter(|query| has_state(query, state));
    let (status, body) = match &query {
        Some(_) => (
            "200 OK",
            "You can close this page and return to the terminal.",
        ),
        None => ("404 Not Found", "Not found."),
    };
    // The result does not wait for a browser that reads slowly.
    let _ = timeout(
        Duration::from_secs(1),
        write_response(&mut stream, status, body),
    )
    .await;
    Ok(query)
}

/// Whether the query contains exactly one state, and the right one.
pub(super) fn has_state(query: &str, state: &str) -> bool {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let mut states = pairs.filter(|(name, _)| name == "state");
    states.next().is_some_and(|(_, value)| value == state) && states.next().is_none()
}

pub(super) async fn read_query(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || head.len() + count > MAX_REQUEST {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..count]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut parts = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (parts.next(), parts.next().unwrap_or_default());
    let query = target.strip_prefix("/callback?");
    Ok(query.filter(|_| method == Some("GET")).map(str::to_owned))
}

async fn write_response(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status_line(at: &str, line: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream
            .write_all(format!("{line}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn w_03_only_the_request_with_the_right_state_ends_the_login() {
        let back = RedirectListener::listen().await.unwrap();
        let at = back.listener.local_addr().unwrap().to_string();
        let asks = async {
            // More idle connections than are kept.
            let mut silent = Vec::new();
            for _ in 0..=MAX_CONNECTIONS {
                silent.push(TcpStream::connect(&at).await.unwrap());
            }
            for line in [
                "GET / HTTP/1.1",
                "POST /callback?code=a&state=b HTTP/1.1",
                "GET /callback?code=x HTTP/1.1",
                "GET /callback?code=a&state=guess HTTP/1.1",
                "GET /callback?code=a&xstate=b HTTP/1.1",
                "GET /callback?code=a&state=b&state=c HTTP/1.1",
                "GET /callback?error=access_denied&state=guess HTTP/1.1",
                "nonsense",
            ] {
                assert_eq!(
                    status_line(&at, line).await,
                    "HTTP/1.1 404 Not Found",
                    "{line}"
                );
            }
            assert_eq!(
                status_line(&at, "GET /callback?code=a&state=b HTTP/1.1").await,
                "HTTP/1.1 200 OK"
            );
            drop(silent);
        };
        let (query, ()) = tokio::join!(back.wait_for_redirect("b"), asks);
        assert_eq!(query.unwrap(), "code=a&state=b");
    }
}

//! Connects to exactly one of the checked addresses.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// A connection, with TLS or without.
pub(crate) trait ConnectionStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ConnectionStream for T {}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialError {
    Timeout,
    Failed(String),
}

/// Dials the addresses one after the other. Each gets an equal share of the remaining time, so that an address that
/// drops packets does not use up the time of the next one.
pub(crate) async fn dial_first<T, F>(
    addresses: &[SocketAddr],
    deadline: Instant,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, DialError>
where
    F: Future<Output = io::Result<T>>,
{
    let mut failure = DialError::Timeout;
    for (index, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(now) / left;
        match timeout_at(now + share, dial(*address)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => failure = DialError::Failed(error.kind().to_string()),
            Err(_) => {}
        }
    }
    Err(failure)
}

pub(crate) async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn check(dialled: &[&str], expected: Result<&str, DialError>) {
        let addresses: Vec<SocketAddr> = (1..=dialled.len())
            .map(|port| SocketAddr::from(([192, 0, 2, 1], u16::try_from(port).unwrap())))
            .collect();
        let deadline = Instant::now() + Duration::from_secs(10);
        let answer = dial_first(&addresses, deadline, |address| async move {
            match dialled[usize::from(address.port()) - 1] {
                "silent" => std::future::pending().await,
                "refused" => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                name => Ok(name),
            }
        })
        .await;
        assert_eq!(answer, expected, "{dialled:?}");
        assert!(
            Instant::now() <= deadline + Duration::from_millis(1),
            "{dialled:?} took too long"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_unresponsive_address_leaves_time_for_the_next() {
        check(&["a", "b"], Ok("a")).await;
        check(&["refused", "b"], Ok("b")).await;
        check(&["silent", "silent", "c"], Ok("c")).await;
        check(&["silent", "silent"], Err(DialError::Timeout)).await;
        check(
            &["silent", "refused"],
            Err(DialError::Failed("connection refused".to_owned())),
        )
        .await;
        check(&[], Err(DialError::Timeout)).await;
    }
}
